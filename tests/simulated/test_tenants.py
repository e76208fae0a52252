"""One tenant's problem does not affect the others."""

import pytest

from scheduler.daemon import loop
from scheduler.engine.binding import prebind
from tests.simulated.cluster import SimulatedCluster

pytestmark = pytest.mark.looptime

CLASS = {
    "metadata": {"name": "none"},
    "provisioner": "none.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


@pytest.mark.long
async def test_volumes_without_a_provisioner_delay_no_other_pod():
    """1,050 pods of one namespace wait for volumes: a plain pod, and a critical one, are bound at
    once.
    """
    await flooded(1050, 500)


async def test_a_namespace_has_only_so_many_pods_in_pre_bind(monkeypatch: pytest.MonkeyPatch):
    """The limit holds with a twentieth of all numbers."""
    monkeypatch.setattr(prebind, "MOST_OF_NAMESPACE", 25)
    monkeypatch.setattr(loop, "MOST_IN_FLIGHT", 50)
    await flooded(53, 25)


async def flooded(pods: int, limit: int) -> None:
    """Create a tenant's pods that wait for volumes, and check the other pods."""
    cluster = SimulatedCluster(1)
    for number in range(10):
        cluster.node(f"n{number}", cpu="200", pods="200")
    cluster.outside.put("/apis/storage.k8s.io/v1/storageclasses", CLASS)
    cluster.outside.put("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
    async with cluster.running(1):
        for number in range(pods):
            cluster.claim("tenant", f"c{number}", "none")
            cluster.pod(f"w{number}", "100m", "tenant", spec=with_claim(f"c{number}"))
        await cluster.pass_time(60)
        cluster.pod("plain")
        cluster.pod("critical", spec={"priorityClassName": "system-cluster-critical"})
        cluster.pod("own", "100m", "tenant")
        took_s = await cluster.until(lambda: len(cluster.unbound()) == pods)
        engine = cluster.replicas[0].daemon.engine
        waiting = len(engine.bindings.pre_bind)
        conditions = [cluster.condition(f"w{number}", "tenant") for number in range(pods)]
        # A released place is used by a waiting pod.
        inside = next(n for n in range(pods) if conditions[n]["reason"] == "WaitingOnPreBind")
        cluster.outside.remove(f"/api/v1/namespaces/tenant/pods/w{inside}")
        await cluster.pass_time(5)
        assert limit == len(engine.bindings.pre_bind)

    assert took_s < 5
    assert limit == waiting
    reasons = sorted(one["reason"] for one in conditions)
    assert ["Unschedulable"] * (pods - limit) + ["WaitingOnPreBind"] * limit == reasons
    (refused,) = {one["message"] for one in conditions if one["reason"] == "Unschedulable"}
    assert f"{limit} pods of the namespace tenant wait for their volumes or claims" in refused


def with_claim(name: str) -> dict[str, object]:
    """Return the volume of a pod that uses a claim."""
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}
