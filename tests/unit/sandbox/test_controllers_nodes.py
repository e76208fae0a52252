"""Silent, tainted and deleted nodes, disruption budgets, and the contents of namespaces."""

from typing import Any

from scheduler.sandbox.controllers.disruption import DisruptionBudgets
from scheduler.sandbox.controllers.namespaces import Namespaces
from scheduler.sandbox.controllers.nodehealth import NodeHealth
from scheduler.sandbox.controllers.taintevictions import TaintEvictions
from scheduler.sandbox.controllers.workloads.deployment import Deployments
from scheduler.sandbox.controllers.workloads.replicaset import ReplicaSets
from scheduler.sandbox.kinds.kinds import (
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODDISRUPTIONBUDGETS,
    PODS,
    SERVICEACCOUNTS,
)
from scheduler.sandbox.store.store import Deletion
from tests.unit.sandbox.cluster import Object, SimulatedCluster

POD = "{metadata: {name: web, labels: {app: web}}, spec: {containers: [{name: a, image: b}]}}"
DEPLOYMENT = """
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "web:1"}]}
"""


def taints(here: SimulatedCluster, name: str) -> list[tuple[str, str]]:
    found = here.get(NODES, name)["spec"].get("taints") or []
    return [(taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"]) for taint in found]


def ready(obj: Object) -> Any:
    return next(c["status"] for c in obj["status"]["conditions"] if c["type"] == "Ready")


BANDWIDTH = "network.aware.com/bandwidth"


class TestExtendedResources:
    """A kubelet copies the capacity of its node to allocatable."""

    def offered(self, here: SimulatedCluster, changes: Any) -> Any:
        """Change parts of the node's status; return the allocatable amounts."""
        node = here.get(NODES, "node-0")
        status = {key: node["status"][key] | changes.get(key, {}) for key in changes}
        for part in status.values():
            for name in [name for name, amount in part.items() if amount is None]:
                del part[name]
        written = {**node, "status": {**node["status"], **status}}
        here.store.update(NODES, written, subresource="status")
        here.settle()
        return here.get(NODES, "node-0")["status"]["allocatable"]

    def test_an_advertised_capacity_can_be_allocated(self):
        """The PATCH of the bandwidth component's design text: new, changed and removed."""
        here = SimulatedCluster(nodes=1)
        for amount in ("10000000000", "5G", None):
            found = self.offered(here, {"capacity": {BANDWIDTH: amount}})
            assert amount == found.get(BANDWIDTH)

    def test_what_is_written_as_allocatable_stays(self):
        """A kubelet reserves part of native resources.

        Other resources keep both written values.
        """
        here = SimulatedCluster(nodes=1)
        before = here.get(NODES, "node-0")["status"]["allocatable"]["cpu"]
        both = {"capacity": {BANDWIDTH: "9G"}, "allocatable": {BANDWIDTH: "8G"}}

        assert "8G" == self.offered(here, both)[BANDWIDTH]
        assert before == self.offered(here, {"capacity": {"cpu": "500"}})["cpu"]


class TestHealth:
    def test_a_silent_node_is_lost_and_found(self):
        """After the grace period it is Unknown and tainted, its pods unready; it recovers."""
        here = SimulatedCluster(actors=[NodeHealth, TaintEvictions], nodes=1)
        here.apply(PODS, POD)
        here.annotate(NODES, "node-0", stopped="true")
        here.tick(35.0)
        assert "True" == ready(here.get(NODES, "node-0"))

        here.tick(25.0)
        assert "Unknown" == ready(here.get(NODES, "node-0"))
        assert [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")] == taints(
            here, "node-0"
        )
        assert "False" == ready(here.get(PODS, "web"))

        here.annotate(NODES, "node-0", stopped="")
        here.settle()

        assert "True" == ready(here.get(NODES, "node-0"))
        assert [] == taints(here, "node-0")
        assert "True" == ready(here.get(PODS, "web"))

    def test_not_ready_and_cordoned_nodes_are_tainted(self):
        """Ready=False and spec.unschedulable become taints; other taints stay."""
        here = SimulatedCluster(actors=[NodeHealth], nodes=1)
        own = {"key": "own", "effect": "NoSchedule"}
        here.edit(NODES, "node-0", "", taints=[own], unschedulable=True)
        here.annotate(NODES, "node-0", ready="false")
        here.settle()

        assert [
            ("own", "NoSchedule"),
            ("not-ready", "NoSchedule"),
            ("not-ready", "NoExecute"),
            ("unschedulable", "NoSchedule"),
        ] == taints(here, "node-0")

        here.edit(NODES, "node-0", "", unschedulable=False)
        here.annotate(NODES, "node-0", ready="true")
        here.settle()

        assert [("own", "NoSchedule")] == taints(here, "node-0")


class TestEvictions:
    def test_a_pod_without_toleration_goes_at_once(self):
        """NoExecute deletes pods that do not tolerate it and marks why."""
        here = SimulatedCluster(actors=[TaintEvictions], nodes=1)
        here.apply(PODS, POD)
        here.edit(NODES, "node-0", "", taints=[{"key": "fire", "effect": "NoExecute"}])
        here.settle()

        pod = here.get(PODS, "web")
        assert "deletionTimestamp" in pod["metadata"]
        reasons = [c.get("reason") for c in pod["status"]["conditions"]]
        assert "DeletionByTaintManager" in reasons

    def test_a_toleration_with_a_time_delays_it(self):
        """Pods stay for tolerationSeconds, and longer if the taint is removed before."""
        here = SimulatedCluster(actors=[TaintEvictions], nodes=1)
        tolerations = (
            "tolerations: [{key: fire, operator: Exists, effect: NoExecute, tolerationSeconds: 20}]"
        )
        here.apply(PODS, POD.replace("{containers", f"{{{tolerations}, containers"))
        fire = {"key": "fire", "effect": "NoExecute"}
        here.edit(NODES, "node-0", "", taints=[fire])
        here.tick(15.0)
        here.edit(NODES, "node-0", "", taints=[])
        here.tick(30.0)
        assert ["web"] == here.names()

        here.edit(NODES, "node-0", "", taints=[fire])
        here.tick(19.0)
        assert ["web"] == here.names()
        here.tick(5.0)

        assert [] == here.names()

    def test_pods_of_a_deleted_node_go_after_a_quarantine(self):
        """Pods that ran there are removed; pods that never ran stay Pending."""
        here = SimulatedCluster(actors=[TaintEvictions], nodes=1, bind=False)
        here.apply(PODS, POD)
        here.place(here.get(PODS, "web"), "node-0")
        here.apply(PODS, POD.replace("web", "never"))
        here.place(here.get(PODS, "never"), "nowhere")
        here.settle()
        here.store.delete(NODES, "", "node-0")
        here.tick(30.0)
        assert ["never", "web"] == here.names()

        here.tick(15.0)

        assert ["never"] == here.names()
        assert ["Pending"] == here.phases()


class TestBudgets:
    def budget(self, here: SimulatedCluster) -> dict[str, int]:
        status = here.get(PODDISRUPTIONBUDGETS, "web")["status"]
        return {
            name: status[name]
            for name in ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        }

    def make(self, spec: str) -> SimulatedCluster:
        here = SimulatedCluster(actors=[Deployments, ReplicaSets, DisruptionBudgets])
        here.apply(
            PODDISRUPTIONBUDGETS,
            f"{{metadata: {{name: web}}, spec: {{selector: {{matchLabels: {{app: web}}}}, "
            f"{spec}}}}}",
        )
        here.apply(DEPLOYMENTS, DEPLOYMENT)
        return here

    def test_a_number_that_must_stay(self):
        """minAvailable 3 of 4 healthy pods allows one disruption."""
        here = self.make("minAvailable: 3")

        assert {
            "expectedPods": 4,
            "desiredHealthy": 3,
            "currentHealthy": 4,
            "disruptionsAllowed": 1,
        } == self.budget(here)

    def test_shares_count_what_the_controllers_ask_for(self):
        """Percentages are taken of the Deployment's replicas and rounded up."""
        assert 2 == self.budget(self.make("minAvailable: 30%"))["desiredHealthy"]
        assert 2 == self.budget(self.make("maxUnavailable: 30%"))["desiredHealthy"]

    def test_unready_pods_are_not_healthy(self):
        """A pod under deletion lowers the allowed number until its successor is ready."""
        here = self.make("maxUnavailable: 1")
        assert 1 == self.budget(here)["disruptionsAllowed"]
        here.bind = False
        here.store.delete(PODS, "default", here.names()[0])
        here.settle()
        assert 0 == self.budget(here)["disruptionsAllowed"]

        here.bind = True
        here.tick(2.0)

        assert 1 == self.budget(here)["disruptionsAllowed"]

    def test_a_granted_eviction_counts_until_the_pod_is_gone(self):
        """A pod in disruptedPods is not healthy, but forgotten after two minutes."""
        here = self.make("minAvailable: 3")
        budget = here.get(PODDISRUPTIONBUDGETS, "web")
        name = here.names()[0]
        status = {**budget["status"], "disruptedPods": {name: here.store.now()}}
        here.store.update(PODDISRUPTIONBUDGETS, {**budget, "status": status}, subresource="status")
        here.settle()
        assert 3 == self.budget(here)["currentHealthy"]

        here.tick(121.0)

        assert 4 == self.budget(here)["currentHealthy"]
        assert "disruptedPods" not in here.get(PODDISRUPTIONBUDGETS, "web")["status"]


class TestNamespaces:
    def test_the_default_account_is_there_and_comes_back(self):
        """A new namespace holds its ServiceAccount; a deleted one is made anew."""
        here = SimulatedCluster(actors=[Namespaces], nodes=0)
        here.apply(NAMESPACES, "metadata: {name: team}", "")
        assert here.store.find(SERVICEACCOUNTS, "team", "default")

        here.store.delete(SERVICEACCOUNTS, "team", "default", Deletion())
        here.settle()

        assert here.store.find(SERVICEACCOUNTS, "team", "default")
