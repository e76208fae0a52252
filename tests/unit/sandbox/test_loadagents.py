"""Simulated agents report the annotations and pods of their nodes in the set interval."""

from typing import Any

from scheduler.base.clock import ManualClock, rfc3339
from scheduler.sandbox.controllers.workqueue import ControllerLoop
from scheduler.sandbox.kinds.kinds import NAMESPACES, NODES, PODS
from scheduler.sandbox.nodes.kubelet import Kubelets
from scheduler.sandbox.nodes.loadagents import LOAD, USE, LoadAgents
from scheduler.sandbox.nodes.nodes import SimulatedNodes
from scheduler.sandbox.nodes.shape import ClusterShape, NodeGroup, nodes_of
from scheduler.sandbox.start import new_store
from scheduler.testing.builders import pod

Object = dict[str, Any]
START = 1_700_000_000.0


class SimulatedCluster:
    """Two nodes, of which one has an agent."""

    def __init__(self, words: str) -> None:
        self.clock = ManualClock(START)
        self.store = new_store(self.clock, seed=1)
        nodes = SimulatedNodes(self.store)
        actors = [nodes, LoadAgents(self.store, nodes), Kubelets(self.store, nodes)]
        self.turns = ControllerLoop(self.store, actors, strict=True)  # type: ignore[arg-type]
        groups = [
            NodeGroup(name="n", cpu=10, memory="10Gi", annotations={LOAD: words}),
            NodeGroup(name="without", cpu=10, memory="10Gi"),
        ]
        for node in nodes_of(ClusterShape(nodes=groups), self.store.now()):
            self.store.create(NODES, node)
        if self.store.find(NAMESPACES, "", "default") is None:
            self.store.create(NAMESPACES, {"metadata": {"name": "default"}})
        self.tick(0)

    def tick(self, seconds: float) -> None:
        """Advance the clock, stopping at every due time."""
        end = self.clock.now() + seconds
        while True:
            self.turns.tick()
            due = self.turns.next_due()
            if due is None or due > end:
                break
            self.clock.set(max(due, self.clock.now()))
        self.clock.set(end)
        self.turns.tick()

    def annotate(self, words: str) -> None:
        """Change the text of the node's annotation."""
        stored = self.store.find(NODES, "", "n")
        assert stored is not None
        meta = {**stored.obj["metadata"], "annotations": {LOAD: words}}
        self.store.update(NODES, {**stored.obj, "metadata": meta})

    def metrics(self) -> dict[str, Object]:
        """Return the reports by node."""
        kind = self.store.kinds.find("slo.koordinator.sh", "v1alpha1", "nodemetrics")
        assert kind is not None
        return {one.obj["metadata"]["name"]: one.obj for one in self.store.list(kind)}


def test_a_report_has_node_system_pods_time_and_source():
    """A running pod uses its share of its requests.

    Nodes without the annotation are silent.
    """
    cluster = SimulatedCluster("cpu=20% memory=10% use=50% noise=0% every=30s")
    raw = pod("p", node_name="n", requests={"cpu": "2", "memory": "2Gi"})
    raw["metadata"]["annotations"] = {USE: "memory=100%"}
    cluster.store.create(PODS, raw)
    cluster.tick(65)
    (name,) = cluster.metrics()
    metric = cluster.metrics()[name]

    assert name == "n"
    assert metric["metadata"]["annotations"] == {"trellis.dev/load-source": "a simulated agent"}
    status = metric["status"]
    assert status["updateTime"] == rfc3339(START + 60)
    assert status["nodeMetric"]["nodeUsage"]["resources"] == {"cpu": "3000m", "memory": "3145728Ki"}
    assert status["nodeMetric"]["systemUsage"]["resources"]["cpu"] == "2000m"
    (one,) = status["podsMetric"]
    assert (one["name"], one["priority"]) == ("p", "koord-prod")
    assert one["podUsage"]["resources"] == {"cpu": "1000m", "memory": "2097152Ki"}


def test_a_node_goes_hot_at_once_and_an_agent_dies():
    """A changed annotation is reported soon; with agent=off the last report grows old."""
    cluster = SimulatedCluster("cpu=20% noise=0% every=30s")
    cluster.annotate("cpu=95% noise=0% every=30s")
    cluster.tick(1)
    assert (
        cluster.metrics()["n"]["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] == "9500m"
    )
    cluster.annotate("cpu=10% agent=off every=30s")
    cluster.tick(100)
    assert (
        cluster.metrics()["n"]["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] == "9500m"
    )
    cluster.annotate("cpu=10% noise=10% every=30s")
    cluster.tick(1)
    used = cluster.metrics()["n"]["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"]
    assert 900 <= int(used.removesuffix("m")) <= 1100
    assert used != "1000m"


def test_words_that_cannot_be_read_are_nothing():
    """An agent continues whatever the text of the annotation."""
    cluster = SimulatedCluster("cpu=lots memory=-5% every=never use")
    cluster.tick(61)

    resources = cluster.metrics()["n"]["status"]["nodeMetric"]["nodeUsage"]["resources"]
    assert resources == {"cpu": "0m", "memory": "0Ki"}
