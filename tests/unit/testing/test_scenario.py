"""`Scenario`: the engine on a clock that the test moves."""

import pytest

from scheduler.base.errors import ConfigError, InputError, ObjectError, StateError
from scheduler.framework import Args, Cycle, NoArgs, Nodes, Plugin, Rejected, Status, reject, wait
from scheduler.testing import Scenario, node, pod, scenario


class DoorArgs(Args):
    """The maximum time of a pod at the door."""

    seconds: float = 10.0


class Door(Plugin[DoorArgs]):
    """A plugin that holds every pod at permit until permission is given."""

    def permit(self, _cycle: Cycle, _node: str) -> Status:
        return wait(self.args.seconds)


class Fussy(Plugin[NoArgs]):
    """Requires a label, and is woken by labels alone."""

    reads = ("node.labels",)

    def filter(self, _cycle: Cycle, nodes: Nodes) -> Rejected:
        return reject(nodes.label_int("nice") < 1, "node(s) were not nice")


class Broken(Plugin[NoArgs]):
    """A plugin that raises."""

    def filter(self, _cycle: Cycle, _nodes: Nodes) -> Rejected:
        raise ValueError("not today")


def test_pods_are_placed_and_get_a_condition():
    """A pod that fits is bound, one that does not has a reason; both leave events."""
    world = Scenario(node("n", cpu="1"), pod("a", requests={"cpu": "1"}))
    world.run()
    world.apply(pod("b", requests={"cpu": "1"}))
    world.run()

    assert "n" == world.node_of("a")
    assert "bound" == world.state("default/a")
    assert "" == world.node_of("b")
    assert "unschedulable" == world.state("b")
    assert world.message("b").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert ["Scheduled", "FailedScheduling"] == [event.reason for event in world.events]


def test_a_deleted_pod_frees_its_capacity():
    """The next one is woken, waits out its back-off, and is bound."""
    world = Scenario(node("n", cpu="1"), pod("a", requests={"cpu": "1"}))
    world.run()
    world.apply(pod("b", requests={"cpu": "1"}))
    world.run()
    world.delete("Pod", "a")
    assert "backoff" == world.state("b")
    world.advance(1.0)

    assert "n" == world.node_of("b")
    assert 2 == world.attempts("b")
    assert "gone" == world.state("a")


def test_preemption_nominates_a_node():
    """The victim is deleted, and its preemptor does not wait if no other pod is pending."""
    world = Scenario(
        node("n", cpu="1"),
        pod("low", requests={"cpu": "1"}, node_name="n"),
        pod("high", requests={"cpu": "1"}, spec={"priority": 5}),
    )
    world.run()

    assert "gone" == world.state("low")
    assert ["n", ""] == [one.nominated_node or "" for one in world.decisions("high")]
    assert "n" == world.node_of("high")
    assert "" == world.nominated("high")


def test_permit_waits_until_allowed():
    """Permission is given through the handle."""
    world = Scenario(node("n"), pod("p"), plugins=[Door])
    world.run()
    assert "waiting" == world.state("p")

    (waiting,) = world.handle.waiting_pods()
    world.handle.allow(waiting.metadata.uid, "Door")
    world.run()
    assert "n" == world.node_of("p")


def test_permit_runs_out_of_time():
    """The clock alone decides; arguments are those of `args`."""
    world = Scenario(node("n"), pod("p"), plugins=[Door], args={"Door": {"seconds": 3}})
    world.advance(2.9)
    assert "waiting" == world.state("p")
    world.advance(0.2)

    assert "unschedulable" == world.state("p") or "backoff" == world.state("p")
    assert "timeout" in world.message("p")


def test_a_plugin_wakes_by_what_it_reads():
    """The awaited label is added; another change does not help."""
    world = Scenario(node("n"), pod("p"), plugins=[Fussy])
    world.run()
    world.apply(node("n", cpu="8"))
    world.advance(60.0)
    assert 1 == world.attempts("p")
    assert ("Fussy",) == world.decisions("p")[0].rejected_by

    world.apply(node("n", cpu="8", labels={"nice": "1"}))
    world.advance(60.0)
    assert "n" == world.node_of("p")
    assert isinstance(world.plugin("Fussy"), Fussy)


def test_a_fault_of_a_plugin_is_kept():
    """The pod backs off with an error that names the plugin."""
    world = Scenario(node("n"), pod("p"), plugins=[Broken])
    world.run()

    assert [("Broken", "Filter")] == [(fault.plugin, fault.point) for fault in world.faults]
    assert "error backoff" == world.state("p")
    assert 'running "Broken" filter plugin: not today' in world.message("p")


def test_objects_of_all_kinds_come_and_go():
    """Nodes and services are created, replaced and deleted by name."""
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}
    world = Scenario(node("n"), service)
    assert ["default/s"] == list(world.handle.objects("Service"))

    world.delete("Service", "s")
    world.delete("Node", "n")
    world.apply(pod("p"))
    world.run()
    assert {} == world.handle.objects("Service")
    assert "no nodes available to schedule pods" in world.message("p")
    with pytest.raises(InputError, match="there is no Node n"):
        world.delete("Node", "n")


def test_a_configuration_as_text():
    """The text replaces profile and plugins; pods without a scheduler use its first profile."""
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine, plugins: {multiPoint: {enabled: [{name: Fussy}]}}}]\n"
    )
    world = Scenario(node("n"), pod("p"), plugins=[Fussy], config=text)
    stranger = pod("s", spec={"schedulerName": "another"})
    world.apply(stranger)
    world.run()

    assert "unschedulable" == world.state("p")
    assert "not ours" == world.state("s")
    with pytest.raises(ConfigError):
        Scenario(config="profiles: 3")


def test_what_cannot_be_read_is_refused():
    """A test must not go on without its objects."""
    with pytest.raises(ObjectError, match="is not a quantity"):
        Scenario(node("n", cpu="lots"))
    with pytest.raises(ObjectError, match="is not a quantity"):
        Scenario(node("n"), pod("p", requests={"cpu": "lots"}, node_name="n"))
    with pytest.raises(InputError, match="there is no pod default/p"):
        Scenario().node_of("p")


def test_a_pod_keeps_its_uid_and_node():
    """A second apply changes labels, not its identity; a new one of the name is another pod."""
    world = Scenario(node("n"), pod("p"))
    world.run()
    world.apply(pod("p", labels={"a": "b"}))
    world.run()
    assert "n" == world.node_of("p")

    world.delete("Pod", "p")
    world.apply(pod("p"))
    world.run()
    assert "bound" == world.state("p")
    assert 2 == world.attempts("p")


def test_an_endless_test_ends(monkeypatch: pytest.MonkeyPatch):
    """Pods that are tried for ever are an error, not a hang."""
    monkeypatch.setattr(scenario, "MOST_ROUNDS", 1)
    with pytest.raises(StateError, match="still being retried"):
        Scenario(node("n"), pod("p")).run()
