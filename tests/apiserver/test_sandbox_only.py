"""Work that a bare kube-apiserver leaves to controllers, or to a newer etcd, and the sandbox does
itself.
"""

import aiohttp
import pytest

from scheduler.base.clock import RealClock
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.start import new_store
from tests.apiserver.api import APPLY_PATCH, Api, Reply
from tests.apiserver.manifests import Json, config, deployment, pod, widgets
from tests.apiserver.realcluster import ADMIN_TOKEN

COMPARED = False
pytestmark = pytest.mark.parametrize("server_kind", ["sandbox"])


@pytest.fixture
def server(server_kind: str) -> ApiServer:
    """Return a server that sends bookmarks often and serves the project's own kinds."""
    return ApiServer(new_store(RealClock()), token=ADMIN_TOKEN, bookmark_s=0.05)


def gone(reply: Reply) -> bool:
    return reply.code == 404


async def owned(api: Api, name: str, owner: Json, **reference: object) -> None:
    body = config(name)
    meta = owner["metadata"]
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": meta["name"],
            "uid": meta["uid"],
            **reference,
        }
    ]
    assert 201 == (await api.post("configmaps", body)).code


async def test_initial_events_end_with_a_bookmark(api: Api):
    """sendInitialEvents streams the list and marks its end."""
    await api.post("leases", {"metadata": {"name": "a"}})
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with await api.watch("leases", **query) as stream:
        first, second = await stream.next(), await stream.next()
        await api.post("leases", {"metadata": {"name": "b"}})
        third = await stream.next(skip_bookmarks=True)

    assert ("ADDED", "BOOKMARK", "ADDED") == (first["type"], second["type"], third["type"])
    assert "true" == second["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"]


async def test_bookmarks_tell_how_far_a_watch_is(api: Api):
    """A bookmark's version covers writes to other kinds, too."""
    async with await api.watch("leases", allowWatchBookmarks="true") as stream:
        made = await api.post("configmaps", config())
        while True:
            mark = await stream.next()
            version = int(mark["object"]["metadata"]["resourceVersion"])
            if version >= int(made.meta["resourceVersion"]):
                break

    assert "BOOKMARK" == mark["type"]
    assert "Lease" == mark["object"]["kind"]


async def test_without_asking_there_are_no_bookmarks(api: Api):
    """Without a request for bookmarks only the change arrives."""
    start = (await api.get("leases")).meta["resourceVersion"]
    async with await api.watch("leases", resourceVersion=start, timeoutSeconds=1) as stream:
        assert await stream.next() is None


async def test_dependents_go_with_their_owner(api: Api):
    """Background deletion: the owner is deleted at once, its dependents after it."""
    owner = (await api.post("configmaps", config("owner"))).body
    await owned(api, "child", owner)
    child = (await api.get("configmaps/child")).body
    await owned(api, "grandchild", child)
    await api.delete("configmaps/owner")

    await api.until("configmaps/child", gone)
    await api.until("configmaps/grandchild", gone)


async def test_dependents_with_another_owner_stay(api: Api):
    """Only the reference to the deleted owner is removed."""
    one = (await api.post("configmaps", config("one"))).body
    two = (await api.post("configmaps", config("two"))).body
    body = config("child")
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
        }
        for o in (one, two)
    ]
    await api.post("configmaps", body)
    await api.delete("configmaps/one")
    got = await api.until("configmaps/child", lambda reply: 1 == len(reply.meta["ownerReferences"]))

    assert "two" == got.meta["ownerReferences"][0]["name"]


async def test_orphans_lose_their_owner_and_stay(api: Api):
    """propagationPolicy Orphan removes their owner reference."""
    owner = (await api.post("configmaps", config("owner"))).body
    await owned(api, "child", owner)
    await api.delete("configmaps/owner", {"propagationPolicy": "Orphan"})
    await api.until("configmaps/owner", gone)

    assert "ownerReferences" not in (await api.get("configmaps/child")).meta


async def test_foreground_waits_for_dependents(api: Api):
    """The owner is deleted last."""
    owner = (await api.post("configmaps", config("owner"))).body
    await owned(api, "child", owner, blockOwnerDeletion=True)
    await api.patch("configmaps/child", {"metadata": {"finalizers": ["example.com/hold"]}})
    await api.delete("configmaps/owner", {"propagationPolicy": "Foreground"})
    marked = await api.until("configmaps/child", lambda r: "deletionTimestamp" in r.meta)
    waiting = await api.get("configmaps/owner")
    await api.patch("configmaps/child", {"metadata": {"finalizers": None}})

    assert marked.code == waiting.code == 200
    await api.until("configmaps/owner", gone)


async def test_an_object_without_a_living_owner_goes(api: Api):
    """An object whose owner does not exist is deleted."""
    owner = config("never")
    owner["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    await owned(api, "child", owner)

    await api.until("configmaps/child", gone)


async def test_a_deleted_namespace_is_emptied(api: Api):
    """All objects in it are deleted, then the namespace."""
    await api.post("namespaces", {"metadata": {"name": "full"}})
    root = "/api/v1/namespaces/full"
    await api.post(f"{root}/configmaps", config())
    await api.post(f"{root}/pods", pod())
    await api.post("/apis/apps/v1/namespaces/full/deployments", deployment())
    await api.delete("namespaces/full")

    await api.until("/api/v1/namespaces/full", gone)
    assert [] == (await api.get(f"{root}/configmaps")).body["items"]
    assert [] == (await api.get(f"{root}/pods")).body["items"]


async def test_a_namespace_waits_for_objects_with_finalizers(api: Api):
    """A finalizer inside keeps the namespace."""
    await api.post("namespaces", {"metadata": {"name": "full"}})
    body = config()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    where = "/api/v1/namespaces/full/configmaps"
    await api.post(where, body)
    await api.delete("namespaces/full")
    await api.until(f"{where}/c", lambda reply: "deletionTimestamp" in reply.meta)

    assert "Terminating" == (await api.get("/api/v1/namespaces/full")).body["status"]["phase"]
    await api.patch(f"{where}/c", {"metadata": {"finalizers": None}})
    await api.until("/api/v1/namespaces/full", gone)


async def test_a_used_claim_waits_for_its_pod(api: Api):
    """Claims are protected while a pod mounts them."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await api.post("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    await api.post("pods", pod(volumes=volumes))
    await api.delete("persistentvolumeclaims/c")
    stored = await api.get("persistentvolumeclaims/c")
    await api.delete("pods/p")

    assert stored.meta["deletionTimestamp"]
    await api.until("persistentvolumeclaims/c", gone)


async def test_the_projects_own_kinds_are_served(api: Api):
    """The definitions of the crds folder exist from the start."""
    names = (await api.get("customresourcedefinitions")).names

    assert "appgroups.appgroup.diktyo.x-k8s.io" in names
    assert "networktopologies.networktopology.diktyo.x-k8s.io" in names


async def test_rules_that_are_not_evaluated_are_named(api: Api):
    """The status of a definition with CEL rules states that they are not evaluated."""
    rule = {"rule": "self.size > 3", "message": "too small"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer"}},
                "x-kubernetes-validations": [rule],
            }
        },
    }
    made = await api.post("customresourcedefinitions", widgets("ruled", "Ruled", schema))
    stated = [c for c in made.body["status"]["conditions"] if c["type"] == "RulesEvaluated"]

    assert "False" == stated[0]["status"]
    assert "v1: spec" in stated[0]["message"]


async def test_a_foreign_update_does_not_stop_an_apply(api: Api):
    """Limit of the plain form: only appliers own fields, an ordinary update never conflicts."""
    await api.patch("configmaps/c", config(a="1"), APPLY_PATCH, fieldManager="one")
    await api.patch("configmaps/c", {"data": {"a": "2"}})
    got = await api.patch("configmaps/c", config(a="3"), APPLY_PATCH, fieldManager="one")

    assert {"a": "3"} == got.body["data"]


async def test_the_server_stops_with_watchers_open(api: Api, server: ApiServer):
    """A stop drops every connection; a watcher sees that its stream was cut."""
    async with await api.watch("leases", resourceVersion="0") as stream:
        await server.stop()
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.next()
