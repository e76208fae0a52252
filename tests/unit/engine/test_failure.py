"""The report of a failed attempt: patched only if a value differs, with kube-scheduler's text."""

import pytest

from scheduler.engine.attempt import failure
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.status import unschedulable
from scheduler.objects.pod import PodCondition
from scheduler.state.podindex import Placed, place
from scheduler.state.shapes import Shapes
from tests.property.making import make_pod, with_meta, with_status

FREED = "P frees capacity for the pod default/boss of priority 7"
NOW = 1_767_225_600.0
NOW_TEXT = "2026-01-01T00:00:00Z"
LATER_TEXT = "2026-01-01T00:00:09Z"


def queued_with(condition: PodCondition | None = None, nominated: str = "") -> QueuedPod:
    """Return a queued pod of generation 7 with this condition and nomination."""
    pod = with_meta(make_pod("p", nominated=nominated), generation=7)
    if condition is not None:
        pod = with_status(pod, conditions=(condition,))
    return QueuedPod(pod, 0, NOW)


def scheduled(status: str, reason: str = "Unschedulable", message: str = "m") -> PodCondition:
    """Return a PodScheduled condition that is some time old."""
    return PodCondition("PodScheduled", status, reason, message, 3, "2025-05-05T05:05:05Z")


def placed(name: str, node: str = "n0", *, assumed: bool = False) -> Placed:
    """Return the record of a pod on a node."""
    pod = make_pod(name, node=node)
    return place(pod, Shapes().of(pod), node, assumed=assumed)


class TestCondition:
    """PodScheduled=False with reason, message, generation and time."""

    def test_the_first_verdict(self):
        """The first patch has all fields of the condition; the nomination is unchanged."""
        patch = failure.status_patch(queued_with(), "Unschedulable", "m", None, NOW)

        assert patch is not None
        expected = PodCondition("PodScheduled", "False", "Unschedulable", "m", 7, NOW_TEXT)
        assert expected == patch.condition
        assert ("default", "p", "uid-p") == (patch.namespace, patch.name, patch.uid)
        assert patch.nominated_node is None

    @pytest.mark.parametrize("nominated", [None, ""])
    def test_nothing_new_needs_no_patch(self, nominated: str | None):
        """Reason and message equal the pod's condition, and there is no nomination to clear."""
        queued = queued_with(scheduled("False"))

        assert failure.status_patch(queued, "Unschedulable", "m", nominated, NOW) is None

    def test_a_written_condition_counts_before_the_watch_event(self):
        """The same verdict is not written twice."""
        queued = queued_with()
        failure.status_patch(queued, "Unschedulable", "m", None, NOW)

        assert failure.status_patch(queued, "Unschedulable", "m", None, NOW + 9) is None

    def test_a_condition_that_the_pod_never_shows_is_written_again(self):
        """The server has refused the patch: it is sent again, with the same time, and then not at
        once again.
        """
        queued = queued_with()
        first = failure.status_patch(queued, "Unschedulable", "m", None, NOW)
        later = NOW + failure.SHOWN_WITHIN_S

        assert first == failure.status_patch(queued, "Unschedulable", "m", None, later)
        assert failure.status_patch(queued, "Unschedulable", "m", None, later + 9) is None

    def test_the_time_moves_only_when_the_status_flips(self):
        """Another message keeps the time, whether the watch shows it or only this process
        wrote it.
        """
        shown = queued_with(scheduled("False"))
        patch = failure.status_patch(shown, "Unschedulable", "other", None, NOW)
        assert patch is not None
        assert patch.condition is not None
        assert "2025-05-05T05:05:05Z" == patch.condition.last_transition_time

        reported = queued_with()
        failure.status_patch(reported, "Unschedulable", "m", None, NOW)
        patch = failure.status_patch(reported, "SchedulerError", "other", None, NOW + 9)
        assert patch is not None
        assert patch.condition is not None
        assert NOW_TEXT == patch.condition.last_transition_time

    def test_a_flip_takes_the_present_time(self):
        """If the condition changes from True to False, its transition time is set to now."""
        queued = queued_with(scheduled("True"))
        patch = failure.status_patch(queued, "Unschedulable", "m", None, NOW + 9)

        assert patch is not None
        assert patch.condition is not None
        assert LATER_TEXT == patch.condition.last_transition_time


class TestNomination:
    """A patch sets the nomination, clears it, or leaves it unchanged."""

    def test_only_the_nomination_differs(self):
        """The patch does not repeat the condition."""
        queued = queued_with(scheduled("False"), nominated="n0")
        patch = failure.status_patch(queued, "Unschedulable", "m", "", NOW)

        assert patch is not None
        assert (None, "") == (patch.condition, patch.nominated_node)
        assert failure.status_patch(queued, "Unschedulable", "m", "", NOW) is None

    def test_what_is_so_already_is_not_patched(self):
        """A nomination that the watch reported or that this process wrote last is not written
        again.
        """
        queued = queued_with(nominated="n0")
        assert failure.nomination_patch(queued, "n0") is None
        assert failure.nomination_patch(queued, "n1") is not None
        assert failure.nomination_patch(queued, "n1") is None
        assert failure.nomination_patch(queued, "n0") is not None

    def test_the_watch_has_the_last_word(self):
        """The result is compared with a nomination that another client has changed since."""
        queued = queued_with(nominated="n0")
        failure.nomination_patch(queued, "n1")
        queued.renew(make_pod("p", nominated="n2"))

        assert failure.nomination_patch(queued, "n1") is not None


class TestEvents:
    """events.k8s.io/v1, as kube-scheduler fills them in."""

    def test_failed(self):
        """An error has a warning event with the whole message."""
        record = failure.failed_event(make_pod("p"), "why", NOW)

        assert ("Warning", "FailedScheduling", "Scheduling", "why") == (
            record.type,
            record.reason,
            record.action,
            record.note,
        )
        assert ("default", "p", "uid-p", "1") == (
            record.namespace,
            record.name,
            record.uid,
            record.resource_version,
        )
        assert ("trellis", NOW, None) == (record.scheduler_name, record.now, record.related)

    def test_scheduled(self):
        """Pod and node by name."""
        record = failure.scheduled_event(make_pod("p"), "n0", NOW)

        assert ("Normal", "Scheduled", "Binding") == (record.type, record.reason, record.action)
        assert "Successfully assigned default/p to n0" == record.note

    @pytest.mark.parametrize(
        ("victim", "group", "note"),
        [
            (placed("p"), "", f"n0: {FREED}"),
            (
                placed("p", assumed=True),
                "",
                f"n0 (in kube-scheduler memory): {FREED}",
            ),
            (
                placed("p", "n1"),
                "",
                f"n1: {FREED} on node n0, and all pods of this group go together",
            ),
            (
                placed("p", "n1"),
                "default/g",
                "n1: P frees capacity for the group default/g, pod default/boss of priority 7",
            ),
        ],
    )
    def test_preempted(self, victim: Placed, group: str, note: str):
        """About the victim and its own node, related to the preemptor."""
        by = failure.PreemptionRecord(make_pod("boss", priority=7), "n0", "P", group)
        record = failure.preempted_event(victim, by, NOW)

        assert f"Preempted by pod uid-boss on node {note}" == record.note
        assert ("p", "uid-p", "trellis") == (record.name, record.uid, record.scheduler_name)
        assert ("default", "boss", "uid-boss") == record.related

    def test_preempting(self):
        """The preemptor's event names its victims; of many it names the first and their number."""
        by = failure.PreemptionRecord(make_pod("boss"), "n0", "P")
        one = failure.preempting_event(by, [placed("p")], NOW)
        many = failure.preempting_event(by, [placed(f"p{n}", "n1") for n in range(20)], NOW)

        text = "P frees capacity for it on node n0 by evicting"
        assert f"{text} 1 pod of lower priority: default/p on node n0" == one.note
        assert many.note.startswith(f"{text} 20 pods of lower priority: default/p0 on node n1, ")
        assert many.note.endswith("default/p7 on node n1, 12 more")
        assert ("Preempting", "boss") == (many.reason, many.name)


def test_rejected_after_a_node_was_chosen():
    """One node was feasible, and the message has its reason."""
    text = failure.rejected_after_choice(unschedulable("full", "closed"))

    assert "0/1 nodes are available: 1 full, closed." == text
