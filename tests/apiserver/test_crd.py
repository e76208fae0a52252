"""Custom resources: definition, schema, defaults, pruning, status, columns, end."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.apiserver.api import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, TABLE, Api
from tests.apiserver.manifests import widgets

PATH = "/apis/example.com/v1/namespaces/{ns}/{plural}"


class Widgets:
    """A custom kind for one test."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.plural = f"w{api.mark}"
        self.kind = f"W{api.mark}"
        self.path = PATH.format(ns=api.ns, plural=self.plural)

    def body(self, name: str = "w", **rest: Any) -> dict[str, Any]:
        return {
            "apiVersion": "example.com/v1",
            "kind": self.kind,
            "metadata": {"name": name},
            "spec": {"size": 3},
            **rest,
        }

    async def define(self, schema: dict[str, Any] | None = None, **version: Any) -> Any:
        definition = widgets(self.plural, self.kind, schema, **version)
        made = await self.api.post("customresourcedefinitions", definition, record=False)
        if made.code == 201:
            await self.api.until(self.path, lambda reply: reply.code == 200)
            await self.api.until_watched(self.path)
        return made

    async def end(self) -> None:
        await self.api.delete(f"customresourcedefinitions/{self.plural}.example.com", record=False)


@pytest.fixture
async def w(api: Api) -> AsyncIterator[Widgets]:
    """A defined kind."""
    found = Widgets(api)
    assert 201 == (await found.define()).code
    yield found
    await found.end()


async def test_a_definition_is_completed_and_established(api: Api, w: Widgets):
    """Names are filled in, and conditions state that the kind is served."""
    got = await api.get(f"customresourcedefinitions/{w.plural}.example.com", record=False)
    names = got.body["spec"]["names"]
    conditions = {c["type"]: c["status"] for c in got.body["status"]["conditions"]}

    assert w.kind.lower() == names["singular"]
    assert f"{w.kind}List" == names["listKind"]
    assert {"NamesAccepted": "True", "Established": "True"} == conditions
    assert ["v1"] == got.body["status"]["storedVersions"]


async def test_objects_are_stored_with_defaults(api: Api, w: Widgets):
    """Defaults of the schema are stored, and the generation increases with the spec."""
    made = await api.post(w.path, w.body())

    assert 201 == made.code
    assert "red" == made.body["spec"]["color"]
    assert 1 == made.meta["generation"]


async def test_unknown_fields_are_pruned(api: Api, w: Widgets):
    """Fields that the schema does not have are dropped, except where it preserves unknown
    fields.
    """
    spec = {"size": 1, "bogus": 1, "free": {"any": {"thing": 1}}}
    made = await api.post(w.path, w.body(spec=spec, extra={"a": 1}))

    assert "bogus" not in made.body["spec"]
    assert "extra" not in made.body
    assert {"any": {"thing": 1}} == made.body["spec"]["free"]


async def test_unknown_fields_are_errors_when_strict(api: Api, w: Widgets):
    """fieldValidation=Strict reports them by name."""
    body = w.body(spec={"size": 1, "bogus": 1})

    assert 400 == (await api.post(w.path, body, fieldValidation="Strict")).code


INVALID: dict[str, dict[str, Any]] = {
    "missing": {},
    "type": {"size": "big"},
    "minimum": {"size": 0},
    "maximum": {"size": 10},
    "enum": {"size": 1, "color": "green"},
    "max-length": {"size": 1, "name": "abcdef"},
    "pattern": {"size": 1, "name": "A"},
    "max-items": {"size": 1, "parts": [{"id": str(n)} for n in range(4)]},
    "item-type": {"size": 1, "parts": [{"id": 7}]},
    "item-missing": {"size": 1, "parts": [{"n": 7}]},
    "duplicate": {"size": 1, "parts": [{"id": "a"}, {"id": "a"}]},
    "list-type": {"size": 1, "parts": {}},
    "int-or-string": {"size": 1, "port": True},
    "number": {"size": 1.5},
    "several": {"size": 0, "color": "green"},
}


@pytest.mark.parametrize("what", INVALID)
async def test_invalid_objects_are_refused(api: Api, w: Widgets, what: str):
    """The server responds 422 with the field and the rule."""
    assert 422 == (await api.post(w.path, w.body(spec=INVALID[what]))).code


@pytest.mark.parametrize("spec", [{"port": 80}, {"port": "http"}, {"opt": None}, {"color": None}])
async def test_lenient_values(api: Api, w: Widgets, spec: dict[str, Any]):
    """int-or-string takes both, nullable takes null, a null takes the default."""
    assert 201 == (await api.post(w.path, w.body(spec={"size": 1, **spec}))).code


async def test_status_is_a_subresource(api: Api, w: Widgets):
    """A write of the status keeps the spec; a write of the object keeps the status."""
    made = await api.post(w.path, w.body(status={"ready": 9}))
    spec = await api.patch(f"{w.path}/w", {"status": {"ready": 1}, "spec": {"size": 4}})
    status = await api.patch(f"{w.path}/w/status", {"status": {"ready": 2}, "spec": {"size": 5}})

    assert "status" not in made.body
    assert "status" not in spec.body
    assert (2, 4) == (status.body["status"]["ready"], status.body["spec"]["size"])
    assert 2 == status.meta["generation"]


async def test_updates_need_a_version(api: Api, w: Widgets):
    """A PUT of a custom resource must name the version it replaces."""
    await api.post(w.path, w.body())

    assert 422 == (await api.put(f"{w.path}/w", w.body(spec={"size": 5}))).code


async def test_updates_of_an_old_version_conflict(api: Api, w: Widgets):
    """An update with an old resourceVersion conflicts, as for built-in kinds."""
    made = await api.post(w.path, w.body(), record=False)
    await api.put(f"{w.path}/w", {**made.body, "spec": {"size": 5}}, record=False)

    assert 409 == (await api.put(f"{w.path}/w", {**made.body, "spec": {"size": 6}})).code


async def test_patches_are_validated(api: Api, w: Widgets):
    """The result must fit the schema."""
    await api.post(w.path, w.body(), record=False)

    assert 422 == (await api.patch(f"{w.path}/w", {"spec": {"size": 99}}, MERGE_PATCH)).code


async def test_strategic_patches_are_not_for_custom_resources(api: Api, w: Widgets):
    """The server responds 415: custom resources have no merge keys."""
    await api.post(w.path, w.body(), record=False)

    assert 415 == (await api.patch(f"{w.path}/w", {"spec": {}}, STRATEGIC_PATCH)).code


async def test_apply_merges_lists_by_key(api: Api, w: Widgets):
    """list-map-keys hold for server-side apply."""
    one = w.body(spec={"size": 1, "parts": [{"id": "a", "n": 1}]})
    two = w.body(spec={"parts": [{"id": "b", "n": 2}]})
    await api.patch(f"{w.path}/w", one, APPLY_PATCH, fieldManager="one")
    got = await api.patch(f"{w.path}/w", two, APPLY_PATCH, fieldManager="two")

    assert ["a", "b"] == [part["id"] for part in got.body["spec"]["parts"]]


async def test_lists_name_the_kind_of_each_item(api: Api, w: Widgets):
    """Items of custom resources have kind and apiVersion, which those of built-in kinds lack."""
    await api.post(w.path, w.body(), record=False)
    got = await api.get(w.path, record=False)

    assert f"{w.kind}List" == got.body["kind"]
    assert w.kind == got.body["items"][0]["kind"]


async def test_watching_custom_resources(api: Api, w: Widgets):
    """Changes arrive as for any kind."""
    start = (await api.get(w.path, record=False)).meta["resourceVersion"]
    async with await api.watch(w.path, resourceVersion=start) as stream:
        await api.post(w.path, w.body())
        assert [("ADDED", "w")] == await stream.types(1)


async def test_a_watch_from_before_its_kind_is_gone(api: Api, w: Widgets):
    """A version older than the stored history is answered with 410."""
    async with await api.watch(w.path, resourceVersion="1") as stream:
        event = await stream.next()

    assert "ERROR" == event["type"]
    assert 410 == event["object"]["code"]
    assert "Expired" == event["object"]["reason"]


async def test_labels_and_fields_select(api: Api, w: Widgets):
    """metadata.name is the only field without selectableFields."""
    await api.post(w.path, w.body("a"), record=False)
    await api.post(w.path, w.body("b"), record=False)
    got = await api.get(w.path, fieldSelector="metadata.name=b", record=False)
    unknown = await api.get(w.path, fieldSelector="spec.size=3", record=False)

    assert ["b"] == got.names
    assert 400 == unknown.code


async def test_printer_columns(api: Api):
    """A table has the columns of the definition."""
    w = Widgets(api)
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await w.define(additionalPrinterColumns=columns)
    await api.post(w.path, w.body(), record=False)
    got = await api.get(w.path, headers={"Accept": TABLE}, record=False)
    await w.end()

    assert ["Name", "Size", "Color", "Age"] == [c["name"] for c in got.body["columnDefinitions"]]
    assert ["w", 3, "red"] == got.body["rows"][0]["cells"][:3]


async def test_scale_of_a_custom_resource(api: Api):
    """The paths of the definition are used."""
    w = Widgets(api)
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.ready",
        "labelSelectorPath": ".status.selector",
    }
    await w.define(subresources={"status": {}, "scale": scale})
    await api.post(w.path, w.body(), record=False)
    before = await api.get(f"{w.path}/w/scale")
    await api.patch(f"{w.path}/w/scale", {"spec": {"replicas": 7}})
    after = await api.get(f"{w.path}/w", record=False)
    await w.end()

    assert 3 == before.body["spec"]["replicas"]
    assert 7 == after.body["spec"]["size"]


async def test_two_versions_of_a_kind(api: Api):
    """An object is readable in every served version."""
    w = Widgets(api)
    definition = widgets(w.plural, w.kind)
    first = definition["spec"]["versions"][0]
    definition["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    await api.post("customresourcedefinitions", definition, record=False)
    await api.until(w.path, lambda reply: reply.code == 200)
    await api.post(w.path, w.body(), record=False)
    newer = await api.get(w.path.replace("/v1/", "/v2/") + "/w", record=False)
    await w.end()

    assert "example.com/v2" == newer.body["apiVersion"]
    assert 3 == newer.body["spec"]["size"]


MALFORMED: dict[str, dict[str, Any]] = {
    "no-type": {"properties": {"spec": {"type": "object"}}},
    "untyped-field": {"type": "object", "properties": {"spec": {"properties": {}}}},
}


@pytest.mark.parametrize("what", MALFORMED)
async def test_schemas_must_be_structural(api: Api, what: str):
    """Every node needs a type."""
    made = await Widgets(api).define(MALFORMED[what])

    assert 422 == made.code
    assert "type: Required value" in made.message


async def test_a_definition_must_be_named_after_its_kind(api: Api):
    """The name of a definition must be plural.group."""
    w = Widgets(api)
    definition = widgets(w.plural, w.kind)
    definition["metadata"]["name"] = api.name("other")
    made = await api.post("customresourcedefinitions", definition, record=False)

    assert 422 == made.code
    assert 'must be spec.names.plural+"."+spec.group' in made.message


async def test_objects_end_with_their_definition(api: Api):
    """After the deletion of a definition the kind is not served, and its objects are deleted."""
    w = Widgets(api)
    await w.define()
    await api.post(w.path, w.body(), record=False)
    await w.end()
    await api.until(w.path, lambda reply: reply.code == 404)
    await api.until(
        f"customresourcedefinitions/{w.plural}.example.com", lambda reply: reply.code == 404
    )
    await w.define()
    got = await api.get(w.path, record=False)
    await w.end()

    assert [] == got.body["items"]


async def test_definitions_show_in_discovery(api: Api, w: Widgets):
    """A new kind can be found by its group."""
    got = await api.until(
        "/apis/example.com/v1",
        # Between two definitions the API group is missing for a moment.
        lambda reply: (
            reply.code == 200 and w.plural in [r["name"] for r in reply.body["resources"]]
        ),
    )
    found = {r["name"]: r for r in got.body["resources"]}

    assert w.kind == found[w.plural]["kind"]
    assert ["get", "patch", "update"] == found[f"{w.plural}/status"]["verbs"]
