"""Creating, reading, replacing and deleting objects."""

from typing import Any

import pytest

from tests.apiserver.api import Api
from tests.apiserver.manifests import config, deployment, lease, node, pod


async def test_created_object_carries_identity(api: Api):
    """The answer to a create has the server's additions: uid, version, creation time."""
    made = await api.post("configmaps", config(a="1"))

    assert 201 == made.code
    assert made.meta["uid"]
    assert made.meta["resourceVersion"]
    assert made.meta["creationTimestamp"]


async def test_created_object_can_be_read_back(api: Api):
    """get returns the object that create returned."""
    made = await api.post("configmaps", config(a="1"))

    assert made.body == (await api.get("configmaps/c")).body


async def test_generated_names_differ_and_keep_the_prefix(api: Api):
    """generateName appends five characters, different each time."""
    names = []
    for _ in range(3):
        body = {"metadata": {"generateName": "made-"}}
        names.append((await api.post("configmaps", body, record=False)).meta["name"])

    assert 3 == len(set(names))
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


async def test_a_long_generated_name_is_cut(api: Api):
    """The prefix is cut so that the whole name is a valid label."""
    body = {"metadata": {"generateName": "x" * 80}}
    made = await api.post("configmaps", body, record=False)

    assert 63 == len(made.meta["name"])


async def test_creating_twice_conflicts(api: Api):
    """A name can be taken once."""
    await api.post("configmaps", config())

    assert 409 == (await api.post("configmaps", config())).code


@pytest.mark.parametrize(
    "where", ["pods/none", "configmaps/none", "deployments/none", "leases/none", "jobs/none"]
)
async def test_missing_objects_are_not_found(api: Api, where: str):
    """404 with a message that names resource, group and object."""
    assert 404 == (await api.get(where)).code
    assert 404 == (await api.delete(where)).code


async def test_missing_cluster_objects_are_not_found(api: Api):
    """Missing cluster-scoped objects are answered with 404 as well."""
    assert 404 == (await api.get("nodes/none")).code
    assert 404 == (await api.get("priorityclasses/none")).code


async def test_missing_namespace_is_not_found(api: Api):
    """Creating an object requires an existing namespace; listing one that does not exist gives an
    empty list.
    """
    path = "/api/v1/namespaces/no-such-namespace/configmaps"

    assert 404 == (await api.post(path, config())).code
    assert [] == (await api.get(path)).body["items"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothings",
        "/apis/no.such.group/v1/things",
        "/apis/apps/v9/deployments",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/p",
        "/nothing",
        "/apis/apps/v1/namespaces/default/deployments/d/nothing",
    ],
)
async def test_unserved_paths_are_not_found(api: Api, path: str):
    """A path that no resource has answers 404."""
    assert 404 == (await api.get(path)).code


async def test_update_changes_the_version(api: Api):
    """Each write gives a new resourceVersion and keeps uid and creation time."""
    made = await api.post("configmaps", config(a="1"))
    changed = await api.put("configmaps/c", {**made.body, "data": {"a": "2"}})

    assert 200 == changed.code
    assert changed.meta["resourceVersion"] != made.meta["resourceVersion"]
    assert changed.meta["uid"] == made.meta["uid"]
    assert {"a": "2"} == changed.body["data"]


async def test_update_without_change_is_no_write(api: Api):
    """An update that changes nothing keeps the version."""
    made = await api.post("configmaps", config(a="1"))
    same = await api.put("configmaps/c", made.body)

    assert same.meta["resourceVersion"] == made.meta["resourceVersion"]


async def test_update_of_an_old_version_conflicts(api: Api):
    """Optimistic concurrency: the second writer of a version loses."""
    made = await api.post("configmaps", config(a="1"))
    await api.put("configmaps/c", {**made.body, "data": {"a": "2"}})
    late = await api.put("configmaps/c", {**made.body, "data": {"a": "3"}})

    assert 409 == late.code
    assert "Conflict" == late.body["reason"]


async def test_update_without_version_wins(api: Api):
    """Without a resourceVersion the last writer wins."""
    made = await api.post("configmaps", config(a="1"))
    changed = await api.put("configmaps/c", config(a="2"))

    assert 200 == changed.code
    assert changed.meta["uid"] == made.meta["uid"]


async def test_update_with_another_uid_conflicts(api: Api):
    """A uid sent along is a precondition."""
    await api.post("configmaps", config())
    body = config(a="2")
    body["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"

    assert 409 == (await api.put("configmaps/c", body)).code


async def test_update_under_another_name_is_refused(api: Api):
    """Path and body must name the same object."""
    await api.post("configmaps", config())

    assert 400 == (await api.put("configmaps/c", config("other"))).code


async def test_update_of_a_missing_object_is_not_found(api: Api):
    """PUT does not create configmaps."""
    reply = await api.put("configmaps/none", config("none"))

    assert reply.code in (201, 404)


async def test_namespace_in_body_must_agree(api: Api):
    """A body that names another namespace is refused."""
    body = config()
    body["metadata"]["namespace"] = "default"

    assert 400 == (await api.post("configmaps", body)).code


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "dot.", "a" * 254, ""])
async def test_malformed_names_are_refused(api: Api, name: str):
    """Names are RFC 1123 subdomains."""
    assert 422 == (await api.post("configmaps", config(name))).code


async def test_wrong_kind_is_refused(api: Api):
    """The body's kind and version must be those of the path."""
    assert 400 == (await api.post("configmaps", {**config(), "kind": "Secret"})).code
    assert 400 == (await api.post("configmaps", {**config(), "apiVersion": "apps/v1"})).code


async def test_kind_may_be_left_out(api: Api):
    """The path already states the kind."""
    reply = await api.post("configmaps", {"metadata": {"name": "c"}})

    assert 201 == reply.code


@pytest.mark.parametrize("body", [b"{", b"[]", b"7"])
async def test_malformed_bodies_are_refused(api: Api, body: bytes):
    """400 for a body that is no JSON object."""
    assert 400 == (await api.send("POST", "configmaps", body, record=False)).code


async def test_unknown_media_type_is_refused(api: Api):
    """The server responds 415 to an unknown media type."""
    reply = await api.send("POST", "configmaps", b"x", content_type="text/csv", record=False)

    assert 415 == reply.code


async def test_yaml_bodies_are_read(api: Api):
    """YAML is as good as JSON."""
    text = b"metadata: {name: yaml}\ndata: {a: '1'}\n"
    reply = await api.send("POST", "configmaps", text, content_type="application/yaml")

    assert 201 == reply.code


async def test_delete_answers_with_a_status(api: Api):
    """The answer to a completed deletion names the deleted object."""
    await api.post("configmaps", config())
    gone = await api.delete("configmaps/c")

    assert 200 == gone.code
    assert "Success" == gone.body["status"]
    assert 404 == (await api.get("configmaps/c")).code


async def test_delete_with_a_wrong_uid_conflicts(api: Api):
    """Preconditions protect a successor of the same name."""
    await api.post("configmaps", config())
    wrong = {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}

    assert 409 == (await api.delete("configmaps/c", wrong)).code


async def test_delete_with_an_old_version_conflicts(api: Api):
    """A delete with an old resource version conflicts."""
    made = await api.post("configmaps", config(a="1"))
    await api.put("configmaps/c", config(a="2"))
    old = {"preconditions": {"resourceVersion": made.meta["resourceVersion"]}}
    reply = await api.delete("configmaps/c", old, record=False)

    assert 409 == reply.code
    assert "ResourceVersion in the precondition" in reply.message


async def test_a_deleted_name_is_free_again(api: Api):
    """A new object of that name has another uid."""
    first = await api.post("configmaps", config())
    await api.delete("configmaps/c")
    second = await api.post("configmaps", config())

    assert first.meta["uid"] != second.meta["uid"]


async def test_deletecollection_takes_what_the_selector_finds(api: Api):
    """Objects outside the selector are not deleted."""
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        body = config(name)
        body["metadata"]["labels"] = {"color": color}
        await api.post("configmaps", body)
    await api.delete("configmaps", labelSelector="color=red")

    assert "b" in (await api.get("configmaps", labelSelector="color")).names
    assert 1 == len((await api.get("configmaps", labelSelector="color")).names)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_dry_run_stores_nothing(api: Api, method: str):
    """dryRun=All has the same response, and stores nothing."""
    if method == "POST":
        reply = await api.post("configmaps", config(a="1"), dryRun="All")
        assert 201 == reply.code
        assert 404 == (await api.get("configmaps/c")).code
        return
    made = await api.post("configmaps", config(a="1"))
    if method == "PUT":
        reply = await api.put("configmaps/c", config(a="2"), dryRun="All")
    elif method == "PATCH":
        reply = await api.patch("configmaps/c", {"data": {"a": "2"}}, dryRun="All")
    else:
        reply = await api.delete("configmaps/c", dryRun="All")

    assert 200 == reply.code
    assert made.body == (await api.get("configmaps/c")).body


async def test_unknown_dry_run_is_refused(api: Api):
    """Only All is a valid value."""
    assert 422 == (await api.post("configmaps", config(), dryRun="Some")).code


async def test_unknown_fields_are_dropped(api: Api):
    """By default an unknown field is dropped with a warning."""
    reply = await api.post("configmaps", {**config(), "bogus": 1})

    assert 201 == reply.code
    assert "bogus" not in reply.body
    assert 'unknown field \\"bogus\\"' in reply.headers["Warning"]


async def test_unknown_fields_can_be_errors(api: Api):
    """fieldValidation=Strict names every unknown field."""
    body = pod(bogus=1, containers=[{"name": "c", "image": "i", "wrong": 2}])

    assert 400 == (await api.post("pods", body, fieldValidation="Strict")).code


async def test_unknown_fields_can_be_ignored(api: Api):
    """fieldValidation=Ignore drops them without an error."""
    reply = await api.post("configmaps", {**config(), "bogus": 1}, fieldValidation="Ignore")

    assert 201 == reply.code
    assert "Warning" not in reply.headers


@pytest.mark.parametrize(
    "spec",
    [
        {"priority": "high"},
        {"containers": {}},
        {"containers": [{"name": 1, "image": "i"}]},
        {"nodeSelector": []},
        {"hostNetwork": "yes"},
        {"terminationGracePeriodSeconds": "x"},
    ],
)
async def test_wrong_types_are_refused(api: Api, spec: dict[str, Any]):
    """400 that names field and type."""
    assert 400 == (await api.post("pods", pod(**spec))).code


@pytest.mark.parametrize(
    "key_and_value",
    [("ok", "not ok"), ("-bad", "x"), ("a/b/c", "x"), ("long", "x" * 64), ("", "x")],
)
async def test_malformed_labels_are_refused(api: Api, key_and_value: tuple[str, str]):
    """Keys are qualified names, values are short words."""
    body = config()
    body["metadata"]["labels"] = dict([key_and_value])
    reply = await api.post("configmaps", body, record=False)

    assert 422 == reply.code
    assert "metadata.labels" in reply.message


async def test_generation_counts_spec_changes(api: Api):
    """A spec change raises it, a label or status change does not."""
    made = await api.post("deployments", deployment())
    labelled = await api.patch("deployments/web", {"metadata": {"labels": {"a": "b"}}})
    scaled = await api.patch("deployments/web", {"spec": {"replicas": 2}})

    assert 1 == made.meta["generation"]
    assert 1 == labelled.meta["generation"]
    assert 2 == scaled.meta["generation"]


async def test_system_fields_cannot_be_changed(api: Api):
    """creationTimestamp, uid and generation are set by the server alone."""
    made = await api.post("configmaps", config(a="1"))
    body = config(a="2")
    body["metadata"].update(creationTimestamp="2001-01-01T00:00:00Z", generation=77)
    changed = await api.put("configmaps/c", body)

    assert made.meta["creationTimestamp"] == changed.meta["creationTimestamp"]


async def test_lease_renewals_are_plain_updates(api: Api):
    """A lease keeps times with microseconds."""
    made = await api.post("leases", lease(renewTime="2026-01-01T00:00:00.000000Z"))
    body = {**made.body, "spec": {**made.body["spec"], "renewTime": "2026-01-01T00:00:01.123456Z"}}
    renewed = await api.put("leases/l", body)
    late = await api.put("leases/l", body)

    assert "2026-01-01T00:00:01.123456Z" == renewed.body["spec"]["renewTime"]
    assert 409 == late.code


@pytest.mark.parametrize("spec", [{"leaseDurationSeconds": 0}, {"leaseTransitions": -1}])
async def test_malformed_leases_are_refused(api: Api, spec: dict[str, Any]):
    """Durations must be positive."""
    assert 422 == (await api.post("leases", lease(**spec))).code


async def test_node_lifecycle(api: Api):
    """Nodes keep the status they are created with; spec and status are written apart."""
    name = api.name("n")
    made = await api.post("nodes", node(name))
    cordoned = await api.patch(f"nodes/{name}", {"spec": {"unschedulable": True}})
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    reported = await api.patch(f"nodes/{name}/status", ready)

    assert "4" == made.body["status"]["capacity"]["cpu"]
    assert cordoned.body["spec"]["unschedulable"]
    assert "True" == reported.body["status"]["conditions"][0]["status"]
    assert 200 == (await api.delete(f"nodes/{name}")).code


async def test_methods_that_a_resource_lacks(api: Api):
    """405 where a verb makes no sense."""
    assert 405 == (await api.delete("namespaces")).code
    assert 405 == (await api.post("configmaps/c", config())).code
    assert 405 == (await api.put("configmaps", config())).code


async def test_null_in_a_map_of_texts_is_an_empty_text(api: Api):
    """A label without a value in the manifest exists with an empty value."""
    body = {"metadata": {"name": "c", "labels": {"a": None}}, "data": {"k": None}}
    made = await api.post("configmaps", body)

    assert ({"a": ""}, {"k": ""}) == (made.meta["labels"], made.body["data"])
