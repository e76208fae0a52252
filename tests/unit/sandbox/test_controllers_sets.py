"""StatefulSets and DaemonSets: stable names in order, and one pod per suitable node."""

import json

from scheduler.controlplane.daemonsets import target_of
from scheduler.sandbox.controllers.workloads.daemonset import DaemonSets
from scheduler.sandbox.controllers.workloads.statefulset import StatefulSets
from scheduler.sandbox.kinds.kinds import (
    CONTROLLERREVISIONS,
    DAEMONSETS,
    NODES,
    PERSISTENTVOLUMECLAIMS,
    PODS,
    STATEFULSETS,
)
from scheduler.sandbox.nodes.podlifecycle import SimulatedPace
from tests.unit.sandbox.cluster import Object, SimulatedCluster

STATEFULSET = """
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, image: "db:1", volumeMounts: [{name: data, mountPath: /data}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
DAEMONSET = """
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, image: "agent:1"}]}
"""


def with_image(obj: Object, image: str) -> Object:
    template = json.loads(json.dumps(obj["spec"]["template"]))
    template["spec"]["containers"][0]["image"] = image
    return {"template": template}


def images(here: SimulatedCluster) -> list[str]:
    return [pod["spec"]["containers"][0]["image"] for pod in here.pods()]


class TestStatefulSet:
    def test_pods_come_one_after_the_other(self):
        """The next pod is made only when the one before it is ready."""
        here = SimulatedCluster(actors=[StatefulSets], pace=SimulatedPace(start_s=5.0))
        here.apply(STATEFULSETS, STATEFULSET)
        assert ["db-0"] == here.names()

        here.tick(5.0)
        assert ["db-0", "db-1"] == here.names()

        here.tick(10.0)
        status = here.get(STATEFULSETS, "db")["status"]
        assert ["db-0", "db-1", "db-2"] == here.names()
        assert (3, 3, 3) == (status["replicas"], status["readyReplicas"], status["updatedReplicas"])
        assert status["currentRevision"] == status["updateRevision"]

    def test_pods_have_identity_and_claims(self):
        """Name, hostname, subdomain, labels and claim follow from the ordinal."""
        here = SimulatedCluster(actors=[StatefulSets])
        here.apply(STATEFULSETS, STATEFULSET)

        pod = here.get(PODS, "db-1")
        assert ("db-1", "db") == (pod["spec"]["hostname"], pod["spec"]["subdomain"])
        labels = pod["metadata"]["labels"]
        assert "db-1" == labels["statefulset.kubernetes.io/pod-name"]
        assert "1" == labels["apps.kubernetes.io/pod-index"]
        assert labels["controller-revision-hash"].startswith("db-")
        (volume,) = pod["spec"]["volumes"]
        assert "data-db-1" == volume["persistentVolumeClaim"]["claimName"]
        claims = [stored.name for stored in here.store.list(PERSISTENTVOLUMECLAIMS)]
        assert ["data-db-0", "data-db-1", "data-db-2"] == claims

    def test_parallel_makes_all_at_once(self):
        """With Parallel no pod waits for another."""
        here = SimulatedCluster(actors=[StatefulSets], pace=SimulatedPace(start_s=5.0))
        here.apply(STATEFULSETS, STATEFULSET + "  podManagementPolicy: Parallel\n")

        assert 3 == len(here.pods())

    def test_scaling_down_takes_the_highest_and_keeps_claims(self):
        """Pods are deleted from the highest ordinal, one at a time; their claims stay."""
        here = SimulatedCluster(actors=[StatefulSets])
        here.apply(STATEFULSETS, STATEFULSET)
        here.edit(STATEFULSETS, "db", replicas=1)
        here.settle()
        stopping = [
            p["metadata"]["name"] for p in here.pods() if "deletionTimestamp" in p["metadata"]
        ]
        assert ["db-2"] == stopping

        here.tick(5.0)

        assert ["db-0"] == here.names()
        assert 3 == len(here.store.list(PERSISTENTVOLUMECLAIMS))

    def test_a_lost_pod_comes_back_under_its_name(self):
        """A deleted pod is made anew with the same name after the old one is removed."""
        here = SimulatedCluster(actors=[StatefulSets])
        here.apply(STATEFULSETS, STATEFULSET)
        before = here.get(PODS, "db-0")["metadata"]["uid"]
        here.store.delete(PODS, "default", "db-0")
        here.tick(2.0)

        assert ["db-0", "db-1", "db-2"] == here.names()
        assert before != here.get(PODS, "db-0")["metadata"]["uid"]

    def test_an_update_goes_down_to_the_partition(self):
        """A rolling update replaces from the highest ordinal and stops at the partition."""
        here = SimulatedCluster(actors=[StatefulSets])
        made = here.apply(STATEFULSETS, STATEFULSET)
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        here.edit(STATEFULSETS, "db", updateStrategy=strategy, **with_image(made, "db:2"))
        here.tick(10.0)

        assert ["db:1", "db:2", "db:2"] == images(here)
        status = here.get(STATEFULSETS, "db")["status"]
        assert (1, 2) == (status["currentReplicas"], status["updatedReplicas"])
        assert status["currentRevision"] != status["updateRevision"]

        here.store.delete(PODS, "default", "db-0")
        here.tick(5.0)
        assert ["db:1", "db:2", "db:2"] == images(here)

        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
        here.edit(STATEFULSETS, "db", updateStrategy=strategy)
        here.tick(5.0)

        assert ["db:2"] * 3 == images(here)
        status = here.get(STATEFULSETS, "db")["status"]
        assert status["currentRevision"] == status["updateRevision"]

    def test_on_delete_waits_for_the_user(self):
        """With OnDelete a pod gets the new template only after a user deletes it."""
        here = SimulatedCluster(actors=[StatefulSets])
        made = here.apply(STATEFULSETS, STATEFULSET + "  updateStrategy: {type: OnDelete}\n")
        here.edit(STATEFULSETS, "db", **with_image(made, "db:2"))
        here.tick(5.0)
        assert ["db:1"] * 3 == images(here)

        here.store.delete(PODS, "default", "db-1")
        here.tick(5.0)

        assert ["db:1", "db:2", "db:1"] == images(here)

    def test_ordinals_may_start_elsewhere(self):
        """`ordinals.start` is the first number."""
        here = SimulatedCluster(actors=[StatefulSets])
        here.apply(STATEFULSETS, STATEFULSET + "  ordinals: {start: 5}\n")

        assert ["db-5", "db-6", "db-7"] == here.names()


class TestDaemonSet:
    def test_every_node_gets_one_pod(self):
        """Each pod is pinned to its node by name and tolerates what daemons must."""
        here = SimulatedCluster(actors=[DaemonSets], nodes=4, bind=False)
        here.apply(DAEMONSETS, DAEMONSET)

        assert [f"node-{n}" for n in range(4)] == sorted(target_of(pod) for pod in here.pods())
        pod = here.pods()[0]
        keys = {toleration["key"] for toleration in pod["spec"]["tolerations"]}
        assert "node.kubernetes.io/unschedulable" in keys
        for toleration in pod["spec"]["tolerations"]:
            assert "tolerationSeconds" not in toleration

    def test_its_status_counts_nodes(self):
        """The status has the numbers desired, current, ready, updated and available."""
        here = SimulatedCluster(actors=[DaemonSets], nodes=3)
        here.apply(DAEMONSETS, DAEMONSET)

        status = here.get(DAEMONSETS, "agent")["status"]
        counts = (
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        )
        assert [3] * 5 == [status[name] for name in counts]
        assert 0 == status["numberMisscheduled"]
        assert "numberUnavailable" not in status

    def test_nodes_that_come_and_go(self):
        """A new node gets a pod, a node that no longer suits loses it."""
        here = SimulatedCluster(actors=[DaemonSets], nodes=2)
        text = DAEMONSET.replace(
            "spec: {containers", "spec: {nodeSelector: {role: edge}, containers"
        )
        here.apply(DAEMONSETS, text)
        assert [] == here.pods()

        here.apply(NODES, "{metadata: {name: late, labels: {role: edge}}}", "")
        assert ["late"] == [target_of(pod) for pod in here.pods()]

        node = here.get(NODES, "late")
        here.store.update(NODES, {**node, "metadata": {**node["metadata"], "labels": {}}})
        here.tick(5.0)

        assert [] == here.pods()

    def test_taints_keep_new_pods_away(self):
        """NoSchedule rejects new pods and keeps old ones; cordons do neither."""
        here = SimulatedCluster(actors=[DaemonSets], nodes=2)
        here.apply(DAEMONSETS, DAEMONSET)
        taint = {"key": "full", "effect": "NoSchedule"}
        here.edit(NODES, "node-0", "", taints=[taint])
        here.edit(NODES, "node-1", "", unschedulable=True)
        here.settle()
        assert 2 == len(here.pods())

        for name in here.names():
            here.store.delete(PODS, "default", name)
        here.tick(5.0)

        assert ["node-1"] == [target_of(pod) for pod in here.pods()]

    def test_an_update_replaces_one_at_a_time(self):
        """A rolling update leaves at most maxUnavailable nodes without a ready pod."""
        here = SimulatedCluster(actors=[DaemonSets], nodes=4, pace=SimulatedPace(start_s=1.0))
        made = here.apply(DAEMONSETS, DAEMONSET)
        here.tick(2.0)
        here.edit(DAEMONSETS, "agent", **with_image(made, "agent:2"))
        least = 4
        for _ in range(60):
            here.tick(0.25)
            least = min(least, here.get(DAEMONSETS, "agent")["status"]["numberAvailable"])

        assert ["agent:2"] * 4 == images(here)
        assert 3 == least
        assert 2 == len(here.store.list(CONTROLLERREVISIONS))

    def test_a_node_affinity_of_the_template_chooses_the_nodes(self):
        """The controller matches it, and replaces its terms by the node's name in the pod."""
        here = SimulatedCluster(actors=[DaemonSets], nodes=2, bind=False)
        affinity = (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchExpressions: "
            "[{key: kubernetes.io/hostname, operator: In, values: [node-1]}]}]}}}"
        )
        here.apply(
            DAEMONSETS, DAEMONSET.replace("spec: {containers", f"spec: {{{affinity}, containers")
        )

        (pod,) = here.pods()
        assert "node-1" == target_of(pod)
        required = pod["spec"]["affinity"]["nodeAffinity"]
        (term,) = required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert {"matchFields"} == set(term)
        assert "1" == pod["metadata"]["labels"]["pod-template-generation"]
