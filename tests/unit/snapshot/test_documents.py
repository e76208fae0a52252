"""Files become objects one by one, each with its file and line."""

import json

import pytest

from scheduler.base.errors import InputError
from scheduler.snapshot.documents import SourceFile, items_of, items_of_objects
from scheduler.testing import node


def found(text):
    data = text if isinstance(text, bytes) else text.encode()
    return [(item.where, item.head.kind) for item in items_of(SourceFile("f", data))]


def test_one_object_a_list_and_several_documents():
    """All shapes that kubectl writes are opened."""
    one = json.dumps(node("a"))

    assert [("f", "Node")] == found(one)
    assert [("f: [0]", "Node")] == found(f"[{one}]")
    assert [("f: items[0]", "Node")] == found(f'{{"kind": "List", "items": [{one}]}}')
    assert [("f:1", "Node"), ("f:3", "Node")] == found(f"{one}\n---\n{one}\n---\n")
    assert [("f:3", "Node")] == found("kind: List\nitems:\n- {kind: Node}\n")
    assert [("f", "Node")] == found(b"\xef\xbb\xbf" + one.encode())


def test_a_typed_list_lends_its_kind():
    """The API server omits kind and apiVersion in the items of a NodeList."""
    text = json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {}}]})
    (item,) = items_of(SourceFile("f", text.encode()))
    (same,) = items_of_objects([json.loads(text)], "objects")

    assert ("Node", "v1") == (item.head.kind, item.head.api_version)
    assert item.head == same.head


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"kind": 5}', "f: Expected `str | null`, got `int` - at `$.kind`"),
        ("kind: 5", "f:1: kind: expected text, got a number"),
        ("kind: List\nitems: 5", "f:1: items: expected a list, got a number"),
        ("- 5", "f:1: [0]: expected a Kubernetes object, got a number"),
        ('{"kind": "Pod", "metadata"', "f:2:1: not YAML"),
        ("[" * 100_000, "f: nested too deeply"),
        (b'{"kind": "\xff"}', "f: not UTF-8 text"),
        ("5", "f:1:1: expected an object"),
    ],
)
def test_mistakes_have_a_place(text, error):
    """Input that is no object is refused with its place."""
    with pytest.raises(InputError) as refused:
        found(text)

    assert str(refused.value).startswith(error)


@pytest.mark.parametrize(
    "raw", [5, None, "x", [1], {"kind": []}, {"kind": "List", "items": {"a": 1}}]
)
def test_plain_objects_are_as_strict(raw):
    """The same rules apply to objects given as data."""
    with pytest.raises(InputError, match=r"^objects\[0\]: "):
        list(items_of_objects([raw], "objects"))
