"""The parts of the queues that the model of tests/property leaves out."""

from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.engine.queue.hints import UnschedulablePods
from scheduler.engine.queue.pod import Where
from scheduler.framework.registry import Registry
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig
from tests.property.tinyplugins import ALL, spec_of


def two_profiles() -> Rig:
    """Return a rig whose engine serves `trellis` and `other`, with a pod of each."""
    from scheduler.engine.engine import Engine

    specs = [spec_of(*ALL), spec_of(*ALL, name="other")]
    rig = Rig(lambda: Engine(specs, Registry(ALL)))
    rig.api.put("Pod", make_pod("mine", priority=9))
    rig.api.put("Pod", make_pod("theirs", scheduler="other"))
    rig.watch("Pod")
    return rig


def test_a_blocked_profile_keeps_its_place():
    """The pods of a blocked profile are skipped and are first again afterwards."""
    queues = two_profiles().engine.queues

    blocked = queues.pop(0.0, frozenset({"trellis"}))
    assert blocked is not None
    assert "theirs" == blocked.pod.metadata.name
    assert queues.pop(0.0, frozenset({"trellis"})) is None
    free = queues.pop(0.0)
    assert free is not None
    assert "mine" == free.pod.metadata.name


def test_no_pod_is_popped_early_while_a_blocked_one_is_active():
    """Popping from the back-off is for an idle scheduler."""
    rig = two_profiles()
    rig.run()
    assert {Where.UNSCHEDULABLE} == {queued.where for queued in rig.engine.queues}
    rig.api.put("Node", make_node("n0"))
    rig.watch("Node")
    assert 2 == rig.engine.queues.count(Where.BACKOFF)
    rig.engine.queues.activate(["uid-mine"], rig.now)

    assert rig.engine.queues.pop(rig.now, frozenset({"trellis"})) is None
    assert Where.BACKOFF is rig.where("theirs")


@pytest.mark.parametrize("blocked", [(), ("trellis",), ("other",), ("trellis", "other")])
def test_a_blocked_profile_is_not_taken_from_the_back_off(blocked: tuple[str, ...]):
    """A pod of a blocked profile keeps its turn in back-off too; `has_next` is true exactly when
    `pop` returns a pod.
    """
    rig = two_profiles()
    rig.run()
    rig.api.put("Node", make_node("n0"))
    rig.watch("Node")
    queues, profiles = rig.engine.queues, frozenset(blocked)
    assert 2 == queues.count(Where.BACKOFF)
    has_next = queues.has_next(profiles)
    popped = queues.pop(rig.now, profiles)

    assert has_next is (popped is not None) is ("trellis" not in blocked)
    assert popped is None or "mine" == popped.pod.metadata.name


@pytest.mark.parametrize("fault", [False, True])
@pytest.mark.parametrize("helps", [False, True])
def test_a_hint_is_measured_and_named_by_its_result(fault: bool, helps: bool):
    """The measured duration is that of the hint alone; a hint that raises wakes the pod."""
    measured: list[tuple[str, str, float, str]] = []
    faults: list[str] = []
    times = iter((100.0, 100.5))
    parked = UnschedulablePods(
        {},
        lambda name, _point, _error: faults.append(name),
        hinted=lambda *found: measured.append(found),
        now_s=lambda: next(times),
    )

    def hint(_change: object, _pod: object) -> bool:
        if fault:
            raise ValueError
        return helps

    plugin: Any = SimpleNamespace(name="P", hint=hint)
    change: Any = SimpleNamespace(label="NodeAdd")
    queued: Any = SimpleNamespace(pod=None)
    assert (fault or helps) == parked._hint(plugin, change, queued)
    result = "Error" if fault else "Queue" if helps else "QueueSkip"
    assert [("P", "NodeAdd", 0.5, result)] == measured
    assert faults == (["P"] if fault else [])


def test_an_event_during_an_attempt_skips_one_back_off_and_not_the_next():
    """If every event skipped the back-off, a group that fails at once, with events during each
    attempt, would be tried in a loop.
    """
    rig = two_profiles()
    queues = rig.engine.queues
    queued = queues.get("uid-mine")
    assert queued is not None
    for after_s, where, skipped in (
        (0.0, Where.ACTIVE, True),
        (0.0, Where.BACKOFF, False),
        (0.0, Where.ACTIVE, True),
        (60.0, Where.ACTIVE, False),
        (0.0, Where.ACTIVE, True),
    ):
        queues._move(queued, Where.IN_FLIGHT)
        queued.failed_at, queued.rejections = rig.now, 1
        queues._requeue(queued, "NodeAdd", rig.now + after_s, came_during=True)
        assert (where, skipped) == (queued.where, queued.skipped_backoff)


@pytest.mark.parametrize(
    ("lacks", "where"),
    [(True, Where.BACKOFF), (None, Where.BACKOFF), (False, Where.ACTIVE)],
)
def test_a_group_that_lacked_capacity_skips_its_back_off_only_when_the_capacity_is_there(
    *, lacks: bool | None, where: Where
):
    """If it still lacks capacity, or amounts cannot decide, each event would be an attempt."""
    rig = two_profiles()
    queues = rig.engine.queues
    queued = queues.get("uid-mine")
    assert queued is not None
    queued.is_member = True
    queues._lacks_capacity = lambda _pod: True
    assert queued is queues.take("uid-mine", rig.now)
    queues.rejected(queued, ("P",), rig.now)
    assert Where.UNSCHEDULABLE is queued.where
    queues._lacks_capacity = lambda _pod: lacks
    queues._requeue(queued, "NodeAdd", rig.now)

    assert (where, where is Where.ACTIVE) == (queued.where, queued.skipped_backoff)
