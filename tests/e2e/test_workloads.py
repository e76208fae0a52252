"""Workloads of other controllers as they arrive at a scheduler, by the files of the
documentation.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.demo.stage import ScenarioStage, stage
from scheduler.kube.api import MERGE
from scheduler.kube.connection.client import ApiClient
from scheduler.objects.pod import Pod
from scheduler.sandbox.kinds.kinds import PODS
from tests.apiserver.patience import PATIENCE_S
from tests.e2e.test_groups import until

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "workloads"
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
pytestmark = [
    pytest.mark.long,
    pytest.mark.allow_blocking("reads manifests and starts the solver's process"),
]


async def bound(
    at: ScenarioStage, count: int, of: Callable[[Pod], bool] = lambda _: True
) -> list[Pod]:
    """Wait until so many pods have a node; return the selected ones."""
    await until(
        at.store,
        lambda store: count == sum("nodeName" in one.obj["spec"] for one in store.list(PODS)),
    )
    return [pod for pod in await at.pods() if of(pod)]


def with_label(key: str) -> Callable[[Pod], bool]:
    return lambda pod: key in pod.metadata.labels


def zones(pods: Iterable[Pod]) -> set[str]:
    """Return where pods are, by the names of the nodes."""
    return {(pod.spec.node_name or "").partition("-")[0] for pod in pods}


async def admit(at: ScenarioStage, pods: list[Pod]) -> None:
    """Act as Kueue with quota in a queue: remove the gate and set the selector of its nodes."""
    client = await ApiClient.connect(str(at.kubeconfig), clock=RealClock(), meters=Meters())
    chosen = {"topology.kubernetes.io/zone": "z2"}
    body = json.dumps({"spec": {"schedulingGates": None, "nodeSelector": chosen}}).encode()
    for pod in pods:
        path = f"/api/v1/namespaces/default/pods/{pod.metadata.name}"
        answer = await client.request("PATCH", path, body, content_type=MERGE)
        assert answer.ok, answer.message
    await client.close()


async def test_workloads_of_other_controllers():
    """The example files are placed: a Job, a JobSet as one group, a LeaderWorkerSet with a zone for
    each of its groups, Kueue's gated pods; a pod of another scheduler is not touched.
    """
    async with stage(EXAMPLES / "cluster.yaml", EXAMPLES) as at, asyncio.timeout(PATIENCE_S):
        await at.apply("beside.yaml")
        await at.apply("job.yaml")
        await bound(at, 4)
        await at.apply("jobset.yaml")
        jobset = await bound(at, 9, with_label("jobset.sigs.k8s.io/jobset-name"))
        await at.apply("leaderworkerset.yaml")
        lws = await bound(at, 15, with_label(GROUP_KEY))
        await at.apply("kueue.yaml")
        gated = [pod for pod in await at.pods() if "queued" in pod.metadata.name]
        await admit(at, gated)
        released = await bound(at, 17, lambda pod: "queued" in pod.metadata.name)
        (theirs,) = [pod for pod in await at.pods() if "theirs" == pod.metadata.name]

    assert 5 == len(jobset)
    assert {""} == {pod.spec.node_name or "" for pod in gated}
    assert 2 == len(released)
    assert {"far"} == zones(released)
    by_group = [
        zones(pod for pod in lws if key == pod.metadata.labels[GROUP_KEY])
        for key in {pod.metadata.labels[GROUP_KEY] for pod in lws}
    ]
    assert [1, 1] == [len(found) for found in by_group]
    assert by_group[0] != by_group[1]
    assert not theirs.spec.node_name
    assert not theirs.status.conditions
