"""Objects are decoded one by one: a faulty one never affects another."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.effects import Watched
from scheduler.kube.api import Response
from scheduler.kube.watching.decode import (
    Bookmark,
    DecodeFault,
    Decoder,
    GarbageError,
    without_nulls,
)
from scheduler.objects.kinds import NODE, POD
from scheduler.objects.pod import Pod

GOOD = {"metadata": {"name": "good", "namespace": "n", "resourceVersion": "5"}, "spec": {}}
BAD = {"metadata": {"name": "bad", "namespace": "n", "uid": "u"}, "spec": {"priority": "high"}}


class Reader:
    """A decoder of pods and its reports."""

    def __init__(self) -> None:
        self.faults: list[DecodeFault] = []
        self.decoder = Decoder(POD, self.faults.append)

    def line(self, kind: str, obj: Any) -> Any:
        return self.decoder.line(msgspec.json.encode({"type": kind, "object": obj}))

    def names(self, items: Any) -> list[str]:
        data = msgspec.json.encode({"metadata": {"resourceVersion": "9"}, "items": items})
        return [pod.metadata.name for pod in self.decoder.page(data).objects]


def test_a_line_becomes_an_event():
    """Kind, verb and struct are decoded straight from the bytes."""
    event = Reader().line("MODIFIED", GOOD)

    assert isinstance(event, Watched)
    assert ("Pod", "MODIFIED", "n/good") == (event.kind, event.verb, event.object.key)


def test_a_page_has_its_place_in_the_list():
    """The version of the list, and the token for the next page."""
    data = b'{"metadata":{"resourceVersion":"9","continue":"more"},"items":[{}]}'

    page = Reader().decoder.page(data)

    assert ("9", "more", [Pod()]) == (page.resource_version, page.continue_token, page.objects)


def test_one_bad_item_does_not_spoil_the_page():
    """The others are returned, the bad one is reported with key and place."""
    reader = Reader()

    assert ["good", "good"] == reader.names([GOOD, BAD, GOOD])
    (fault,) = reader.faults
    assert ("Pod", "n/bad") == (fault.kind, fault.key)
    assert "$.spec.priority" in fault.message


def test_nulls_mean_the_default():
    """Some writers send null where Go would leave a field out."""
    reader = Reader()
    obj = {**GOOD, "spec": {"containers": None, "tolerations": [None, {"key": None}]}}

    event = reader.line("ADDED", obj)

    assert isinstance(event, Watched)
    assert ((), 1) == (event.object.spec.containers, len(event.object.spec.tolerations))
    assert ["good"] == reader.names([obj])
    assert [] == reader.faults


def test_a_bad_object_in_a_watch_is_passed_over():
    """The version of the bad object still counts: the watch continues after it."""
    reader = Reader()
    bad = {**BAD, "metadata": {**BAD["metadata"], "resourceVersion": "8"}}

    assert Bookmark("8") == reader.line("ADDED", bad)
    assert ["n/bad"] == [fault.key for fault in reader.faults]


def test_a_bad_object_can_still_be_deleted():
    """A deletion event of an object that cannot be decoded is processed by its name."""
    event = Reader().line("DELETED", BAD)

    assert isinstance(event, Watched)
    assert ("DELETED", "n/bad", "u") == (event.verb, event.object.key, event.object.metadata.uid)


@pytest.mark.parametrize("space", ["", " "])
def test_bookmarks_and_errors_are_recognised(space: str):
    """Bookmarks and errors are recognised however they are spaced; an error carries its own
    code.
    """
    reader = Reader()
    start = '{"type":' + space
    mark = start + '"BOOKMARK","object":{"metadata":{"resourceVersion":"77"}}}'
    error = start + '"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'

    assert Bookmark("77") == reader.decoder.line(mark.encode())
    failed = reader.decoder.line(error.encode())

    assert isinstance(failed, Response)
    assert (410, "Expired") == (failed.code, failed.reason)
    assert [] == reader.faults


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"type":"ADDED","object":{"meta',
        b"<html>",
        b'{"type":"BOOKMARK","object":3}',
        b'{"type":"MELTED","object":{}}',
        b'{"object":{}}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_line_raises(data: bytes):
    """Half lines and other protocols are no objects, good or bad."""
    with pytest.raises(GarbageError):
        Reader().decoder.line(data)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"items":3}', b'{"items":[{]}', b"oops"])
def test_what_is_no_page_raises(data: bytes):
    """A list that cannot be read is not an empty list."""
    with pytest.raises(GarbageError):
        Reader().decoder.page(data)


def test_an_empty_page_may_be_null():
    """`items: null` is how some servers write an empty list."""
    assert [] == Reader().names(None)


def test_an_object_without_a_name_is_reported_too():
    """Any list item yields a meaningful report."""
    reader = Reader()

    assert [] == reader.names([3, [], {"metadata": 3}, {"metadata": {"name": 7}}])
    assert {"(no name)"} == {fault.key for fault in reader.faults}
    assert 4 == len(reader.faults)


SIMPLE = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "1"])
JSON_VALUES = SIMPLE | st.lists(SIMPLE, max_size=2) | st.dictionaries(st.just("key"), SIMPLE)
PATHS = ["metadata", "spec", "status", "spec.taints", "status.allocatable", "metadata.labels"]


@given(st.lists(st.tuples(st.sampled_from(PATHS), JSON_VALUES), max_size=4))
def test_any_object_is_read_or_reported(edits: list[tuple[str, Any]]):
    """For any content of an object, its neighbours are returned, and it is read or reported
    once.
    """
    faults: list[DecodeFault] = []
    decoder = Decoder(NODE, faults.append)
    obj: dict[str, Any] = {"metadata": {"name": "x"}, "spec": {}, "status": {}}
    for path, value in edits:
        *parents, last = path.split(".")
        place = obj
        for name in parents:
            place = place[name] if isinstance(place.get(name), dict) else place
        place[last] = value
    items = [{"metadata": {"name": "before"}}, obj, {"metadata": {"name": "after"}}]

    page = decoder.page(json.dumps({"metadata": {}, "items": items}).encode())

    names = [node.metadata.name for node in page.objects]
    assert ("before", "after") == (names[0], names[-1])
    assert 3 == len(names) + len(faults)


def test_nulls_go_at_every_depth():
    """Nulls are removed inside lists and dictionaries."""
    assert {"a": [1, {}], "c": {}} == without_nulls({"a": [1, None, {"b": None}], "c": {"d": None}})
