"""Load-aware placement through an API server: operator, reports, daemon, bindings."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from scheduler.base.clock import RealClock, rfc3339
from tests.e2e.livecluster import LiveCluster, daemon

CRD = Path(__file__).parents[2] / "crds" / "nodemetrics.yaml"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- plugins: {multiPoint: {enabled: [{name: LoadAwareScheduling, weight: 10}]}}
  pluginConfig:
  - name: LoadAwareScheduling
    args: {dominantResourceWeight: 5}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators:
  networkTopology: {enabled: false}
  nodeMetric: {enabled: true}
"""


async def define(cluster: LiveCluster) -> None:
    """Create the definition where the server has none yet."""
    body = yaml.safe_load(CRD.read_text())
    async with cluster.session.post(f"{cluster.url}{CRDS}", json=body) as answer:
        assert answer.status in (201, 409), await answer.text()


async def exists(cluster: LiveCluster, name: str) -> bool:
    """Return whether a NodeMetric exists."""
    async with cluster.session.get(f"{cluster.url}{METRICS}/{name}") as answer:
        return answer.status == 200


async def report(cluster: LiveCluster, name: str, cores: float, *, age_s: float = 0) -> None:
    """Write a status as an agent does."""
    used = {"cpu": f"{int(cores * 1000)}m", "memory": "1Gi"}
    status: dict[str, Any] = {
        "updateTime": rfc3339(RealClock().now() - age_s),
        "nodeMetric": {"nodeUsage": {"resources": used}},
        "podsMetric": [],
    }
    async with cluster.session.patch(
        f"{cluster.url}{METRICS}/{name}/status",
        json={"status": status},
        headers={"Content-Type": "application/merge-patch+json"},
    ) as answer:
        assert answer.status == 200, await answer.text()


async def placed(cluster: LiveCluster) -> Counter[str]:
    """Return how many pods of the case each node holds."""
    async with cluster.session.get(f"{cluster.url}/api/v1/namespaces/{cluster.ns}/pods") as answer:
        items = (await answer.json())["items"]
    return Counter(one["spec"].get("nodeName", "") for one in items)


def only_on(node: str) -> dict[str, Any]:
    """Return the spec of a pod that selects one node."""
    named = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": affinity}}


async def is_refused(cluster: LiveCluster, name: str) -> bool:
    """Return whether a pod's condition has a reason."""
    async with cluster.session.get(
        f"{cluster.url}/api/v1/namespaces/{cluster.ns}/pods/{name}"
    ) as answer:
        status = (await answer.json())["status"]
    return any(one["type"] == "PodScheduled" for one in status.get("conditions", ()))


async def test_a_burst_avoids_hot_and_silent_nodes(cluster: LiveCluster, tmp_path: Path):
    """The operator makes the objects, reports decide, and a node that reports again is used
    again.
    """
    config = tmp_path / "load.yaml"
    config.write_text(CONFIG)
    await define(cluster)
    names = await cluster.nodes(*["16"] * 6)
    async with daemon(cluster, tmp_path, config=config):
        for name in names:
            await cluster.until(lambda name=name: exists(cluster, name))  # type: ignore[misc]
        hot, silent, *idle = names
        await report(cluster, hot, 15)
        await report(cluster, silent, 1, age_s=400)
        for name in idle:
            await report(cluster, name, 2)
        for number in range(12):
            await cluster.pod(f"p{number}", requests={"cpu": "1", "memory": "1Gi"})

        async def all_bound() -> bool:
            return not (await placed(cluster))[""]

        await cluster.until(all_bound)
        counts = await placed(cluster)
        # A node without any report takes no pod either: the order of reports does not matter.
        assert set(counts) <= set(idle)
        assert len(counts) > 1
        # Asked for while it is silent, so that the order of events afterwards does not matter.
        await cluster.pod("late", requests={"cpu": "1", "memory": "1Gi"}, spec=only_on(silent))
        await cluster.until(lambda: is_refused(cluster, "late"))
        await report(cluster, silent, 1)
        await cluster.until(all_bound)
        assert (await placed(cluster))[silent] == 1
