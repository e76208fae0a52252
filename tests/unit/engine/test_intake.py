"""Intake: invalid objects, foreign pods, restored backups, lists as a whole and in parts."""

from scheduler.engine.effects import Bind, Complete, Watched
from scheduler.engine.queue.pod import Where
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Service
from tests.property.making import make_node, make_pod, with_meta, with_spec
from tests.property.rig import Rig


def rig_with(*pods: str, cpu: int = 4) -> Rig:
    """Return a rig with one node whose engine has received these pods."""
    rig = Rig()
    rig.api.put("Node", make_node("n0", cpu=cpu))
    for name in pods:
        rig.api.put("Pod", make_pod(name))
    rig.watch("Node")
    rig.watch("Pod")
    return rig


class TestBadObjects:
    """An object with an invalid quantity."""

    def test_an_invalid_node_is_reported_and_changes_nothing(self):
        """The old version stays in force."""
        rig = rig_with()
        rig.api.put("Node", make_node("n0", allocatable={"cpu": "lots"}))
        rig.watch("Node")

        assert [("Node", "n0")] == rig.faults
        assert 4000 == rig.engine.cluster.table.allocatable("cpu")[0]

    def test_an_invalid_bound_pod_is_reported_and_does_not_count(self):
        """The other pods count."""
        rig = rig_with()
        rig.api.put("Pod", make_pod("bad", cpu="lots", node="n0"))
        rig.api.put("Pod", make_pod("good", node="n0"))
        rig.watch("Pod")

        assert [("Pod", "default/bad")] == rig.faults
        assert 1000 == rig.engine.cluster.table.requested("cpu")[0]

    def test_an_invalid_waiting_pod_gets_the_condition_itself(self):
        """The attempt of the pod fails as a SchedulerError; others are scheduled."""
        rig = rig_with()
        rig.api.put("Pod", make_pod("bad", cpu="lots", priority=9))
        rig.api.put("Pod", make_pod("good"))
        rig.watch("Pod")
        effects = rig.run()

        reported = rig.queued("bad").reported
        assert reported is not None
        assert "SchedulerError" == reported[0]
        assert '"lots" is not a quantity' in reported[1]
        assert ["good"] == [effect.name for effect in effects if isinstance(effect, Bind)]


class TestForeignPods:
    """Pods of other schedulers, and pods before their handover."""

    def test_a_pod_of_another_scheduler_is_not_queued(self):
        """The pod counts once it is bound."""
        rig = rig_with()
        rig.api.put("Pod", make_pod("f", scheduler="another"))
        rig.watch("Pod")
        assert 0 == len(rig.engine.queues)

        rig.api.bind_foreign("default/f", "n0")
        rig.watch("Pod")
        assert 1 == len(rig.engine.cluster.pods)

    def test_a_terminating_pod_is_not_queued(self):
        """An attempt would only be rejected."""
        rig = rig_with()
        terminating = with_meta(make_pod("p"), deletion_timestamp="2026-01-01T00:00:00Z")
        rig.api.put("Pod", terminating)
        rig.watch("Pod")

        assert Where.GONE is rig.where("p")

    def test_what_was_never_seen_may_go(self):
        """Deletions of unknown objects change nothing."""
        rig = rig_with()
        for kind, obj in (
            ("Pod", make_pod("ghost")),
            ("Node", make_node("ghost")),
            ("Service", Service(ObjectMeta(name="ghost", namespace="default"))),
        ):
            rig.handle(Watched(kind, "DELETED", obj))

        assert 1 == len(rig.engine.cluster.table)


class TestTerminating:
    """A pod whose deletion is requested while it waits."""

    def test_at_its_turn_it_is_dropped_with_an_event(self):
        """The event has kube-scheduler's text."""
        rig = rig_with("p")
        rig.api.terminate("default/p")
        rig.watch("Pod")
        (record,) = rig.run()

        assert "skip schedule deleting pod: default/p" == record.note  # type: ignore[union-attr]
        assert Where.GONE is rig.where("p")


class TestLists:
    """An object that a list lacks is deleted."""

    def test_every_kind_loses_what_is_not_listed(self):
        """Nodes, services, waiting and placed pods."""
        rig = rig_with("p", "q")
        rig.api.put("Service", Service(ObjectMeta(name="s", namespace="default")))
        rig.watch("Service")
        rig.api.put("Pod", with_spec(rig.api.pods["default/q"], node_name="n0"))
        rig.watch("Pod")
        for kind in ("Pod", "Service", "Node"):
            rig.handle(Complete(kind, ()))

        engine = rig.engine
        assert (0, 0, 0) == (
            len(engine.queues),
            len(engine.cluster.pods),
            len(engine.cluster.table),
        )
        assert {} == engine.cluster.store.of("Service")
        assert {"Pod", "Service", "Node"} <= engine.intake.synced

    def test_a_restored_backup_takes_a_binding_back(self):
        """A pod that the watch showed bound and a list shows unbound is placed again."""
        rig = rig_with("p")
        rig.settle()
        assert 1 == len(rig.engine.cluster.pods)
        pod = with_spec(rig.api.pods["default/p"], node_name="")
        rig.engine.handle(Watched("Pod", "MODIFIED", pod), rig.now)

        assert 0 == len(rig.engine.cluster.pods)
        assert Where.ACTIVE is rig.where("p")


def test_next_wakeup_is_the_earliest_deadline():
    """Without waiting pods there is none; otherwise it is the first of back-off, bind, wait and
    flush.
    """
    rig = rig_with()
    assert rig.engine.next_wakeup() is None
    rig.api.put("Pod", make_pod("big", cpu=9))
    rig.watch("Pod")
    rig.run()
    assert rig.now + 30 == rig.engine.next_wakeup()
    rig.api.put("Pod", make_pod("p", labels={"prebind": "wait"}))
    rig.watch("Pod")
    rig.run()

    assert rig.now + 20 == rig.engine.next_wakeup()
