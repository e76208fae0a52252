"""The page shows a user exactly the objects that the API server permits the user to list, with real
RBAC.
"""

import ssl
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.cmdio import options, setups
from scheduler.cli.verbs.start.ui import live_page
from scheduler.engine.attempt.cycle import Ties
from scheduler.testing import node, pod
from tests.apiserver.patience import until
from tests.apiserver.realcluster import RealCluster
from tests.real.schedulers import Running, Trellis

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/page-a"


def furnish(cluster: RealCluster) -> None:
    """Create two namespaces with a pod each; the user `powerless` may list the pods of one."""
    for name in ("page-a", "page-b"):
        meta = {"metadata": {"name": name}}
        assert cluster.request("POST", "/api/v1/namespaces", meta)[0] == 201
        account = {"metadata": {"name": "default"}}
        cluster.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", account)
        made = pod(f"secret-of-{name}", namespace=name, requests={"cpu": "1"})
        made["metadata"].pop("uid", None)
        code, answer = cluster.request("POST", f"/api/v1/namespaces/{name}/pods", made)
        assert code == 201, answer
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    role = {"metadata": {"name": "sees"}, "rules": [rule]}
    assert cluster.request("POST", f"{RBAC}/roles", role)[0] == 201
    api = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "powerless-sees"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "sees"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "powerless"}],
    }
    assert cluster.request("POST", f"{RBAC}/rolebindings", binding)[0] == 201


async def seen_by(kubeconfig: Path, namespace: str) -> str:
    """Return all answers of a user's page, as one text."""
    wanted = options("", Ties.UID, None, details=False)
    access = ClusterOptions(str(kubeconfig), "", 30.0, namespace)
    async with live_page(setups(""), wanted, access) as printed, aiohttp.ClientSession() as session:
        address, _, key = printed.partition("#key=")
        headers = {"Authorization": f"Bearer {key}"}
        async with session.get(address + "api/events", headers=headers) as answer:
            assert b"event: view\n" == await answer.content.readline()
            reported = (await answer.content.readuntil(b"\n")).decode()
        texts = [reported]
        for path in (
            "api/plan",
            "api/explain?pod=page-a/secret-of-page-a",
            "api/explain?pod=page-b/secret-of-page-x",
        ):
            async with session.get(address + path, headers=headers) as answer:
                texts.append(await answer.text())
        body = msgspec.json.encode({"manifests": "", "config": ""})
        async with session.post(address + "api/whatif", headers=headers, data=body) as answer:
            texts.append(await answer.text())
    return "\n".join(texts)


@pytest.mark.allow_blocking("a test furnishes its cluster")
async def test_a_user_of_one_namespace_sees_nothing_of_another(own_real_cluster: RealCluster):
    """A user who may list only the pods of `page-a` sees only those; an administrator sees both
    namespaces.
    """
    furnish(own_real_cluster)

    own = await seen_by(own_real_cluster.powerless_kubeconfig, "page-a")
    everything = await seen_by(own_real_cluster.kubeconfig, "page-a")

    assert "secret-of-page-a" in own
    assert "secret-of-page-b" not in own
    assert "pods of namespace page-a only: you may not list the others" in own
    assert "secret-of-page-a" in everything
    assert "secret-of-page-b" in everything


CLUSTER_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def grant_page(cluster: RealCluster) -> None:
    """Let `powerless` open the daemon's page; that right alone shows nothing."""
    rule = {"nonResourceURLs": ["/ui/*"], "verbs": ["get", "post"]}
    role = {"metadata": {"name": "opens-page"}, "rules": [rule]}
    assert cluster.request("POST", f"{CLUSTER_RBAC}/clusterroles", role)[0] == 201
    api = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "opens-page"},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "opens-page"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "powerless"}],
    }
    assert cluster.request("POST", f"{CLUSTER_RBAC}/clusterrolebindings", binding)[0] == 201


def furnish_nodes(cluster: RealCluster) -> None:
    """Create one node with capacity for one of the two pods, and one without."""
    for name, cpu in (("node-of-one", "1500m"), ("secret-node", "500m")):
        raw = node(name, cpu=cpu)
        raw["status"]["capacity"] = raw["status"]["allocatable"]
        raw["metadata"].pop("uid", None)
        assert cluster.request("POST", "/api/v1/nodes", raw)[0] == 201


class Visitor:
    """A client of the daemon's page with a token."""

    def __init__(self, session: aiohttp.ClientSession, daemon: Running, kubeconfig: Path) -> None:
        user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
        self.session = session
        self.url = f"{daemon.url}/ui/"
        self.headers = {"Authorization": f"Bearer {user['token']}"}

    async def get(self, path: str, **options: Any) -> tuple[int, str]:
        """Return status and text."""
        async with self.session.get(self.url + path, headers=self.headers, **options) as answer:
            return answer.status, await answer.text()

    async def everything(self, other: str) -> str:
        """Return all answers of the page; `other` is a pod to request."""
        async with self.session.get(self.url + "api/events", headers=self.headers) as answer:
            assert answer.status == 200, await answer.text()
            assert b"event: view\n" == await answer.content.readline()
            texts = [(await answer.content.readuntil(b"\n")).decode()]
        status, moments = await self.get("api/moments")
        assert status == 200, moments
        latest = max((one["until"] for one in msgspec.json.decode(moments)["moments"]), default=1)
        for path in (
            "api/plan",
            "api/explain?pod=page-a/secret-of-page-a",
            f"api/explain?pod={other}",
            f"api/snapshot?at={latest}",
            f"api/plan?at={latest}",
        ):
            status, text = await self.get(path)
            assert status in (200, 422), (path, text)
            texts.append(text.replace(other, ""))
        async with self.session.post(
            self.url + "api/whatif", headers=self.headers, data=b"{}"
        ) as answer:
            assert answer.status == 200, await answer.text()
            texts.append(await answer.text())
        return "\n".join([*texts, moments])


@pytest.mark.allow_blocking("a test furnishes its cluster")
async def test_the_daemons_page_shows_what_its_user_may_list(own_real_cluster: RealCluster):
    """No object for unknown users, one namespace for a user who may list it, all for an
    administrator.

    Also of the past.
    """
    cluster = own_real_cluster
    furnish(cluster)
    furnish_nodes(cluster)
    with Trellis(scheduler_name="default-scheduler").start(cluster) as daemon:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=_without_verification())
        ) as session:
            user_without_rights = Visitor(session, daemon, cluster.powerless_kubeconfig)
            admin = Visitor(session, daemon, cluster.kubeconfig)
            await until(lambda: _decided(admin), "both pods to be tried")

            status, text = await user_without_rights.get("")
            assert (200, True) == (status, "<title>Trellis" in text)
            assert 403 == (await user_without_rights.get("api/plan"))[0]
            async with session.get(user_without_rights.url + "api/plan") as answer:
                assert answer.status == 403, "anonymous"
            grant_page(cluster)
            await until(lambda: _is_let_in(user_without_rights), "the refusal to be forgotten")

            own = await user_without_rights.everything("page-b/secret-of-page-b")
            everything = await admin.everything("page-b/secret-of-page-b")
            foreign = {"Sec-Fetch-Site": "cross-site", **admin.headers}
            async with session.get(admin.url + "api/plan", headers=foreign) as answer:
                assert answer.status == 403, "another site asks"

    assert "secret-of-page-a" in own
    assert "secret-of-page-b" not in own
    assert "secret-node" not in own
    assert "pods of namespace page-a only: you may not list the others" in own
    assert "without nodes: you may not list them" in own
    assert "secret-of-page-a" in everything
    assert "secret-of-page-b" in everything
    assert "secret-node" in everything


async def _decided(admin: Visitor) -> bool:
    try:
        status, text = await admin.get("api/moments")
    except aiohttp.ClientError:
        return False
    return status == 200 and len({one["pod"] for one in msgspec.json.decode(text)["moments"]}) == 2


async def _is_let_in(visitor: Visitor) -> bool:
    return (await visitor.get("api/plan"))[0] == 200


def _without_verification() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
