"""Groups derived from the objects of JobSet, Trainer, LeaderWorkerSet, Ray and MPI: all or nothing.

The objects follow their public schemas; the test creates the pods as the tools' controllers do,
with exactly their labels. The daemon is killed (SIGKILL) while the groups wait.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.patience import until
from tests.apiserver.realcluster import Reachable
from tests.real.api import Api
from tests.real.schedulers import Trellis
from tests.real.test_group_lifecycle import DEFINITIONS, token_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
HERE = Path(__file__).parent
GROUPS = "ClusterTopologyPlacementGroup"
ARGS = {
    "derive": ["JobSet", "TrainJob", "RayCluster"],
    "deriveOnRequest": ["LeaderWorkerSet", "MPIJob"],
}
PROFILES = [
    {
        "schedulerName": "default-scheduler",
        "plugins": {"preEnqueue": {"enabled": [{"name": GROUPS}]}},
        "pluginConfig": [{"name": GROUPS, "args": ARGS}],
    }
]
NAMESPACES = {"always": "", "requested": "LeaderWorkerSet, MPIJob", "unasked": ""}
SIZE = 4
JOBSET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
MPI = "training.kubeflow.org"


def documents(file: str) -> list[Json]:
    """Return the objects of a file in this folder."""
    return list(yaml.safe_load_all((HERE / file).read_text()))


def plural(workload: Json) -> str:
    """Return the path of a workload's kind in its namespace."""
    meta = workload["metadata"]
    kind = f"{workload['kind'].lower()}s"
    return f"/apis/{workload['apiVersion']}/namespaces/{meta['namespace']}/{kind}"


def jobset_of(train: Json) -> Json:
    """Return the JobSet that the Trainer's controller creates."""
    job = {
        "parallelism": train["spec"]["trainer"]["numNodes"],
        "completions": train["spec"]["trainer"]["numNodes"],
        "completionMode": "Indexed",
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    one = {"name": "node", "replicas": 1, "template": {"spec": job}}
    meta = {"name": train["metadata"]["name"], "namespace": train["metadata"]["namespace"]}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": [one]},
    }


def labels_of(workload: Json) -> Iterator[dict[str, str]]:
    """Yield the labels of each pod that a workload's controller creates."""
    name, kind, spec = workload["metadata"]["name"], workload["kind"], workload["spec"]
    for at in range(SIZE):
        if kind == "JobSet":
            (replicated,) = spec["replicatedJobs"]
            each = replicated["template"]["spec"]["parallelism"]
            job = f"{name}-{replicated['name']}-{at // each}"
            yield {
                f"{JOBSET}/jobset-name": name,
                f"{JOBSET}/replicatedjob-name": replicated["name"],
                f"{JOBSET}/job-index": str(at // each),
                "batch.kubernetes.io/job-name": job,
                "batch.kubernetes.io/job-completion-index": str(at % each),
            }
        elif kind == "LeaderWorkerSet":
            yield {f"{LWS}/name": name, f"{LWS}/group-index": "0", f"{LWS}/worker-index": str(at)}
        elif kind == "RayCluster":
            role = {"ray.io/node-type": "worker", "ray.io/group": "workers"}
            yield {"ray.io/cluster": name, "ray.io/is-ray-node": "yes"} | (
                role if at else {"ray.io/node-type": "head", "ray.io/group": "headgroup"}
            )
        else:
            role = {f"{MPI}/job-role": "worker", f"{MPI}/replica-index": str(at - 1)}
            yield {f"{MPI}/job-name": name, f"{MPI}/operator-name": "mpi-operator"} | (
                role if at else {f"{MPI}/job-role": "launcher"}
            )


class Cluster:
    """Two nodes of two CPUs per workload, one CPU of which a single pod uses."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def begin(self) -> None:
        """Create definitions, namespaces and nodes."""
        for definition in documents("derivedkinds.yaml"):
            await self.api.expect("POST", DEFINITIONS, definition)
        for name, words in NAMESPACES.items():
            annotations = {"trellis.dev/derive-groups": words} if words else {}
            body = {"metadata": {"name": name, "annotations": annotations}}
            await self.api.expect("POST", "/api/v1/namespaces", body)
        for one in documents("derived.yaml"):
            await until(partial(self._is_served, one), f"the API server to offer {one['kind']}")

    async def _is_served(self, workload: Json) -> bool:
        code, _ = await self.api.request("GET", plural(workload))
        return code == 200

    async def pod(self, namespace: str, name: str, case: str, cpu: str, **more: Any) -> None:
        """Create a pod for the nodes of a case."""
        labels, node = more.get("labels", {}), more.get("node")
        meta = {"name": name, "labels": labels, "annotations": more.get("annotations", {})}
        spec = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            "nodeSelector": {"case": case},
            "tolerations": [{"operator": "Exists"}],  # no kubelet keeps these nodes ready
            "terminationGracePeriodSeconds": 0,
            **({"nodeName": node} if node else {}),
        }
        body = {"metadata": meta, "spec": spec}
        await self.api.expect("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    async def nodes(self, case: str) -> None:
        """Create the nodes of a case, with three CPUs left."""
        amounts = {"cpu": "2", "memory": "16Gi", "pods": "110"}
        status = {"capacity": amounts, "allocatable": amounts}
        for at in range(2):
            meta = {"name": f"{case}-{at}", "labels": {"case": case}}
            await self.api.expect("POST", "/api/v1/nodes", {"metadata": meta, "status": status})
        await self.pod("unasked", f"full-{case}", case, "1", node=f"{case}-0")

    async def workload(self, one: Json) -> None:
        """Create a workload, and the pods that its controller creates."""
        await self.api.expect("POST", plural(one), one)
        if one["kind"] == "TrainJob":
            one = jobset_of(one)
            await self.api.expect("POST", plural(one), one)
        case, namespace = one["metadata"]["name"], one["metadata"]["namespace"]
        for at, labels in enumerate(labels_of(one)):
            await self.pod(namespace, f"{case}-{at}", case, "1", labels=labels)

    async def pods(self, case: str) -> list[Json]:
        """Return the pods of a case's workload."""
        found, _ = await self.api.list("/api/v1/pods")
        return [one for one in found if one["metadata"]["name"].startswith(f"{case}-")]

    async def has_message(self, case: str, text: str) -> bool:
        """Return whether a pod of a case has this text in a condition, and none is bound."""
        found = await self.pods(case)
        assert not any(one["spec"].get("nodeName") for one in found), case
        reported = [one for pod in found for one in pod["status"].get("conditions", ())]
        return any(text in one.get("message", "") for one in reported)

    async def has_bound(self, case: str, number: int) -> bool:
        """Return whether `number` pods of a case are bound."""
        found = await self.pods(case)
        return number == sum(bool(one["spec"].get("nodeName")) for one in found)


async def test_workloads_are_placed_all_or_nothing_through_a_restart(server: Reachable):
    """Three of four pods fit: none is bound, also after a SIGKILL; with capacity for four all are.

    Without the namespace's request the pods are placed one by one; a pod that two workloads claim
    is on hold and its condition names both.
    """
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    workloads = documents("derived.yaml")
    cases = [one["metadata"]["name"] for one in workloads]
    async with Api(server, token_of(server)) as api:
        cluster = Cluster(api)
        await cluster.begin()
        with Trellis().start(server, config) as running:
            for one in workloads:
                await cluster.nodes(one["metadata"]["name"])
                await cluster.workload(one)
            for case in cases:
                await until(partial(cluster.has_message, case, "does not fit"), f"{case} waits")
            await running.kill()
        with Trellis().start(server, config):
            await cluster.nodes("single")
            (lws,) = (one for one in workloads if one["kind"] == "LeaderWorkerSet")
            meta = {"name": "single", "namespace": "unasked"}
            await cluster.workload(lws | {"metadata": meta})
            await until(lambda: cluster.has_bound("single", 3), "pods that are no group")
            both = {f"{JOBSET}/jobset-name": "jobset", "ray.io/cluster": "ray"}
            await cluster.pod("always", "claimed-0", "single", "1m", labels=both)
            names = "derived group (jobset-jobset) and derived group (raycluster-ray)"
            await until(
                lambda: cluster.has_message("claimed", names), "a pod that two workloads claim"
            )
            naming = {
                "labels": {"scheduling.x-k8s.io/pod-group": "first"},
                "annotations": {"pod-group-name": "second"},  # of KAI
            }
            await cluster.pod("always", "disputed-0", "single", "1m", **naming)
            names = "label scheduling.x-k8s.io/pod-group (first) and annotation pod-group-name"
            await until(lambda: cluster.has_message("disputed", f"{names} (second)"), "a dispute")
            for case in cases:
                assert await cluster.has_bound(case, 0)
                path = f"/api/v1/namespaces/unasked/pods/full-{case}?gracePeriodSeconds=0"
                await api.expect("DELETE", path)
            for case in cases:
                await until(partial(cluster.has_bound, case, SIZE), f"{case} is placed")
