"""Simulated nodes and the pods on them, with a clock that only the test moves."""

import yaml

from scheduler.sandbox.kinds.kinds import LEASES, NODES, PODS
from scheduler.sandbox.nodes.podfit import requests_of
from scheduler.sandbox.nodes.podlifecycle import SimulatedPace
from scheduler.sandbox.store.store import Deletion
from tests.unit.sandbox.cluster import Object, SimulatedCluster

POD = """
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: nginx:1.27
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 64Mi}}
"""


def condition(pod: Object, kind: str) -> Object:
    found: list[Object] = [entry for entry in pod["status"]["conditions"] if entry["type"] == kind]
    assert len(found) == 1
    return found[0]


class TestNodes:
    def test_every_node_is_ready_and_holds_a_lease(self):
        """A node of the shape is Ready when it appears and its lease names it."""
        cluster = SimulatedCluster(nodes=2)

        for name in ("node-0", "node-1"):
            assert "True" == condition(cluster.get(NODES, name), "Ready")["status"]
            lease = cluster.store.get(LEASES, "kube-node-lease", name).obj
            assert name == lease["spec"]["holderIdentity"]
            assert "Node" == lease["metadata"]["ownerReferences"][0]["kind"]

    def test_leases_are_renewed_within_their_interval(self):
        """No lease grows older than a quarter of its duration."""
        cluster = SimulatedCluster(nodes=50)
        before = {s.key: s.obj["spec"]["renewTime"] for s in cluster.store.list(LEASES)}

        cluster.tick(10.0)

        after = {s.key: s.obj["spec"]["renewTime"] for s in cluster.store.list(LEASES)}
        assert 50 == len(after)
        assert all(after[key] > before[key] for key in after)

    def test_renewals_are_spread(self):
        """Renewals are not sent in one burst."""
        cluster = SimulatedCluster(nodes=40)
        cluster.tick(10.0)
        times = {s.obj["spec"]["renewTime"] for s in cluster.store.list(LEASES)}

        assert len(times) > 30

    def test_a_node_made_by_hand_gets_a_kubelet(self):
        """A Node that a user creates becomes Ready with an address and a lease."""
        cluster = SimulatedCluster(nodes=0)

        cluster.apply(NODES, "{metadata: {name: own}, status: {capacity: {cpu: 2}}}", "")

        node = cluster.get(NODES, "own")
        assert "True" == condition(node, "Ready")["status"]
        assert ["InternalIP", "Hostname"] == [a["type"] for a in node["status"]["addresses"]]
        assert cluster.store.find(LEASES, "kube-node-lease", "own")

    def test_a_stopped_kubelet_renews_nothing_and_starts_no_pod(self):
        """A stopped kubelet leaves lease and pods alone; started again it catches up."""
        cluster = SimulatedCluster(nodes=1)
        cluster.annotate(NODES, "node-0", stopped="true")
        stale = cluster.store.get(LEASES, "kube-node-lease", "node-0").obj["spec"]["renewTime"]
        cluster.apply(PODS, POD)
        cluster.tick(60.0)

        assert ["Pending"] == cluster.phases()
        lease = cluster.store.get(LEASES, "kube-node-lease", "node-0").obj
        assert stale == lease["spec"]["renewTime"]

        cluster.annotate(NODES, "node-0", stopped="")
        cluster.settle()

        assert ["Running"] == cluster.phases()
        assert (
            stale < cluster.store.get(LEASES, "kube-node-lease", "node-0").obj["spec"]["renewTime"]
        )

    def test_a_kubelet_can_report_not_ready(self):
        """The annotation turns Ready to False, and back."""
        cluster = SimulatedCluster(nodes=1)
        cluster.annotate(NODES, "node-0", ready="false")
        cluster.settle()

        assert "False" == condition(cluster.get(NODES, "node-0"), "Ready")["status"]

        cluster.annotate(NODES, "node-0", ready="true")
        cluster.settle()

        assert "True" == condition(cluster.get(NODES, "node-0"), "Ready")["status"]


class TestStarting:
    def test_a_bound_pod_runs(self):
        """A bound pod becomes Running and Ready, with addresses and the resources it was given."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD)

        pod = cluster.get(PODS, "web")
        status = pod["status"]
        assert "Running" == status["phase"]
        assert "172.16.0.0" == status["hostIP"]
        assert "10.128.0.1" == status["podIP"] == status["podIPs"][0]["ip"]
        assert "2023-11-14T22:13:20Z" == status["startTime"]
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            assert "True" == condition(pod, kind)["status"]
        (container,) = status["containerStatuses"]
        assert container["ready"]
        assert container["started"]
        assert {"cpu": "100m", "memory": "64Mi"} == container["allocatedResources"]
        assert pod["spec"]["containers"][0]["resources"] == container["resources"]
        assert status["observedGeneration"] == pod["metadata"]["generation"]

    def test_an_unbound_pod_is_left_alone(self):
        """The kubelets change no pod that is not bound."""
        cluster = SimulatedCluster(bind=False)
        cluster.apply(PODS, POD)
        cluster.tick(100.0)

        assert {"phase": "Pending", "qosClass": "Burstable"} == cluster.get(PODS, "web")["status"]

    def test_a_pod_waits_for_a_node_that_is_not_there(self):
        """A pod bound to a missing node stays Pending and runs when the node appears."""
        cluster = SimulatedCluster(nodes=1, bind=False)
        cluster.apply(PODS, POD)
        cluster.place(cluster.get(PODS, "web"), "late")
        cluster.tick(10.0)
        assert ["Pending"] == cluster.phases()

        cluster.apply(NODES, "{metadata: {name: late}}", "")

        assert ["Running"] == cluster.phases()

    def test_other_conditions_stay(self):
        """Conditions of the scheduler in the status are kept."""
        cluster = SimulatedCluster(nodes=1, bind=False)
        cluster.apply(PODS, POD)
        old = cluster.store.get(PODS, "default", "web")
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "x"}
        status = {**old.obj["status"], "conditions": [scheduled]}
        cluster.store.update(PODS, {**old.obj, "status": status}, subresource="status")
        cluster.place(cluster.get(PODS, "web"), "node-0")
        cluster.settle()

        assert scheduled == condition(cluster.get(PODS, "web"), "PodScheduled")

    def test_start_and_readiness_can_take_time(self):
        """Annotations delay the start and the readiness, and each step shows."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD.replace("labels:", "annotations: "
            "{trellis.dev/simulate-start-after: 3s, trellis.dev/simulate-ready-after: 1m}, "
            "labels:"))  # fmt: skip

        pod = cluster.get(PODS, "web")
        assert "Pending" == pod["status"]["phase"]
        state = pod["status"]["containerStatuses"][0]["state"]
        assert "ContainerCreating" == state["waiting"]["reason"]
        assert "podIP" not in pod["status"]

        cluster.tick(3.0)
        pod = cluster.get(PODS, "web")
        assert "Running" == pod["status"]["phase"]
        assert "ContainersNotReady" == condition(pod, "Ready")["reason"]

        cluster.tick(60.0)
        assert "True" == condition(cluster.get(PODS, "web"), "Ready")["status"]

    def test_init_containers_end_and_sidecars_run(self):
        """An init container is shown as completed, a restartable one as running."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, """
metadata: {name: web}
spec:
  initContainers:
  - {name: fetch, image: "busybox:1"}
  - {name: proxy, image: "envoy:1", restartPolicy: Always}
  containers: [{name: main, image: "nginx:1"}]
""")  # fmt: skip

        fetch, proxy = cluster.get(PODS, "web")["status"]["initContainerStatuses"]
        assert "Completed" == fetch["state"]["terminated"]["reason"]
        assert "running" in proxy["state"]
        assert proxy["ready"]

    def test_readiness_gates_hold_readiness_back(self):
        """A pod is Ready only when the conditions of its gates are True."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD + "  readinessGates: [{conditionType: example.com/lb}]")
        pod = cluster.get(PODS, "web")
        assert "ReadinessGatesNotReady" == condition(pod, "Ready")["reason"]
        assert "True" == condition(pod, "ContainersReady")["status"]

        gate = {"type": "example.com/lb", "status": "True"}
        status = {**pod["status"], "conditions": [*pod["status"]["conditions"], gate]}
        cluster.store.update(PODS, {**pod, "status": status}, subresource="status")
        cluster.settle()

        assert "True" == condition(cluster.get(PODS, "web"), "Ready")["status"]

    def test_a_resize_is_carried_out(self):
        """Changed requests of a running pod show in its status."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD)
        old = cluster.store.get(PODS, "default", "web")
        container = {**old.obj["spec"]["containers"][0], "resources": {"requests": {"cpu": "2"}}}
        meta = {**old.obj["metadata"], "generation": 2}
        spec = {**old.obj["spec"], "containers": [container]}
        cluster.store.replace(PODS, old, {**old.obj, "metadata": meta, "spec": spec})
        cluster.settle()

        status = cluster.get(PODS, "web")["status"]
        assert {"cpu": "2"} == status["containerStatuses"][0]["allocatedResources"]
        assert 2 == status["observedGeneration"]

    def test_lazy_kubelets_write_no_status(self):
        """For load tests bound pods stay as they are, and deletions still complete."""
        cluster = SimulatedCluster(nodes=1, lazy=True)
        cluster.apply(PODS, POD)
        assert ["Pending"] == cluster.phases()

        cluster.store.delete(PODS, "default", "web")
        cluster.settle()

        assert [] == cluster.pods()


class TestRefusing:
    def test_a_pod_beyond_the_capacity_is_rejected(self):
        """A node accepts no more than its capacity, regardless of which client bound the pod."""
        cluster = SimulatedCluster(nodes=1)
        big = POD.replace("cpu: 100m", "cpu: 5")
        cluster.apply(PODS, big.replace("name: web", "name: first"))
        cluster.apply(PODS, big.replace("name: web", "name: second"))

        assert ["Running", "Failed"] == cluster.phases()
        status = cluster.get(PODS, "second")["status"]
        assert "OutOfcpu" == status["reason"]
        assert status["message"].endswith("cpu, requested: 5000, used: 5000, capacity: 8000")

    def test_capacity_is_free_again(self):
        """The resources of an ended or deleted pod are free."""
        cluster = SimulatedCluster(nodes=1)
        big = POD.replace("cpu: 100m", "cpu: 5")
        once = big.replace("labels:", "annotations: {trellis.dev/simulate-run-for: 5s}, labels:")
        cluster.apply(PODS, once.replace("name: web", "name: a") + "  restartPolicy: Never")
        cluster.tick(5.0)
        cluster.apply(PODS, big.replace("name: web", "name: b"))
        cluster.store.delete(PODS, "default", "b")
        cluster.apply(PODS, big.replace("name: web", "name: c"))
        assert ["Succeeded", "Running", "Failed"] == cluster.phases()

        cluster.tick(2.0)
        cluster.apply(PODS, big.replace("name: web", "name: d"))

        assert ["Succeeded", "Failed", "Running"] == cluster.phases()

    def test_what_a_pod_takes(self):
        """Sidecars count with the containers, init steps by their peak, overhead on top."""
        spec = yaml.safe_load("""
initContainers:
- {name: a, resources: {requests: {cpu: 3}}}
- {name: b, restartPolicy: Always, resources: {requests: {cpu: 200m, memory: 1Ki}}}
- {name: c, resources: {requests: {cpu: 1, gpu: 1}}}
containers:
- {name: d, resources: {requests: {cpu: 500m}}}
overhead: {cpu: 10m}
""")

        expected = {"cpu": 3010, "memory": 1_024_000, "gpu": 1000, "pods": 1000}
        assert expected == requests_of(spec)


class TestEnding:
    def test_a_pod_that_never_restarts_completes(self):
        """After its run time it is Succeeded, with the condition reasons of a kubelet."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD.replace("labels:",
            "annotations: {trellis.dev/simulate-run-for: 30s}, "
            "labels:") + "  restartPolicy: Never")  # fmt: skip
        cluster.tick(29.0)
        assert ["Running"] == cluster.phases()

        cluster.tick(1.0)

        pod = cluster.get(PODS, "web")
        assert "Succeeded" == pod["status"]["phase"]
        assert "PodCompleted" == condition(pod, "Ready")["reason"]
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert 0 == ended["exitCode"]
        assert "2023-11-14T22:13:50Z" == ended["finishedAt"]

    def test_an_exit_code_fails_it(self):
        """A pod that never restarts and exits with an error is Failed."""
        cluster = SimulatedCluster(nodes=1)
        failing = "{trellis.dev/simulate-run-for: 1s, trellis.dev/simulate-exit-code: '3'}"
        manifest = POD.replace("labels:", f"annotations: {failing}, labels:")
        cluster.apply(PODS, manifest + "  restartPolicy: Never")
        cluster.tick(1.0)

        pod = cluster.get(PODS, "web")
        assert "Failed" == pod["status"]["phase"]
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (3, "Error") == (ended["exitCode"], ended["reason"])

    def test_a_pod_that_always_restarts_counts(self):
        """With restartPolicy Always the containers start again and are counted."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD.replace("labels:",
            "annotations: {trellis.dev/simulate-run-for: 10s}, labels:"))  # fmt: skip
        cluster.tick(25.0)

        status = cluster.get(PODS, "web")["status"]
        assert "Running" == status["phase"]
        assert 2 == status["containerStatuses"][0]["restartCount"]


class TestStopping:
    def test_deletion_is_graceful_and_capped(self):
        """A running pod ends a second after it was deleted, not after its whole grace period."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD)
        cluster.store.delete(PODS, "default", "web")
        cluster.settle()
        assert 30 == cluster.get(PODS, "web")["metadata"]["deletionGracePeriodSeconds"]

        cluster.tick(1.0)

        assert [] == cluster.pods()

    def test_the_grace_period_is_the_limit(self):
        """A pod that takes long to stop is killed when its grace period ends."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD.replace("labels:",
            "annotations: {trellis.dev/simulate-stop-after: 1h}, labels:"))  # fmt: skip
        cluster.store.delete(PODS, "default", "web", Deletion(grace_period_s=5))
        cluster.tick(4.0)
        assert ["web"] == cluster.names()

        cluster.tick(1.0)

        assert [] == cluster.pods()

    def test_a_finalizer_holds_the_pod(self):
        """The kubelet's part is done once; the pod is deleted when its finalizer is removed."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD.replace("labels:", "finalizers: [example.com/hold], labels:"))
        cluster.store.delete(PODS, "default", "web")
        cluster.tick(5.0)
        version = cluster.store.version
        assert 0 == cluster.get(PODS, "web")["metadata"]["deletionGracePeriodSeconds"]
        cluster.settle()
        assert version == cluster.store.version

        pod = cluster.get(PODS, "web")
        meta = {**pod["metadata"], "finalizers": []}
        cluster.store.update(PODS, {**pod, "metadata": meta})

        assert [] == cluster.pods()

    def test_addresses_are_used_again(self):
        """The address of a deleted pod is given to the next one."""
        cluster = SimulatedCluster(nodes=1, pace=SimulatedPace(stop_s=0.0))
        cluster.apply(PODS, POD)
        first = cluster.get(PODS, "web")["status"]["podIP"]
        cluster.store.delete(PODS, "default", "web")
        cluster.settle()
        cluster.apply(PODS, POD)

        assert first == cluster.get(PODS, "web")["status"]["podIP"]

    def test_a_pod_of_the_same_name_starts_afresh(self):
        """A new pod under an old name is another pod."""
        cluster = SimulatedCluster(nodes=1)
        cluster.apply(PODS, POD)
        cluster.store.delete(PODS, "default", "web", Deletion(grace_period_s=0))
        cluster.tick(100.0)
        cluster.apply(PODS, POD)

        assert "2023-11-14T22:15:00Z" == cluster.get(PODS, "web")["status"]["startTime"]
