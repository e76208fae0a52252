"""The chart by helm on a server: a release through all profiles, and its leftovers after removal.

Each time the daemon gets the environment of its Deployment and nothing else; a missing right is a
response 403 in its log.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.chart.test_chart import COMBINATIONS, render
from tests.e2e.chartcluster import (
    MARKS,
    NAMESPACE,
    PODS,
    PROFILES,
    RELEASE,
    Json,
    Server,
    six_nodes,
    waiting,
)
from tests.e2e.chartparts import established
from tests.e2e.monitoringkinds import definitions
from tests.e2e.operatorcluster import real, sandbox

pytestmark = MARKS


PLURALS = sorted(path.stem for path in (Path(__file__).parents[2] / "crds").glob("*.yaml"))


@pytest.fixture(params=["sandbox", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """Give a server of six nodes."""
    opened = real if request.param == "real" else sandbox
    async with opened(tmp_path) as kubeconfig, six_nodes(kubeconfig, tmp_path) as found:
        yield found


async def left_behind(server: Server) -> list[str]:
    """Return the objects of any kind with the release's label, as `resource name`."""
    found = []
    groups = [one["preferredVersion"] for one in (await server.get("/apis"))["groups"]]
    roots = ["/api/v1", *(f"/apis/{one['groupVersion']}" for one in groups)]
    for root in roots:
        for resource in (await server.get(root))["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                selector = f"?labelSelector=app.kubernetes.io%2Finstance%3D{RELEASE}"
                items = (await server.get(f"{root}/{resource['name']}{selector}"))["items"]
                found += [f"{resource['name']} {one['metadata']['name']}" for one in items]
    return found


async def test_a_release_through_all_profiles(server: Server):
    """The release is installed, upgraded from profile to profile, rolled back and uninstalled: only
    definitions stay.
    """
    for profile, step in PROFILES.items():
        verb = "install" if profile == "plain" else "upgrade"
        more = ["agents.load.enabled=true"] if profile == "load" else []
        await server.chart(verb, f"profile={profile}", *more)
        async with server.daemon():
            await step(server)
    await server.chart("upgrade", "profile=all")
    async with server.daemon():
        await server.post(PODS, waiting("last"))
        await server.bound("last")

    await server.helm("rollback", RELEASE, "1")
    async with server.daemon():
        await server.post(PODS, waiting("again"))
        await server.bound("again")

    await server.helm("uninstall", RELEASE)
    assert [] == await left_behind(server)
    leases = await server.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")
    assert [] == [one["metadata"]["name"] for one in leases["items"]]
    stay = await server.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert PLURALS == sorted(one["spec"]["names"]["plural"] for one in stay["items"])


async def kinds_of(server: Server) -> dict[tuple[str, str], tuple[str, bool]]:
    """Return where objects of each apiVersion and kind are, and whether in namespaces."""
    found = {}
    groups = [one["preferredVersion"] for one in (await server.get("/apis"))["groups"]]
    for version in ("v1", *(one["groupVersion"] for one in groups)):
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        for resource in (await server.get(root))["resources"]:
            if "/" not in resource["name"]:
                where = f"{root}/{{}}{resource['name']}", resource["namespaced"]
                found[version, resource["kind"]] = where
    return found


async def test_every_combination_is_taken_by_the_server(server: Server):
    """Each object of each combination of values passes a strict dry run.

    One with a typo does not.
    """
    for name in ("sys", "shop"):
        await server.post("/api/v1/namespaces", {"metadata": {"name": name}})
    for one in definitions():
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await server.post(path, one)
        await server.until(f"{path}/{one['metadata']['name']}", established)
    kinds = await kinds_of(server)

    def path_of(one: Json) -> str:
        path, is_namespaced = kinds[one["apiVersion"], one["kind"]]
        return path.format(f"namespaces/{one['metadata']['namespace']}/" if is_namespaced else "")

    reported = {}
    for values in COMBINATIONS:
        for one in await asyncio.to_thread(render, *values):
            name = one["metadata"]["name"]
            refusal = await server.dry_run(f"{path_of(one)}/{name}", one)
            if refusal:
                reported["+".join(values), one["kind"], name] = refusal
    (deployment,) = (one for one in render() if one["kind"] == "Deployment")
    broken = deployment | {"spec": deployment["spec"] | {"replicaCount": 2}}

    assert {} == reported
    assert 12 <= len(COMBINATIONS)
    refusal = await server.dry_run(f"{path_of(broken)}/{broken['metadata']['name']}", broken)
    assert "replicaCount" in refusal
