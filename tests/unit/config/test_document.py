"""YAML and JSON text becomes plain values with places, within bounds."""

import time

import pytest

from scheduler.config.document import MAX_BYTES, MAX_VALUES, parse
from scheduler.config.problems import InvalidConfigError, Problems


def read(text):
    """Return the documents of a text."""
    return parse(text, Problems("f.yaml"))


def refused(text):
    """Return the lines of the error that a text is refused with."""
    with pytest.raises(InvalidConfigError) as error:
        read(text)
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("1", 1),
        ("-0x1f", -31),
        ("010", 8),
        ("0o17", 15),
        ("1.5e3", 1500.0),
        ("yes", True),
        ("Off", False),
        ("~", None),
        ("", None),
        ("2001-01-01", "2001-01-01"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("1_000", "1_000"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ('!!int "5"', 5),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_scalars_mean_what_kubernetes_reads(scalar, value):
    """Plain scalars follow YAML 1.1 without dates, underscores and infinities."""
    assert {"a": value} == read(f"a: {scalar}")[0].plain()


def test_aliases_and_merges_are_resolved():
    """`*x` is replaced by the value that `&x` names; explicit fields override `<<`."""
    text = "a: &x {b: 1, c: [1]}\nd:\n  <<: *x\n  b: 2\n"

    assert {"a": {"b": 1, "c": [1]}, "d": {"b": 2, "c": [1]}} == read(text)[0].plain()


def test_every_value_knows_its_place():
    """A path leads to line and column, an unknown path to its nearest parent."""
    root = read("a: 1\nb:\n- c: x\n  d: [1,\n   2]\n")[0]

    assert (4, 3) == root.position("b[0].d")
    assert (5, 4) == root.position("b[0].d[1]")
    assert (3, 3) == root.position("b[0].nope.more")
    assert (1, 1) == root.position("")


def test_all_duplicate_fields_are_named():
    """A field that occurs twice in one object is a mistake, wherever it is."""
    assert [
        'f.yaml:2:1: duplicate field "a"',
        'f.yaml:3:11: duplicate field "d"',
    ] == refused("a: 1\na: 2\nc: {d: 1, d: 2}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [\n", "f.yaml:2:1: not YAML: did not find expected node content"),
        ("? [a]\n: b", "f.yaml:1:3: a field name must be plain text"),
        ("a: *b", 'f.yaml:1:4: the alias "*b" stands for nothing before it'),
        ("&a [*a]", 'f.yaml:1:5: the alias "*a" stands for nothing before it'),
        ("a: !!python/name:os.system", "is not allowed"),
        ("<<: 5", 'f.yaml:1:1: "<<" merges mappings only'),
        ("[" * 1000, "f.yaml:1:65: nested deeper than 64 levels"),
        ("a: \ud800", "f.yaml:1:1: not UTF-8 text"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_is_no_plain_document_is_refused(text, error):
    """Tags, recursion, deep nesting and invalid text end in one error with its position."""
    assert error in refused(text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "a" * (MAX_BYTES + 1),
        "[" + "1," * (MAX_VALUES + 1) + "]",
        "a: &a [" + "1," * 1000 + "]\nb: [" + "*a," * 1000 + "]",
        "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]),
        "{" * 100_000,
        "- " * 300_000,
    ],
    ids=["bytes", "values", "alias-list", "alias-bomb", "flow", "block"],
)
def test_large_input_is_refused_soon(text):
    """Neither size nor nesting nor aliases make reading slow: seconds of CPU time, not minutes."""
    start = time.process_time()

    assert 1 == len(refused(text))
    assert time.process_time() - start < 20
