"""What the daemon's account may not do, tried with its token on a real server, whatever the chart's
values.

A thief of the token would try just that: other images, other namespaces' ConfigMaps, Secrets, other
Leases. Each refusal is the server's, by a role that is not there or by an admission policy of the
chart.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.kube.api import MERGE
from scheduler.kube.connection.client import ApiClient
from tests.apiserver.api import JSON_PATCH
from tests.apiserver.patience import asked
from tests.apiserver.realcluster import RealCluster, start_cluster
from tests.e2e.chartcluster import MARKS, NAMESPACE, RELEASE, Json, Server, six_nodes, waiting
from tests.e2e.core import LEASE

pytestmark = MARKS
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: trellis}]
"""
MAP = "/api/v1/namespaces/{}/configmaps/{}"
POD = "/api/v1/namespaces/{}/pods/target"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups/{}"
DEFINITIONS = Path(__file__).parents[2] / "docs/examples/volcano/definitions.yaml"


# A list is a JSON patch, where a merge patch would say too much.
Body = Json | list[Json] | None


class Values(NamedTuple):
    """Values of the chart; where groups may be written, and whether a policy guards that."""

    sets: tuple[str, ...] = ()
    config: str = ""
    written: tuple[str, ...] = ()
    is_guarded: bool = True

    @property
    def has_volcano(self) -> bool:
        """Return whether Volcano's PodGroups are written."""
        return any("volcano" in one for one in self.sets)


COMBINATIONS = {
    "default": Values(written=("shop", "other", "kube-system")),
    "plain": Values(("profile=plain",)),
    "network": Values(("profile=network", "rbac.configMaps[0].namespace=shop",
        "rbac.configMaps[0].name=latencies")),
    "numa": Values(("profile=numa",)),
    "load": Values(("profile=load", "agents.load.enabled=true")),
    "one-namespace": Values(("rbac.groups.namespaces={shop}",), written=("shop",)),
    "volcano": Values(
        ("profile=sakkara", "rbac.groups.volcano=true", "rbac.groups.namespaces={shop}"),
        written=("shop",)
    ),
    "no-groups": Values(("rbac.groups.enabled=false",)),
    "no-policy": Values(
        ("rbac.admissionPolicies=false", "rbac.groups.namespaces={shop}"), "", ("shop",), False
    ),
    "own": Values((), CONFIG, ("shop", "other", "kube-system")),
    "own-without": Values(
        tuple(f"rbac.{part}.enabled=false" for part in ("network", "groups", "numa", "load")),
        CONFIG
    ),
    "secret": Values(("profile=plain", "rbac.secrets[0].namespace=shop",
        "rbac.secrets[0].name=token")),
}  # fmt: skip


class Thief:
    """A client with the token of the daemon's account."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def may(self, method: str, path: str, body: Body = None) -> bool:
        """Return whether a request is permitted, by a dry run: any response except 403 counts as
        yes.
        """
        if method != "GET":
            path += "?dryRun=All"
        data = b"" if body is None else json.dumps(body).encode()
        patch = JSON_PATCH if isinstance(body, list) else MERGE
        kind = patch if method == "PATCH" else "application/json"
        response = await self._client.request(method, path, data, content_type=kind)
        assert response.code in (200, 201, 403, 404, 409, 422), response
        return response.code != 403


@asynccontextmanager
async def robbed(server: Server) -> AsyncIterator[Thief]:
    """Take the token of the daemon's account."""
    stolen = await server.kubeconfig_of(RELEASE)
    client = await ApiClient.connect(str(stolen), clock=RealClock(), meters=Meters())
    try:
        yield Thief(client)
    finally:
        await client.close()


async def furnished(server: Server) -> None:
    """Create the objects that an attacker would read."""
    there = {one["metadata"]["name"] for one in (await server.get("/api/v1/namespaces"))["items"]}
    for space in {"shop", "other", NAMESPACE} - there:
        await server.post("/api/v1/namespaces", {"metadata": {"name": space}})
    for space in ("shop", "other", "kube-system"):
        target = waiting("target")
        target["metadata"] |= {"namespace": space, "labels": {"app": "web"}}
        await server.post(POD.format(space).rpartition("/")[0], target)
        maps = MAP.format(space, "").rstrip("/")
        group = {"name": "group", "labels": {"sakkara.group": ""}}
        await server.post(maps, {"metadata": group, "data": {"size": "1", "name": "group"}})
        await server.post(maps, {"metadata": {"name": "settings"}, "data": {"status": "on"}})
        gang = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "gang"},
            "spec": {"minMember": 1},
        }
        await server.post(VOLCANO.format(space, "").rstrip("/"), gang)
    for name in ("token", "password"):
        body = {"metadata": {"name": name}, "stringData": {"token": "t"}}
        await server.post("/api/v1/namespaces/shop/secrets", body)
    await server.post(LEASE, {"metadata": {"name": "another"}, "spec": {}})


def never(values: Values) -> list[tuple[str, str, Body]]:
    """Return the requests that this account may never make."""
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}]
    rbac = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    found: list[tuple[str, str, Body]] = [
        ("GET", "/api/v1/secrets", None),
        ("GET", "/api/v1/namespaces/shop/secrets/password", None),
        ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets", None),
        ("POST", "/api/v1/namespaces/shop/pods", waiting("mine")),
        ("POST", "/api/v1/namespaces/shop/pods/target/exec", {}),
        ("POST", "/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "mine"}}),
        ("DELETE", MAP.format("shop", "group"), None),
        ("POST", rbac, {"metadata": {"name": "mine"}}),
        ("PATCH", f"{rbac}/{RELEASE}", {"subjects": []}),
        ("PATCH", "/api/v1/nodes/node-0", {"spec": {"unschedulable": True}}),
        ("PATCH", "/api/v1/nodes/node-0/status", {"status": {"capacity": {"cpu": "99"}}}),
        ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{RELEASE}/token", {"spec": {}}),
        ("GET", f"{LEASE}/another", None),
        ("PUT", f"{LEASE}/another", {"metadata": {"name": "another"}, "spec": {}}),
        ("DELETE", f"{LEASE}/{RELEASE}", None),
        ("POST", LEASE, {"metadata": {"name": "mine"}, "spec": {}}),
        ("POST", LEASE.replace(NAMESPACE, "kube-system"), {"metadata": {"name": "mine"}}),
        ("PATCH", "/apis/apps/v1/namespaces/shop/deployments/web", {}),
        ("DELETE", "/api/v1/namespaces/shop", None),
        ("DELETE", "/api/v1/persistentvolumes/v", None),
        (
            "DELETE",
            f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{RELEASE}-pods",
            None,
        ),
    ]
    for space in ("shop", "other", "kube-system"):
        is_written = space in values.written
        if not is_written or values.is_guarded:
            settings, group = MAP.format(space, "settings"), MAP.format(space, "group")
            found += [
                ("PATCH", POD.format(space), image),
                ("PATCH", POD.format(space), {"metadata": {"labels": {"app": "evil"}}}),
                ("PATCH", POD.format(space), {"metadata": {"labels": {"app": None}}}),
                ("PATCH", POD.format(space), {"metadata": {"annotations": {"a": "b"}}}),
                ("PATCH", POD.format(space), {"metadata": {"finalizers": ["a.b/c"]}}),
                ("PATCH", POD.format(space), {"spec": {"activeDeadlineSeconds": 1}}),
                ("PATCH", settings, {"data": {"status": "off"}}),
                ("PATCH", group, {"data": {"size": "2"}}),
                ("PATCH", group, {"data": {"size": None}}),
                ("PATCH", group, {"metadata": {"labels": {"sakkara.group": None}}}),
                ("PATCH", group, {"metadata": {"annotations": {"a": "b"}}}),
                ("PATCH", group, {"binaryData": {"x": "eA=="}}),
                ("PATCH", group, {"immutable": True}),
            ]
        if not is_written:
            found += [
                (
                    "PATCH",
                    POD.format(space),
                    {"metadata": {"labels": {"sakkara.member.rank": "1"}}},
                ),
                ("PATCH", MAP.format(space, "group"), {"data": {"status": "Bound"}}),
            ]
        gang = VOLCANO.format(space, "gang")
        found += [
            ("DELETE", gang, None),
            ("PATCH", gang, {"spec": {"minMember": 2}}),
            ("PATCH", gang, {"metadata": {"annotations": {"a": "b"}}}),
        ]
        if not (is_written and values.has_volcano):
            found.append(("PATCH", gang, {"status": {"phase": "Running"}}))
    return found


def always(values: Values) -> list[tuple[str, str, Body]]:
    """Return the requests of the account's purpose, so that a refusal has no other cause."""
    found: list[tuple[str, str, Body]] = [
        ("GET", "/api/v1/pods", None),
        ("GET", f"{LEASE}/{RELEASE}", None),
        ("PATCH", f"{POD.format('shop')}/status", {"status": {}}),
    ]
    if "secret" in str(values.sets):
        found.append(("GET", "/api/v1/namespaces/shop/secrets/token", None))
    if "configMaps" in str(values.sets):
        found.append(("GET", MAP.format("shop", "latencies"), None))
    for space in values.written:
        labels = {"sakkara.member.rank": "1", "sakkara.member.status": "Bound"}
        done = {"status": "Bound", "placement": "{}", "message": None, "preemptor": "x"}
        found += [
            ("PATCH", POD.format(space), {"metadata": {"labels": labels}}),
            ("PATCH", MAP.format(space, "group"), {"data": done}),
        ]
        if values.has_volcano:
            gang = {"status": {"phase": "Running"}}
            found.append(("PATCH", VOLCANO.format(space, "gang"), gang))
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    """Start one real server for all combinations."""
    with start_cluster((), "forbidden") as found:
        found.kubectl("apply", "-f", str(DEFINITIONS))
        found.kubectl("wait", "--for=condition=Established", "-f", str(DEFINITIONS))
        yield found


@pytest.mark.parametrize("name", COMBINATIONS)
async def test_what_a_thief_cannot_do(cluster: RealCluster, name: str, tmp_path: Path):
    """The daemon's own work is allowed, and all else is refused.

    `auth can-i --list` shows no more.
    """
    values = COMBINATIONS[name]
    async with six_nodes(cluster.kubeconfig, tmp_path) as server:
        await furnished(server)
        await server.chart("install", *values.sets, config=values.config)
        try:
            async with robbed(server) as thief:
                allowed, forbidden = always(values), never(values)
                # A server takes a moment to know of new roles, and of new policies, each for
                # itself.
                for request in allowed:
                    await asked(partial(thief.may, *request), bool, str(request))
                for request in forbidden:
                    await asked(partial(thief.may, *request), lambda may: not may, str(request))
            assert [] == oddities(cluster, values)
        finally:
            await cleared(server)


def oddities(cluster: RealCluster, values: Values) -> list[str]:
    """Return the rights that `kubectl auth can-i --list` shows and no daemon needs."""
    user = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
    found = []
    for space in ("shop", "other"):
        shown = cluster.kubectl("auth", "can-i", "--list", f"--as={user}", "-n", space)
        for line in shown.splitlines()[1:]:
            resource, verbs = line.split()[0], line[line.rindex("[") :]
            patched = resource in ("configmaps", "pods") and "patch" in verbs
            odd = (
                "*" in verbs
                or resource.startswith(("*", "roles", "clusterroles", "serviceaccounts", "leases"))
                or (resource == "secrets" and "token" not in line)
                or (patched and space not in values.written)
            )
            found += [f"{space}: {line}"] if odd else []
    return found


async def cleared(server: Server) -> None:
    """Leave nothing to the next combination."""
    await server.helm("uninstall", RELEASE)
    for number in range(6):
        await server.delete(f"/api/v1/nodes/node-{number}")
    for space in ("shop", "other", "kube-system"):
        await server.delete(f"{POD.format(space)}?gracePeriodSeconds=0")
        for name in ("group", "settings"):
            await server.delete(MAP.format(space, name))
        await server.delete(VOLCANO.format(space, "gang"))
    for name in ("token", "password"):
        await server.delete(f"/api/v1/namespaces/shop/secrets/{name}")
    for lease in (await server.get(LEASE))["items"]:
        await server.delete(f"{LEASE}/{lease['metadata']['name']}")
