"""Deletion that takes time: grace periods, finalizers, owners, namespaces."""

from typing import Any

import pytest

from tests.apiserver.api import MERGE_PATCH, Api, Stream
from tests.apiserver.manifests import config, deployment, pod


async def bound(api: Api, name: str = "p", **spec: Any) -> None:
    await api.post("pods", pod(name, nodeName="n1", **spec), record=False)


async def next_type(stream: Stream) -> str:
    return str((await stream.next(record=False))["type"])


async def test_an_unassigned_pod_goes_at_once(api: Api):
    """No kubelet has to stop containers, so the pod is deleted at once."""
    await api.post("pods", pod())
    gone = await api.delete("pods/p")

    assert 200 == gone.code
    assert 404 == (await api.get("pods/p")).code


async def test_an_assigned_pod_gets_its_grace_period(api: Api):
    """The pod stays, marked, until its kubelet has stopped it."""
    await bound(api)
    marked = await api.delete("pods/p")
    terminating = await api.get("pods/p")
    final = await api.delete("pods/p", {"gracePeriodSeconds": 0})

    assert 30 == marked.meta["deletionGracePeriodSeconds"]
    assert terminating.meta["deletionTimestamp"]
    assert 200 == final.code
    assert 404 == (await api.get("pods/p")).code


@pytest.mark.parametrize("grace", [5, 1, 0])
async def test_the_grace_period_can_be_chosen(api: Api, grace: int):
    """The body of the delete sets it; 0 removes the pod at once."""
    await bound(api)
    await api.delete("pods/p", {"gracePeriodSeconds": grace})

    assert (200 if grace else 404) == (await api.get("pods/p")).code


async def test_the_grace_period_can_be_a_parameter(api: Api):
    """The grace period can be given as a query parameter, as kubectl sends it."""
    await bound(api)
    marked = await api.delete("pods/p", gracePeriodSeconds=7)

    assert 7 == marked.meta["deletionGracePeriodSeconds"]


async def test_the_pod_says_its_own_grace_period(api: Api):
    """terminationGracePeriodSeconds of the pod is the default."""
    await bound(api, terminationGracePeriodSeconds=3)

    assert 3 == (await api.delete("pods/p")).meta["deletionGracePeriodSeconds"]


async def test_a_grace_period_can_only_shrink(api: Api):
    """A later delete shortens it, never lengthens it."""
    await bound(api)
    await api.delete("pods/p", {"gracePeriodSeconds": 10})
    longer = await api.delete("pods/p", {"gracePeriodSeconds": 60})
    shorter = await api.delete("pods/p", {"gracePeriodSeconds": 2})

    assert 10 == longer.meta["deletionGracePeriodSeconds"]
    assert 2 == shorter.meta["deletionGracePeriodSeconds"]


async def test_a_finished_pod_goes_at_once(api: Api):
    """No container runs any more."""
    await bound(api)
    await api.patch("pods/p/status", {"status": {"phase": "Succeeded"}})
    await api.delete("pods/p")

    assert 404 == (await api.get("pods/p")).code


async def test_finalizers_hold_an_object(api: Api):
    """The object is marked, and removed with its last finalizer."""
    body = config(a="1")
    body["metadata"]["finalizers"] = ["example.com/one", "example.com/two"]
    await api.post("configmaps", body)
    marked = await api.delete("configmaps/c")
    one = await api.patch("configmaps/c", {"metadata": {"finalizers": ["example.com/two"]}})
    last = await api.patch("configmaps/c", {"metadata": {"finalizers": None}})

    assert marked.meta["deletionTimestamp"]
    assert 0 == marked.meta["deletionGracePeriodSeconds"]
    assert 200 == one.code
    assert 200 == last.code
    assert 404 == (await api.get("configmaps/c")).code


async def test_no_finalizer_joins_during_deletion(api: Api):
    """Once marked, the list can only shrink."""
    body = config()
    body["metadata"]["finalizers"] = ["example.com/one"]
    await api.post("configmaps", body)
    await api.delete("configmaps/c")
    more = {"metadata": {"finalizers": ["example.com/one", "example.com/late"]}}

    assert 422 == (await api.patch("configmaps/c", more)).code


async def test_grace_period_and_finalizers_are_both_needed(api: Api):
    """Grace period and finalizers end a pod together."""
    body = pod(nodeName="n1")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post("pods", body)
    await api.delete("pods/p")
    stopped = await api.delete("pods/p", {"gracePeriodSeconds": 0})
    released = await api.patch("pods/p", {"metadata": {"finalizers": None}})

    assert 200 == stopped.code
    assert 200 == released.code
    assert 404 == (await api.get("pods/p")).code


async def test_watchers_see_mark_and_end(api: Api):
    """MODIFIED when the deletion begins, DELETED when it is done.

    kube-apiserver writes the shorter grace period once more before it removes the pod; the sandbox
    does not.
    """
    await bound(api)
    version = (await api.get("pods/p", record=False)).meta["resourceVersion"]
    async with await api.watch("pods", resourceVersion=version) as stream:
        await api.delete("pods/p")
        await api.delete("pods/p", {"gracePeriodSeconds": 0})
        got = [await next_type(stream)]
        while got[-1] == "MODIFIED":
            got.append(await next_type(stream))

    assert ("MODIFIED", "DELETED") == (got[0], got[-1])


@pytest.mark.parametrize("policy", ["Orphan", "Foreground", "Background"])
async def test_propagation_is_kept_as_a_finalizer(api: Api, policy: str):
    """Orphan and Foreground wait for the garbage collector, Background does not."""
    body = config()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post("configmaps", body)
    marked = await api.delete("configmaps/c", {"propagationPolicy": policy}, record=False)

    expected = {"Orphan": ["orphan"], "Foreground": ["foregroundDeletion"], "Background": []}
    added = [name for name in marked.meta["finalizers"] if name != "example.com/hold"]
    assert expected[policy] == added


async def test_unknown_propagation_is_refused(api: Api):
    """422 names the known values."""
    await api.post("configmaps", config())

    assert 422 == (await api.delete("configmaps/c", {"propagationPolicy": "Sideways"})).code


async def test_owner_references_are_kept(api: Api):
    """Owner references are stored unchanged."""
    owner = await api.post("configmaps", config("owner"))
    body = config("owned")
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner.meta["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    made = await api.post("configmaps", body)

    assert owner.meta["uid"] == made.meta["ownerReferences"][0]["uid"]


@pytest.mark.parametrize(
    "reference",
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"},
        {"apiVersion": "v1", "kind": "ConfigMap", "uid": "u"},
        {"kind": "ConfigMap", "name": "x", "uid": "u"},
        {"apiVersion": "v1", "name": "x", "uid": "u"},
    ],
)
async def test_malformed_owners_are_refused(api: Api, reference: dict[str, Any]):
    """Every reference names kind, name and uid."""
    body = config()
    body["metadata"]["ownerReferences"] = [reference]

    assert 422 == (await api.post("configmaps", body)).code


async def test_two_controllers_are_refused(api: Api):
    """An object has one controller at most."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    body = config()
    body["metadata"]["ownerReferences"] = [
        {**reference, "name": "a", "uid": "1"},
        {**reference, "name": "b", "uid": "2"},
    ]

    assert 422 == (await api.post("configmaps", body)).code


async def test_namespaces_start_active(api: Api):
    """A new namespace has the phase Active, its finalizer, and its name as a label."""
    name = api.name("extra")
    made = await api.post("namespaces", {"metadata": {"name": name}})

    assert "Active" == made.body["status"]["phase"]
    assert ["kubernetes"] == made.body["spec"]["finalizers"]
    assert name == made.meta["labels"]["kubernetes.io/metadata.name"]


async def test_a_deleted_namespace_takes_nothing_new(api: Api):
    """The namespace is Terminating first, and rejects new content."""
    name = api.name("extra")
    body = {"metadata": {"name": name, "finalizers": ["example.com/hold"]}}
    await api.post("namespaces", body)
    marked = await api.delete(f"namespaces/{name}")
    refused = await api.post(f"/api/v1/namespaces/{name}/configmaps", config())
    await api.patch(f"namespaces/{name}", {"metadata": {"finalizers": None}}, record=False)

    assert "Terminating" == marked.body["status"]["phase"]
    assert 403 == refused.code


async def test_system_namespaces_stay(api: Api):
    """default, kube-system and kube-public cannot be deleted."""
    assert 403 == (await api.delete("namespaces/default")).code
    assert 403 == (await api.delete("namespaces/kube-system")).code


async def test_deployments_are_deleted_with_options(api: Api):
    """kubectl deletes with Background propagation."""
    await api.post("deployments", deployment())
    gone = await api.delete(
        "deployments/web", {"propagationPolicy": "Background", "kind": "DeleteOptions"}
    )

    assert 200 == gone.code
    assert 404 == (await api.get("deployments/web")).code


async def test_the_default_of_a_merge_patch_keeps_finalizers(api: Api):
    """An unrelated patch does not change the finalizers."""
    body = config(a="1")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post("configmaps", body)
    got = await api.patch("configmaps/c", {"data": {"a": "2"}}, MERGE_PATCH)

    assert ["example.com/hold"] == got.meta["finalizers"]
