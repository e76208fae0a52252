"""Evictions and the budgets that hold them back."""

from typing import Any

from tests.apiserver.api import Api
from tests.apiserver.manifests import budget, pod

EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}


async def running(api: Api, *, ready: bool = True, **spec: Any) -> None:
    """A running pod of the application that the budgets cover."""
    body = pod(labels={"app": "web"}, nodeName="n1", **spec)
    await api.post("pods", body, record=False)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    assert 200 == (await api.patch("pods/p/status", status, record=False)).code


async def with_budget(api: Api, allowed: int, *, current: int = 2, desired: int = 1) -> None:
    """Return a budget whose controller has observed it."""
    made = await api.post("poddisruptionbudgets", budget(minAvailable=1), record=False)
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": current,
        "desiredHealthy": desired,
        "expectedPods": 2,
        "observedGeneration": made.meta["generation"],
    }
    reply = await api.patch("poddisruptionbudgets/b/status", {"status": status}, record=False)
    assert 200 == reply.code


async def test_eviction_without_a_budget_deletes(api: Api):
    """201, and the pod begins to go."""
    await running(api)
    evicted = await api.post("pods/p/eviction", EVICTION)
    got = await api.get("pods/p")

    assert 201 == evicted.code
    assert got.meta["deletionTimestamp"]
    assert "DisruptionTarget" in [c["type"] for c in got.body["status"]["conditions"]]


async def test_eviction_takes_from_the_budget(api: Api):
    """The budget allows one disruption less and names the pod."""
    await running(api)
    await with_budget(api, allowed=1)
    evicted = await api.post("pods/p/eviction", EVICTION)
    left = await api.get("poddisruptionbudgets/b")

    assert 201 == evicted.code
    assert 0 == left.body["status"]["disruptionsAllowed"]
    assert "p" in left.body["status"]["disruptedPods"]


async def test_eviction_beyond_the_budget_is_refused(api: Api):
    """429, and the pod stays."""
    await running(api)
    await with_budget(api, allowed=0, current=1)
    refused = await api.post("pods/p/eviction", EVICTION)

    assert 429 == refused.code
    assert "deletionTimestamp" not in (await api.get("pods/p", record=False)).meta


async def test_eviction_waits_for_a_fresh_budget(api: Api):
    """A budget that its controller has not observed yet refuses evictions."""
    await running(api)
    await api.post("poddisruptionbudgets", budget(maxUnavailable=1), record=False)
    refused = await api.post("pods/p/eviction", EVICTION)

    assert 429 == refused.code
    assert "10" == refused.headers["Retry-After"]


async def test_eviction_of_a_pod_that_does_not_run(api: Api):
    """A pending pod needs no budget."""
    await api.post("pods", pod(labels={"app": "web"}))
    await with_budget(api, allowed=0)

    assert 201 == (await api.post("pods/p/eviction", EVICTION)).code


async def test_eviction_of_an_unready_pod(api: Api):
    """An unready pod may be evicted while enough others are healthy."""
    await running(api, ready=False)
    await with_budget(api, allowed=0, current=2, desired=2)

    assert 201 == (await api.post("pods/p/eviction", EVICTION)).code


async def test_eviction_dry_run(api: Api):
    """A dry run answers like an eviction and changes nothing."""
    await running(api)
    dry = {**EVICTION, "deleteOptions": {"dryRun": ["All"]}}

    assert 201 == (await api.post("pods/p/eviction", dry)).code
    assert "deletionTimestamp" not in (await api.get("pods/p", record=False)).meta


async def test_eviction_with_a_grace_period(api: Api):
    """deleteOptions apply to the deletion."""
    await running(api)
    body = {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 3}}
    await api.post("pods/p/eviction", body)

    assert 3 == (await api.get("pods/p", record=False)).meta["deletionGracePeriodSeconds"]


async def test_eviction_of_an_unknown_pod(api: Api):
    """The response is 404."""
    assert 404 == (await api.post("pods/p/eviction", EVICTION)).code


async def test_eviction_with_two_budgets(api: Api):
    """Two budgets for one pod are an error."""
    await running(api)
    await with_budget(api, allowed=1)
    await api.post("poddisruptionbudgets", budget("other", minAvailable=1), record=False)

    assert 500 == (await api.post("pods/p/eviction", EVICTION)).code
