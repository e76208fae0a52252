"""Nodes become structs strictly, with all mistakes of a document at once."""

from typing import Annotated, Any, Literal

import msgspec

from scheduler.config.decode import decode
from scheduler.config.document import parse
from scheduler.config.problems import Problems
from scheduler.framework.duration import Duration


class Inner(msgspec.Struct, rename="camel"):
    """An object inside another one."""

    long_name: int = 0
    needed: str = "x"


class Outer(msgspec.Struct, rename="camel"):
    """A struct with one field of every type."""

    name: str
    inner: Inner = msgspec.field(default_factory=Inner)
    many: list[Inner] = []
    pair: tuple[int, ...] = ()
    by_name: dict[str, int] = {}
    maybe: Inner | None = None
    either: int | str = 0
    kind: Literal["A", "B"] = "A"
    share: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    wait: Duration = ""
    ratio: float = 0.0
    flag: bool = False
    raw: Any = None


def read(text):
    """Return the struct and the problems of a text."""
    problems = Problems("f")
    return decode(parse(text, problems)[0], Outer, problems), [str(p) for p in problems.found]


def test_a_document_becomes_a_struct():
    """Names are camelCase in the file; numbers of either kind serve as float."""
    text = """
name: n
inner: {longName: 3}
many: [{needed: y}]
pair: [1, 2]
byName: {a: 1}
maybe: {longName: 4}
either: text
kind: B
share: 7
wait: 1m30s
ratio: 2
flag: yes
raw: {any: [thing]}
"""
    expected = Outer(
        name="n",
        inner=Inner(long_name=3),
        many=[Inner(needed="y")],
        pair=(1, 2),
        by_name={"a": 1},
        maybe=Inner(long_name=4),
        either="text",
        kind="B",
        share=7,
        wait="1m30s",
        ratio=2.0,
        flag=True,
        raw={"any": ["thing"]},
    )

    assert (expected, []) == read(text)


def test_null_counts_as_not_given():
    """As in Kubernetes, a field that is null has its default."""
    assert (Outer(name="n"), []) == read("{name: n, inner: null, share: null, maybe: ~}")


def test_all_mistakes_are_found_at_once():
    """Each has its position, its path and the expected type."""
    text = """nam: n
inner: {longname: 3}
many: [{longName: x}, 5]
pair: {}
byName: {a: yes}
either: [1]
kind: C
share: 101
wait: 5 minutes
flag: "true"
ratio: true
"""

    assert (
        None,
        [
            'f:1:1: unknown field "nam" (did you mean "name"?)',
            'f:2:9: unknown field "inner.longname" (did you mean "longName"?)',
            'f:3:19: many[0].longName: expected an integer, got the text "x"',
            "f:3:23: many[1]: expected an object, got 5",
            "f:4:7: pair: expected a list, got an object",
            "f:5:13: byName.a: expected an integer, got true",
            "f:6:9: either: expected `int | str`, got `array`",
            "f:7:7: kind: invalid enum value 'C'",
            "f:8:8: share: expected `int` <= 100",
            'f:9:7: wait: expected a duration such as "15s" or "1m30s", got the text "5 minutes"',
            'f:10:7: flag: expected true or false, got the text "true"',
            "f:11:8: ratio: expected a number, got true",
            'f:1:1: missing field "name"',
        ],
    ) == read(text)


def test_whole_floats_serve_as_integers():
    """`3.0` is 3, as it is after YAML has become JSON; `3.5` is not."""
    assert 3 == read("{name: n, share: 3.0}")[0].share
    assert ["f:1:18: share: expected an integer, got 3.5"] == read("{name: n, share: 3.5}")[1]
