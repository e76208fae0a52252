"""What a user sees on the page is what the API server lets the user list: RBAC on a real one."""

from pathlib import Path

import aiohttp
import msgspec
import pytest

from scheduler.cli.asking import options, setups
from scheduler.cli.live import Access
from scheduler.cli.ui import live_page
from scheduler.engine.attempt.choose import Ties
from scheduler.testing import pod
from tests.apiserver.realcluster import RealCluster

RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/page-a"


def furnish(cluster: RealCluster) -> None:
    """Two namespaces with a pod each; the user `nobody` may list the pods of one."""
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
        "metadata": {"name": "nobody-sees"},
        "roleRef": {"apiGroup": api, "kind": "Role", "name": "sees"},
        "subjects": [{"apiGroup": api, "kind": "User", "name": "nobody"}],
    }
    assert cluster.request("POST", f"{RBAC}/rolebindings", binding)[0] == 201


async def seen_by(kubeconfig: Path, namespace: str) -> str:
    """Return everything that the page of a user answers, as one text."""
    wanted = options("", Ties.UID, None, details=False)
    access = Access(str(kubeconfig), "", 30.0, namespace)
    async with live_page(setups(""), wanted, access) as printed, aiohttp.ClientSession() as session:
        address, _, key = printed.partition("#key=")
        headers = {"Authorization": f"Bearer {key}"}
        async with session.get(address + "api/events", headers=headers) as answer:
            assert b"event: view\n" == await answer.content.readline()
            told = (await answer.content.readuntil(b"\n")).decode()
        texts = [told]
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
    """Who may list the pods of `page-a` alone is shown those; an administrator is shown both."""
    furnish(own_real_cluster)

    own = await seen_by(own_real_cluster.nobody_kubeconfig, "page-a")
    everything = await seen_by(own_real_cluster.kubeconfig, "page-a")

    assert "secret-of-page-a" in own
    assert "secret-of-page-b" not in own
    assert "pods of namespace page-a only: you may not list the others" in own
    assert "secret-of-page-a" in everything
    assert "secret-of-page-b" in everything
