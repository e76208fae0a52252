"""`Scenario`: the engine on a clock that the test moves."""

import pytest

from scheduler.base.errors import ConfigError, InputError, ObjectError, StateError
from scheduler.framework import Args, Cycle, NoArgs, Nodes, Plugin, Rejected, Status, reject, wait
from scheduler.testing import Scenario, node, pod, scenario


class WaitingArgs(Args):
    """The maximum time of a pod in permit."""

    seconds: float = 10.0


class WaitingPermit(Plugin[WaitingArgs]):
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
    scenario = Scenario(node("n", cpu="1"), pod("a", requests={"cpu": "1"}))
    scenario.run()
    scenario.apply(pod("b", requests={"cpu": "1"}))
    scenario.run()

    assert "n" == scenario.node_of("a")
    assert "bound" == scenario.state("default/a")
    assert "" == scenario.node_of("b")
    assert "unschedulable" == scenario.state("b")
    assert scenario.message("b").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert ["Scheduled", "FailedScheduling"] == [event.reason for event in scenario.events]


def test_a_deleted_pod_frees_its_capacity():
    """The next one is woken, waits out its back-off, and is bound."""
    scenario = Scenario(node("n", cpu="1"), pod("a", requests={"cpu": "1"}))
    scenario.run()
    scenario.apply(pod("b", requests={"cpu": "1"}))
    scenario.run()
    scenario.delete("Pod", "a")
    assert "backoff" == scenario.state("b")
    scenario.advance(1.0)

    assert "n" == scenario.node_of("b")
    assert 2 == scenario.attempts("b")
    assert "gone" == scenario.state("a")


def test_preemption_nominates_a_node():
    """The victim is deleted, and its preemptor does not wait if no other pod is pending."""
    scenario = Scenario(
        node("n", cpu="1"),
        pod("low", requests={"cpu": "1"}, node_name="n"),
        pod("high", requests={"cpu": "1"}, spec={"priority": 5}),
    )
    scenario.run()

    assert "gone" == scenario.state("low")
    assert ["n", ""] == [one.nominated_node or "" for one in scenario.decisions("high")]
    assert "n" == scenario.node_of("high")
    assert "" == scenario.nominated("high")


def test_permit_waits_until_allowed():
    """Permission is given through the handle."""
    scenario = Scenario(node("n"), pod("p"), plugins=[WaitingPermit])
    scenario.run()
    assert "waiting" == scenario.state("p")

    (waiting,) = scenario.handle.waiting_pods()
    scenario.handle.allow(waiting.metadata.uid, "WaitingPermit")
    scenario.run()
    assert "n" == scenario.node_of("p")


def test_permit_runs_out_of_time():
    """The simulated clock ends a permit's wait; `args` has the plugin's arguments."""
    scenario = Scenario(
        node("n"), pod("p"), plugins=[WaitingPermit], args={"WaitingPermit": {"seconds": 3}}
    )
    scenario.advance(2.9)
    assert "waiting" == scenario.state("p")
    scenario.advance(0.2)

    assert "unschedulable" == scenario.state("p") or "backoff" == scenario.state("p")
    assert "timeout" in scenario.message("p")


def test_a_plugin_wakes_by_what_it_reads():
    """The awaited label is added; another change does not help."""
    scenario = Scenario(node("n"), pod("p"), plugins=[Fussy])
    scenario.run()
    scenario.apply(node("n", cpu="8"))
    scenario.advance(60.0)
    assert 1 == scenario.attempts("p")
    assert ("Fussy",) == scenario.decisions("p")[0].rejected_by

    scenario.apply(node("n", cpu="8", labels={"nice": "1"}))
    scenario.advance(60.0)
    assert "n" == scenario.node_of("p")
    assert isinstance(scenario.plugin("Fussy"), Fussy)


def test_a_fault_of_a_plugin_is_kept():
    """The pod backs off with an error that names the plugin."""
    scenario = Scenario(node("n"), pod("p"), plugins=[Broken])
    scenario.run()

    assert [("Broken", "Filter")] == [(fault.plugin, fault.point) for fault in scenario.faults]
    assert "error backoff" == scenario.state("p")
    assert 'running "Broken" filter plugin: not today' in scenario.message("p")


def test_objects_of_all_kinds_come_and_go():
    """Nodes and services are created, replaced and deleted by name."""
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}
    scenario = Scenario(node("n"), service)
    assert ["default/s"] == list(scenario.handle.objects("Service"))

    scenario.delete("Service", "s")
    scenario.delete("Node", "n")
    scenario.apply(pod("p"))
    scenario.run()
    assert {} == scenario.handle.objects("Service")
    assert "no nodes available to schedule pods" in scenario.message("p")
    with pytest.raises(InputError, match="there is no Node n"):
        scenario.delete("Node", "n")


def test_a_configuration_as_text():
    """The text replaces profile and plugins; pods without a scheduler use its first profile."""
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine, plugins: {multiPoint: {enabled: [{name: Fussy}]}}}]\n"
    )
    scenario = Scenario(node("n"), pod("p"), plugins=[Fussy], config=text)
    foreign = pod("s", spec={"schedulerName": "another"})
    scenario.apply(foreign)
    scenario.run()

    assert "unschedulable" == scenario.state("p")
    assert "not ours" == scenario.state("s")
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
    scenario = Scenario(node("n"), pod("p"))
    scenario.run()
    scenario.apply(pod("p", labels={"a": "b"}))
    scenario.run()
    assert "n" == scenario.node_of("p")

    scenario.delete("Pod", "p")
    scenario.apply(pod("p"))
    scenario.run()
    assert "bound" == scenario.state("p")
    assert 2 == scenario.attempts("p")


def test_an_endless_test_ends(monkeypatch: pytest.MonkeyPatch):
    """Pods that are tried for ever are an error, not a hang."""
    monkeypatch.setattr(scenario, "MOST_ROUNDS", 1)
    with pytest.raises(StateError, match="still being retried"):
        Scenario(node("n"), pod("p")).run()
