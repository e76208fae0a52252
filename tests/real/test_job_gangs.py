"""A Job with `spec.scheduling` on Kubernetes 1.37: its group is placed in one rack, or not at all.

In the sandbox its own controller makes group and pods; beside a real API server the test does.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.patience import until
from tests.apiserver.realcluster import LATER, Reachable, RealCluster, start_cluster
from tests.real.api import Api
from tests.real.conftest import sandboxed
from tests.real.schedulers import Trellis
from tests.real.test_group_lifecycle import token_of
from tests.real.test_workloads import CORE, PROFILES, Cluster, documents, place, zone

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), pytest.mark.allow_blocking("files")]
Json = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.fixture
def later_cluster() -> Iterator[RealCluster]:
    with start_cluster(name="job-gangs", is_later=True) as cluster:
        yield cluster


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reachable]:
    """Give a server of the later release."""
    if request.param == "real":
        yield request.getfixturevalue("later_cluster")
        return
    async with sandboxed(tmp_path, LATER) as found:
        yield found


async def make_group(api: Api, job: Json) -> None:
    """Create the objects that the Job controller makes for a Job, except the Workload."""
    spec, name = job["spec"], job["metadata"]["name"]
    stated = spec["scheduling"]
    least = stated["schedulingPolicy"]["gang"].get("minCount", spec["parallelism"])
    asked = {key: stated[key] for key in ("schedulingConstraints", "disruptionMode")}
    policy = {"gang": {"minCount": least}}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy, **asked}}
    await api.expect("POST", GROUPS, body)
    for at in range(spec["parallelism"]):
        pod = spec["template"]["spec"] | {"schedulingGroup": {"podGroupName": name}}
        await api.expect(
            "POST", f"{CORE}/pods", {"metadata": {"name": f"{name}-{at}"}, "spec": pod}
        )


async def test_a_job_that_asks_for_a_gang_starts_in_one_rack(server: Reachable):
    """The Job waits for capacity for all of its pods, through a SIGKILL, and its group has 1.37's
    condition that it is placed.
    """
    is_sandbox = not isinstance(server, RealCluster)
    config = {"profiles": PROFILES, "clientConnection": {"kubeconfig": str(server.kubeconfig)}}
    (job,) = documents("job-gang.yaml")
    job["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    async with Api(server, token_of(server)) as api:
        cluster = Cluster(api)
        await cluster.begin()
        # Two nodes of the first rack, and one of the second: neither rack alone has capacity for
        # four pods of two CPUs.
        for name in ("node-0", "node-1", "far-0", "far-1"):
            await cluster.fill(name)
        with Trellis().start(server, config) as running:
            made = await api.expect("POST", JOBS, job)
            if not is_sandbox:
                await make_group(api, made)
            await until(lambda: stated(api, "False"), "a group that waits")
            await running.kill()
        with Trellis().start(server, config):
            for name in ("far-0", "far-1"):
                path = f"{CORE}/pods/full-{name}?gracePeriodSeconds=0"
                await api.expect("DELETE", path)
            await until(lambda: stated(api, "True"), "a group that is placed")
            placed = await cluster.bound(6)

    ours = [pod for name, pod in placed.items() if not name.startswith("full-")]
    assert 4 == len([pod for pod in ours if place(pod)])
    assert {"far"} == {zone(pod) for pod in ours}


async def stated(api: Api, status: str) -> bool:
    """Return whether the Job's group has its condition with this status."""
    found, _ = await api.list(GROUPS)
    reported = [one for group in found for one in group.get("status", {}).get("conditions", ())]
    return ("PodGroupInitiallyScheduled", status) in {
        (one["type"], one["status"]) for one in reported
    }
