"""Impersonation, on the sandbox as on a real server: who may impersonate, and with which rights."""

from typing import Any

from multidict import CIMultiDict

from tests.apiserver.api import Api, Reply
from tests.apiserver.test_rights import grant, robot, rule, turned

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def named(user: str, *groups: str, **more: str) -> Any:
    """Return the headers that kubectl sends for `--as` and `--as-group`; a group each."""
    found = [("Impersonate-User", user)] if user else []
    found += [("Impersonate-Group", group) for group in groups]
    return CIMultiDict([*found, *((name.replace("_", "-"), text) for name, text in more.items())])


async def whoami(api: Api, headers: Any) -> Reply:
    """Return the server's name of the requesting user."""
    return await api.post(REVIEW, {}, headers=headers)


async def test_whom_an_administrator_becomes(api: Api):
    """A user has the named groups, a ServiceAccount those of all ServiceAccounts; no other group is
    added.
    """
    jane = await whoami(api, named("jane"))
    member = await whoami(api, named("jane", "devs", "ops", Impersonate_Uid="7"))
    account = await whoami(api, named(f"system:serviceaccount:{api.ns}:robot"))
    scopes = await whoami(api, named("jane", **{"Impersonate-Extra-scopes": "view"}))

    found = [one.body["status"]["userInfo"] for one in (jane, member, account, scopes)]
    assert ["jane", "jane", f"system:serviceaccount:{api.ns}:robot", "jane"] == [
        one["username"] for one in found
    ]
    assert ["system:authenticated"] == found[0]["groups"]
    assert ["devs", "ops", "system:authenticated"] == found[1]["groups"]
    assert f"system:serviceaccounts:{api.ns}" in found[2]["groups"]
    assert {"scopes": ["view"]} == found[3]["extra"]


async def test_what_the_other_may_not_is_refused(api: Api):
    """Rights are those of the impersonated user, and the rejection names that user."""
    await robot(api)
    await grant(api, "Role", rule("list", "pods"))
    robots = named(f"system:serviceaccount:{api.ns}:robot")
    await turned(api, robots, "pods", refused=False)

    codes = [
        (await api.get(where, headers=headers)).code
        for headers in (robots, named("jane"), named("jane", "system:masters"))
        for where in ("pods", "configmaps")
    ]
    assert [200, 403, 403, 403, 200] == codes[:5]


async def test_impersonation_requires_the_right(api: Api):
    """The verb `impersonate` is required on the user and on each group."""
    headers = await robot(api)
    # The text changed with constrained impersonation (1.35): only the code is compared.
    both = CIMultiDict([*headers.items(), *named("jane").items()])
    denied = await api.post(REVIEW, {}, headers=both, record=False)
    await grant(
        api,
        "ClusterRole",
        rule("impersonate", "users", resourceNames=["jane"]),
        rule("impersonate", "groups", resourceNames=["devs"]),
    )

    async def asked(*who: str, record: bool = True) -> Reply:
        sent = CIMultiDict([*headers.items(), *named(*who).items()])
        return await api.post(REVIEW, {}, headers=sent, record=record)

    for _ in range(500):
        if 201 == (await asked("jane", "devs", record=False)).code:
            break
    assert 403 == denied.code
    assert [201, 201, 403, 403] == [
        (await asked(*who, record="ops" not in who and "joe" not in who)).code
        for who in (("jane",), ("jane", "devs"), ("jane", "devs", "ops"), ("joe",))
    ]


async def test_groups_need_a_user(api: Api):
    """Groups without a user are an invalid request."""
    # A real server answers with its own memory's layout, so only the meaning is compared.
    answer = await api.post(REVIEW, {}, headers=named("", "devs"), record=False)

    assert (400, "BadRequest") == (answer.code, answer.body["reason"])
    assert "without impersonating a user name" in answer.message


async def test_an_unknown_user_cannot_be_impersonated(api: Api):
    """Impersonated, the anonymous user may do as little as without any token."""
    answer = await api.get("pods", headers=named("system:anonymous"))

    assert 403 == answer.code
