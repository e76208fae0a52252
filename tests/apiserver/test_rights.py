"""The rights of a ServiceAccount by the roles bound to it, on the sandbox as on a real server."""

from typing import Any

import pytest

from tests.apiserver.api import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def robot(api: Api) -> dict[str, str]:
    """Create a ServiceAccount and return the header that impersonates it."""
    await api.post("serviceaccounts", {"metadata": {"name": "robot"}}, record=False)
    made = await api.post("serviceaccounts/robot/token", {"spec": {}}, record=False)
    return {"Authorization": f"Bearer {made.body['status']['token']}"}


async def grant(api: Api, kind: str, *rules: dict[str, Any]) -> None:
    """Bind a role of the namespace, or of the cluster, to the ServiceAccount."""
    name = f"robot-{api.ns}"
    place = f"{RBAC}/namespaces/{api.ns}" if kind == "Role" else RBAC
    plural = "roles" if kind == "Role" else "clusterroles"
    role = {"metadata": {"name": name}, "rules": list(rules)}
    assert 201 == (await api.post(f"{place}/{plural}", role, record=False)).code
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": api.ns}],
    }
    bound = await api.post(f"{place}/{plural[:-1]}bindings", binding, record=False)
    assert 201 == bound.code


async def turned(api: Api, headers: dict[str, str], path: str, *, refused: bool) -> None:
    """Repeat a request until a change of roles is effective: a real server follows its own objects
    by watching.
    """
    for _ in range(500):
        if refused is (403 == (await api.get(path, headers=headers, record=False)).code):
            return


def rule(verb: str, resource: str, group: str = "", **more: Any) -> dict[str, Any]:
    """Return a rule of a role."""
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb]} | more


async def test_nothing_without_a_role(api: Api):
    """Discovery is open to every authenticated user; the rejection names user, verb and
    resource.
    """
    headers = await robot(api)

    assert 200 == (await api.get("/api/v1", headers=headers, record=False)).code
    refused = await api.get("pods", headers=headers)
    assert 403 == refused.code
    expected = (
        f'pods is forbidden: User "system:serviceaccount:{api.ns}:robot" cannot list resource '
        f'"pods" '
        f'in API group "" in the namespace "{api.ns}"'
    )
    assert expected == refused.body["message"]


@pytest.mark.parametrize(
    ("kind", "rules", "allowed", "refused"),
    [
        pytest.param(
            "Role",
            [rule("list", "pods")],
            ["pods"],
            ["pods/p", "/api/v1/pods"],
            id="namespace",
        ),
        pytest.param(
            "ClusterRole",
            [rule("list", "pods")],
            ["pods", "/api/v1/pods?fieldSelector=metadata.name%3Dnobody"],
            ["services"],
            id="cluster",
        ),
        pytest.param("Role", [rule("*", "*")], ["pods", "configmaps"], ["/api/v1/nodes"], id="all"),
        pytest.param(
            "Role",
            [rule("get", "configmaps", resourceNames=["mine"])],
            ["configmaps/mine"],
            ["configmaps/other", "configmaps"],
            id="names",
        ),
        pytest.param(
            "Role", [rule("get", "pods")], ["pods/p"], ["pods/p/status"], id="subresource"
        ),
        pytest.param(
            "Role", [rule("get", "*/status")], ["pods/p/status"], ["pods/p"], id="any-status"
        ),
    ],
)
async def test_what_a_role_grants(
    api: Api, kind: str, rules: list[dict[str, Any]], allowed: list[str], refused: list[str]
):
    """Verbs, resources, names and subresources, in one namespace or everywhere."""
    headers = await robot(api)
    await grant(api, kind, *rules)
    await turned(api, headers, allowed[-1], refused=False)

    assert dict.fromkeys(allowed, True) == {
        path: (await api.get(path, headers=headers)).code in (200, 404) for path in allowed
    }
    assert dict.fromkeys(refused, 403) == {
        path: (await api.get(path, headers=headers)).code for path in refused
    }


async def test_a_binding_that_goes_takes_the_right_along(api: Api):
    """Rights are recomputed when a binding changes."""
    headers = await robot(api)
    await grant(api, "Role", rule("list", "pods"))
    await turned(api, headers, "pods", refused=False)
    before = await api.get("pods", headers=headers)
    await api.delete(f"{RBAC}/namespaces/{api.ns}/rolebindings/robot-{api.ns}", record=False)
    await turned(api, headers, "pods", refused=True)
    after = await api.get("pods", headers=headers)

    assert [200, 403] == [before.code, after.code]


async def test_reviews_tell_the_same(api: Api):
    """The reviews of the user and of another user agree."""
    headers = await robot(api)
    await grant(api, "Role", rule("list", "pods"))
    await turned(api, headers, "pods", refused=False)
    root = "/apis/authorization.k8s.io/v1"
    user = f"system:serviceaccount:{api.ns}:robot"
    found = []
    for verb in ("list", "delete"):
        asked = {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": api.ns}}
        own = await api.post(
            f"{root}/selfsubjectaccessreviews", {"spec": asked}, headers=headers, record=False
        )
        other = await api.post(
            f"{root}/subjectaccessreviews", {"spec": asked | {"user": user}}, record=False
        )
        found.append((own.body["status"]["allowed"], other.body["status"]["allowed"]))

    assert [(True, True), (False, False)] == found
