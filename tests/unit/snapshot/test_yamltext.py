"""YAML of snapshots: plain data as kubectl reads it, lines for errors, bounds for hostile input."""

import pytest
import yaml

from scheduler.base.errors import InputError
from scheduler.snapshot import yamltext
from scheduler.snapshot.yamltext import parse

TEXT = """
apiVersion: v1
kind: List
items:
- {a: 1, b: "1", c: yes, d: ~, e: 0x10, f: 1.5, g: 2026-01-01T00:00:00Z}
- name: x
  nested: [[1, 2], {k: v}]
  text: |
    two
    lines
"""


def values(text):
    return [document.value for document in parse(text.encode(), "t.yaml")]


def test_values_and_lines():
    """Scalars have their YAML 1.1 meaning, times stay text, and each item has its line."""
    (document,) = parse(TEXT.encode(), "t.yaml")
    first, second = document.value["items"]

    assert {"a": 1, "b": "1", "c": True, "d": None, "e": 16, "f": 1.5} == {
        key: first[key] for key in "abcdef"
    }
    assert "2026-01-01T00:00:00Z" == first["g"]
    assert {"name": "x", "nested": [[1, 2], {"k": "v"}], "text": "two\nlines\n"} == second
    assert (2, (5, 6)) == (document.line, document.item_lines)


def test_agrees_with_the_library():
    """Documents, anchors, merges and empty values equal those of the library."""
    text = "---\na: &x {k: 1, l: [1]}\nb: {<<: *x, k: 2}\nc: *x\n---\n---\nd: {}\ne:\n"

    assert [value for value in yaml.safe_load_all(text) if value is not None] == values(text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [1", "t.yaml:2:1: not YAML: did not find expected ',' or ']'"),
        ("a: 1\na: 2", 't.yaml:2:1: duplicate field "a"'),
        ("a: !!python/object:x {}", 't.yaml:1:4: the tag "tag:yaml.org,2002:python/object:x"'),
        ("{[1]: 2}", "t.yaml:1:2: a field name must be plain text"),
        ("a: *b", 't.yaml:1:4: the alias "*b" stands for nothing before it'),
        ("<<: 5", 't.yaml:1:1: "<<" merges mappings only'),
        ("just text", "t.yaml:1:1: expected an object"),
        ("a: " + "[" * 200, "t.yaml:1:103: nested deeper than 100 levels"),
    ],
)
def test_mistakes_have_a_place(text, error):
    """Unreadable input is refused with file, line and column."""
    with pytest.raises(InputError) as refused:
        values(text)

    assert str(refused.value).startswith(error)


def test_aliases_count_as_what_they_stand_for(monkeypatch):
    """A short text that unfolds into very much is refused before it does."""
    monkeypatch.setattr(yamltext, "MAX_VALUES", 10_000)
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 10)}]" for i in range(6)
    ]

    with pytest.raises(InputError, match="more than 10000 values"):
        values("\n".join(lines))


def test_too_long_a_text(monkeypatch):
    """A file beyond the limit is refused before it is read; the message suggests JSON."""
    monkeypatch.setattr(yamltext, "MAX_BYTES", 10)

    with pytest.raises(InputError, match=r"12 bytes of YAML; the most is 10 .*JSON"):
        values("a: 123456789")


@pytest.mark.parametrize("data", [b"\xff", b"a: \x00", b"\x80"])
def test_what_is_no_text(data):
    """Bytes that are no text are an error like any other."""
    with pytest.raises(InputError):
        list(parse(data, "t.yaml"))
