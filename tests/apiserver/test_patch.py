"""The four kinds of patch."""

from typing import Any

import pytest

from scheduler.base.clock import RealClock, rfc3339
from tests.apiserver.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api
from tests.apiserver.manifests import config, container, deployment, pod

JSON_OPERATIONS: dict[str, list[dict[str, Any]]] = {
    "add": [{"op": "add", "path": "/data/b", "value": "2"}],
    "replace": [{"op": "replace", "path": "/data/a", "value": "9"}],
    "remove": [{"op": "remove", "path": "/data/a"}],
    "test-and-set": [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
    ],
    "copy": [{"op": "copy", "from": "/data/a", "path": "/data/c"}],
    "move": [{"op": "move", "from": "/data/a", "path": "/data/c"}],
    "add-map": [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}],
    "escaped": [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/example.com~1a", "value": "v"},
    ],
}


@pytest.mark.parametrize("what", JSON_OPERATIONS)
async def test_json_patch(api: Api, what: str):
    """The operations of RFC 6902 are applied."""
    await api.post("configmaps", config(a="1"))

    assert 200 == (await api.patch("configmaps/c", JSON_OPERATIONS[what], JSON_PATCH)).code


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/data/a", "value": "2"}],
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "add", "path": "/none/deep", "value": "1"}],
    ],
)
async def test_json_patch_that_does_not_fit(api: Api, operations: list[dict[str, Any]]):
    """The response is 422, and nothing is changed."""
    await api.post("configmaps", config(a="1"))
    reply = await api.patch("configmaps/c", operations, JSON_PATCH)

    assert 422 == reply.code
    assert {"a": "1"} == (await api.get("configmaps/c")).body["data"]


@pytest.mark.parametrize("body", [{"op": "add"}, "x"])
async def test_malformed_json_patch(api: Api, body: Any):
    """400 for a body that is no list of operations."""
    await api.post("configmaps", config(a="1"))

    assert 400 == (await api.patch("configmaps/c", body, JSON_PATCH, record=False)).code


async def test_json_patch_of_a_list(api: Api):
    """Positions in a list, and the end of it, can be addressed."""
    await api.post("deployments", deployment())
    path = "/spec/template/spec/containers"
    operations = [
        {"op": "add", "path": f"{path}/-", "value": container("last")},
        {"op": "add", "path": f"{path}/0", "value": container("first")},
        {"op": "replace", "path": f"{path}/1/image", "value": "other:1"},
    ]
    got = await api.patch("deployments/web", operations, JSON_PATCH)
    names = [c["name"] for c in got.body["spec"]["template"]["spec"]["containers"]]

    assert ["first", "c", "last"] == names


async def test_merge_patch(api: Api):
    """Objects merge, null removes, lists replace."""
    await api.post("configmaps", config(a="1", b="2"))
    got = await api.patch("configmaps/c", {"data": {"a": None, "b": "3", "c": "4"}}, MERGE_PATCH)

    assert {"b": "3", "c": "4"} == got.body["data"]


async def test_merge_patch_replaces_lists(api: Api):
    """A list in a merge patch is the new list."""
    await api.post("deployments", deployment())
    body = {"spec": {"template": {"spec": {"containers": [container("only")]}}}}
    got = await api.patch("deployments/web", body, MERGE_PATCH)

    assert ["only"] == [c["name"] for c in got.body["spec"]["template"]["spec"]["containers"]]


async def test_strategic_patch_merges_containers_by_name(api: Api):
    """A container is found by its name, a new one is added."""
    await api.post("deployments", deployment())
    containers = [{"name": "c", "image": "new:1"}, container("extra")]
    body = {"spec": {"template": {"spec": {"containers": containers}}}}
    got = await api.patch("deployments/web", body, STRATEGIC_PATCH)
    found = {c["name"]: c["image"] for c in got.body["spec"]["template"]["spec"]["containers"]}

    assert {"c": "new:1", "extra": "pause:3"} == found


async def test_strategic_patch_removes_by_directive(api: Api):
    """$patch: delete removes one item from a keyed list."""
    body = deployment()
    body["spec"]["template"]["spec"]["containers"].append(container("extra"))
    await api.post("deployments", body)
    change = {
        "spec": {"template": {"spec": {"containers": [{"name": "extra", "$patch": "delete"}]}}}
    }
    got = await api.patch("deployments/web", change, STRATEGIC_PATCH)

    assert ["c"] == [c["name"] for c in got.body["spec"]["template"]["spec"]["containers"]]


async def test_strategic_patch_replaces_by_directive(api: Api):
    """$patch: replace replaces the whole map."""
    await api.post("configmaps", config(a="1", b="2"))
    got = await api.patch(
        "configmaps/c", {"data": {"$patch": "replace", "z": "26"}}, STRATEGIC_PATCH
    )

    assert {"z": "26"} == got.body["data"]


async def test_strategic_patch_replaces_atomic_lists(api: Api):
    """Tolerations have no key: the list is the new list."""
    body = deployment()
    tolerations = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    body["spec"]["template"]["spec"]["tolerations"] = tolerations
    await api.post("deployments", body)
    change = {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}}
    got = await api.patch("deployments/web", change, STRATEGIC_PATCH)

    assert [{"operator": "Exists"}] == got.body["spec"]["template"]["spec"]["tolerations"]


async def test_strategic_patch_joins_finalizers(api: Api):
    """Finalizers are a set, and $deleteFromPrimitiveList removes one."""
    body = config()
    body["metadata"]["finalizers"] = ["example.com/a"]
    await api.post("configmaps", body)
    more = await api.patch(
        "configmaps/c", {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC_PATCH
    )
    less = await api.patch(
        "configmaps/c",
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
        STRATEGIC_PATCH,
    )

    assert {"example.com/a", "example.com/b"} == set(more.meta["finalizers"])
    assert ["example.com/b"] == less.meta["finalizers"]


async def test_strategic_patch_keeps_only_retained_keys(api: Api):
    """$retainKeys changes a strategy without the old one's settings."""
    await api.post("deployments", deployment())
    change = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    got = await api.patch("deployments/web", change, STRATEGIC_PATCH)

    assert {"type": "Recreate"} == got.body["spec"]["strategy"]


async def test_strategic_patch_orders_elements(api: Api):
    """$setElementOrder puts a keyed list in order."""
    body = deployment()
    body["spec"]["template"]["spec"]["containers"].append(container("extra"))
    await api.post("deployments", body)
    change = {
        "spec": {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "extra"}, {"name": "c"}],
                    "containers": [{"name": "extra", "image": "e:2"}],
                }
            }
        }
    }
    got = await api.patch("deployments/web", change, STRATEGIC_PATCH)
    names = [c["name"] for c in got.body["spec"]["template"]["spec"]["containers"]]

    assert ["extra", "c"] == names


async def test_strategic_patch_without_the_key_is_refused(api: Api):
    """An item without its merge key cannot be placed."""
    await api.post("deployments", deployment())
    change = {"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}}

    assert (await api.patch("deployments/web", change, STRATEGIC_PATCH, record=False)).code >= 400


async def test_a_patch_with_an_old_version_conflicts(api: Api):
    """A version inside a patch is a precondition."""
    made = await api.post("configmaps", config(a="1"))
    await api.patch("configmaps/c", {"data": {"a": "2"}})
    version = {"metadata": {"resourceVersion": made.meta["resourceVersion"]}}
    late = await api.patch("configmaps/c", {**version, "data": {"a": "3"}})

    assert 409 == late.code


async def test_a_patch_cannot_change_the_uid(api: Api):
    """A patch is applied to the current object, so another uid would be a change."""
    await api.post("configmaps", config(a="1"))
    body = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}, "data": {"a": "2"}}

    assert 422 == (await api.patch("configmaps/c", body)).code


async def test_a_patch_that_changes_nothing_is_no_write(api: Api):
    """The version of the object is unchanged."""
    made = await api.post("configmaps", config(a="1"))
    same = await api.patch("configmaps/c", {"data": {"a": "1"}})

    assert made.meta["resourceVersion"] == same.meta["resourceVersion"]


async def test_patching_a_missing_object(api: Api):
    """The response is 404, except for apply."""
    assert 404 == (await api.patch("configmaps/none", {"data": {"a": "1"}})).code


async def test_an_unknown_patch_type_is_refused(api: Api):
    """The response is 415."""
    await api.post("configmaps", config(a="1"))
    reply = await api.patch("configmaps/c", {"data": {}}, "application/json", record=False)

    assert 415 == reply.code


async def test_a_patch_is_validated(api: Api):
    """The result of a patch must be a valid object."""
    await api.post("deployments", deployment())

    assert 422 == (await api.patch("deployments/web", {"spec": {"replicas": -1}})).code


async def test_a_patch_cannot_rename(api: Api):
    """The name cannot be changed."""
    await api.post("configmaps", config(a="1"))
    reply = await api.patch("configmaps/c", {"metadata": {"name": "other"}}, record=False)

    assert reply.code in (400, 422)


async def test_apply_creates_and_updates(api: Api):
    """The first apply creates, the next one changes; fields that are no longer applied are
    removed.
    """
    body = {**config(a="1", b="2")}
    made = await api.patch("configmaps/c", body, APPLY_PATCH, fieldManager="m")
    changed = await api.patch("configmaps/c", config(a="3"), APPLY_PATCH, fieldManager="m")

    assert (201, 200) == (made.code, changed.code)
    assert {"a": "3"} == changed.body["data"]


async def test_apply_leaves_others_alone(api: Api):
    """Two managers own different fields."""
    await api.patch("configmaps/c", config(a="1"), APPLY_PATCH, fieldManager="one")
    both = await api.patch("configmaps/c", config(b="2"), APPLY_PATCH, fieldManager="two")
    less = await api.patch("configmaps/c", config(), APPLY_PATCH, fieldManager="one")

    assert {"a": "1", "b": "2"} == both.body["data"]
    assert {"b": "2"} == less.body["data"]


async def test_apply_conflicts_between_managers(api: Api):
    """Another applier's field is not overwritten, unless forced."""
    await api.patch("configmaps/c", config(a="1"), APPLY_PATCH, fieldManager="one")
    refused = await api.patch("configmaps/c", config(a="2"), APPLY_PATCH, fieldManager="two")
    forced = await api.patch(
        "configmaps/c", config(a="2"), APPLY_PATCH, fieldManager="two", force="true"
    )

    assert 409 == refused.code
    assert {"a": "2"} == forced.body["data"]


async def test_apply_merges_keyed_lists(api: Api):
    """Containers of two managers are merged."""
    await api.patch("deployments/web", deployment(), APPLY_PATCH, fieldManager="one")
    extra = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": {"spec": {"containers": [container("side")]}}},
    }
    got = await api.patch("deployments/web", extra, APPLY_PATCH, fieldManager="two")

    assert ["c", "side"] == [c["name"] for c in got.body["spec"]["template"]["spec"]["containers"]]


async def test_apply_needs_a_manager(api: Api):
    """fieldManager is required."""
    assert 422 == (await api.patch("configmaps/c", config(), APPLY_PATCH)).code


async def test_patching_labels_of_a_pod(api: Api):
    """A patch adds and removes labels of a pod, which is the most common patch."""
    await api.post("pods", pod(labels={"a": "b"}))
    got = await api.patch("pods/p", {"metadata": {"labels": {"c": "d", "a": None}}})

    assert {"c": "d"} == got.meta["labels"]


def since(reply: Any, *path: str) -> dict[str, str]:
    """Return when each manager with fields last changed one of them."""
    found = {}
    for one in reply.meta["managedFields"]:
        owned = one["fieldsV1"]
        for step in path:
            owned = owned.get(step) if owned is not None else None
        if owned is not None:
            found[one["manager"]] = one["time"]
    return found


SIZE = ("f:data", "f:size")


async def test_who_set_a_field_and_when(api: Api):
    """A manager that changes a field owns it from then on.

    Other fields, and writes of the same value, do not change the owner.
    """
    made = await api.post("configmaps", config(size="3"), fieldManager="maker")
    (first,) = since(made, *SIZE).values()
    await api.until("configmaps/c", lambda _: rfc3339(RealClock().now()) > first)
    other = [{"op": "add", "path": "/data/status", "value": "Bound"}]
    reported = await api.patch("configmaps/c", other, JSON_PATCH, fieldManager="teller")
    assert {"maker": first} == since(reported, *SIZE)
    same = await api.patch("configmaps/c", {"data": {"size": "3"}}, fieldManager="editor")
    assert {"maker": first} == since(same, *SIZE)
    assert ["teller"] == list(since(same, "f:data", "f:status"))

    edited = await api.patch("configmaps/c", {"data": {"size": "4"}}, fieldManager="editor")
    ((editor, later),) = since(edited, *SIZE).items()
    assert "editor" == editor
    assert first < later


async def test_when_a_field_was_applied(api: Api):
    """Applying another value is a change, applying the same value again is none."""
    made = await api.patch("configmaps/c", config(size="3"), APPLY_PATCH, fieldManager="maker")
    (first,) = since(made, *SIZE).values()
    await api.until("configmaps/c", lambda _: rfc3339(RealClock().now()) > first)
    same = await api.patch("configmaps/c", config(size="3"), APPLY_PATCH, fieldManager="maker")
    assert {"maker": first} == since(same, *SIZE)
    edited = await api.patch("configmaps/c", config(size="4"), APPLY_PATCH, fieldManager="maker")
    (later,) = since(edited, *SIZE).values()
    assert first < later
