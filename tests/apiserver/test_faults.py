"""A server's answers about deleted objects, deleted kinds, lost rights, and reused names.

The simulated cluster (tests/simulated) relies on these answers; here they are compared with a real
server's.
"""

import asyncio

from tests.apiserver.api import Api
from tests.apiserver.manifests import binding, config, lease, pod
from tests.apiserver.patience import asked
from tests.apiserver.test_crd import Widgets
from tests.apiserver.test_eviction import EVICTION, running, with_budget
from tests.apiserver.test_rights import RBAC, grant, robot, rule, turned

OTHER = "00000000-0000-0000-0000-000000000000"


async def test_writes_that_mean_a_pod_of_before(api: Api):
    """Writes with the uid of a deleted pod are rejected with 409 if another pod has its name,
    except a patch that names the uid.
    """
    await api.post("pods", pod(), record=False)
    status = {"metadata": {"uid": OTHER}, "status": {"phase": "Running"}}
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": OTHER}}

    assert [422, 409, 409, 409] == [
        (await api.patch("pods/p/status", status)).code,
        (await api.delete("pods/p", options)).code,
        (await api.post("pods/p/eviction", EVICTION | {"deleteOptions": options})).code,
        (await api.post("pods/p/binding", binding("p", "n", uid=OTHER))).code,
    ]


async def test_writes_of_a_version_of_before(api: Api):
    """Writes with an old version are answered with 409, also patches that name a version."""
    made = await api.post("pods", pod(), record=False)
    await api.patch("pods/p", {"metadata": {"labels": {"a": "b"}}}, record=False)
    meta = {"resourceVersion": made.meta["resourceVersion"]}
    stored = await api.post("leases", lease(), record=False)
    await api.patch("leases/l", {"spec": {"holderIdentity": "b"}}, record=False)

    assert 409 == (await api.patch("pods/p/status", {"metadata": meta})).code
    assert 409 == (await api.put("leases/l", stored.body)).code
    assert 409 == (await api.post("leases", lease())).code


async def test_writes_to_what_has_gone(api: Api):
    """Writes to deleted objects are answered with 404; only a full write of a lease recreates
    it.
    """
    status = {"status": {"phase": "Running"}}

    assert {404} == {
        (await api.patch("pods/p/status", status)).code,
        (await api.delete("pods/p")).code,
        (await api.post("pods/p/eviction", EVICTION)).code,
        (await api.post("pods/p/binding", binding("p", "n"))).code,
    }
    assert 201 == (await api.put("leases/l", lease())).code


async def test_an_eviction_that_a_budget_refuses(api: Api):
    """The response is 429; Retry-After is set only if the server knows the time."""
    await running(api)
    await with_budget(api, allowed=0, current=1)
    refused = await api.post("pods/p/eviction", EVICTION)

    assert (429, "TooManyRequests") == (refused.code, refused.body["reason"])
    assert "Retry-After" not in refused.headers


async def test_a_kind_whose_definition_goes(api: Api):
    """An open watch reports the deletion of each object and ends; later requests get 404, in plain
    text.
    """
    w = Widgets(api)
    await w.define()
    made = await api.post(w.path, w.body(), record=False)
    version = made.meta["resourceVersion"]
    async with await api.watch(w.path, resourceVersion=version) as stream:
        await w.end()
        reported = []
        async with asyncio.timeout(60):
            while (event := await stream.next(record=False)) is not None:
                reported.append(event["type"])
    await api.until(w.path, lambda reply: reply.code == 404)
    gone = [
        await api.get(w.path),
        await api.post(w.path, w.body()),
        await api.get(w.path, watch="true"),
    ]

    assert ["DELETED"] == reported
    assert [(404, "404 page not found\n")] * 3 == [(one.code, one.body) for one in gone]


async def test_a_right_that_is_taken_away(api: Api):
    """Lists, watches and writes are answered with 403 from then on; an open watch continues."""
    headers = await robot(api)
    await grant(api, "Role", rule("*", "configmaps"))
    await turned(api, headers, "configmaps", refused=False)
    admin = api.session.headers["Authorization"]
    api.session.headers["Authorization"] = headers["Authorization"]
    try:
        stream = await api.watch("configmaps", resourceVersion="0")
    finally:
        api.session.headers["Authorization"] = admin
    async with stream:
        place = f"{RBAC}/namespaces/{api.ns}/roles/robot-{api.ns}"
        await api.patch(place, {"rules": [rule("get", "configmaps")]}, record=False)
        await turned(api, headers, "configmaps", refused=True)
        refused = [
            await api.get("configmaps", headers=headers),
            await api.get("configmaps", headers=headers, watch="true"),
            await api.post("configmaps", config(), headers=headers),
            await api.patch("configmaps/c", {"data": {}}, headers=headers),
            await api.delete("configmaps/c", headers=headers),
        ]
        await api.post("configmaps", config("late"), record=False)
        names = []
        while "late" not in names:
            event = await stream.next(record=False)
            names.append(event["object"]["metadata"]["name"])

    assert [403] * 5 == [reply.code for reply in refused]


async def test_tokens_that_say_nothing_any_more(api: Api):
    """401 for a token that was never issued, and for one whose account was deleted."""
    headers = await robot(api)
    await api.delete("serviceaccounts/robot", record=False)
    await asked(
        lambda: api.get("pods", headers=headers, record=False),
        lambda reply: reply.code == 401,
        "the account's end",
    )
    unknown = {"Authorization": "Bearer unknown-token"}

    assert {401} == {
        (await api.get("pods", headers=headers)).code,
        (await api.get("pods", headers=unknown)).code,
        (await api.get("pods", headers=unknown, watch="true")).code,
        (await api.post("pods/p/binding", binding("p", "n"), headers=unknown)).code,
    }
