"""Label selectors against a plain reading of the API reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement
from scheduler.objects.selectors import parse_int, selector_matches, value_matches

keys = st.sampled_from(["a", "b", "c"])
values = st.sampled_from(["x", "y", "", "5", "-3", "007"])
labels = st.dictionaries(keys, values)
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])
requirements = st.builds(
    LabelSelectorRequirement, keys, operators, st.lists(values, max_size=2).map(tuple)
)
selectors = st.builds(LabelSelector, labels, st.lists(requirements, max_size=3).map(tuple))


def holds(requirement: LabelSelectorRequirement, labels: dict[str, str]) -> bool:
    """Return the result of one expression, by plain code."""
    there = requirement.key in labels
    listed = labels.get(requirement.key) in requirement.values
    return {
        "In": there and listed,
        "NotIn": not there or not listed,
        "Exists": there,
        "DoesNotExist": not there,
    }[requirement.operator]


@given(selectors, labels)
def test_selectors_follow_the_oracle(selector: LabelSelector, labels: dict[str, str]):
    """All labels equal and all expressions true."""
    equal = all(labels.get(key) == value for key, value in selector.match_labels.items())
    expected = equal and all(holds(r, labels) for r in selector.match_expressions)

    assert expected == selector_matches(selector, labels)


def test_none_and_empty():
    """No selector matches nothing, an empty one everything."""
    assert not selector_matches(None, {"a": "x"})
    assert selector_matches(LabelSelector(), {})


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "expected"),
    [
        ("Gt", ("3",), "4", True),
        ("Gt", ("3",), "3", False),
        ("Lt", ("3",), "-4", True),
        ("Lt", ("3",), None, False),
        ("Gt", ("3",), "many", False),
        ("Gt", ("many",), "4", False),
        ("Gt", ("1", "2"), "4", False),
        ("Gt", (), "4", False),
        ("Near", ("3",), "3", False),
    ],
)
def test_comparisons(operator: str, wanted: tuple[str, ...], value: str | None, expected: bool):
    """Both sides must be integers, with exactly one value."""
    assert expected == value_matches(operator, wanted, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("+5", 5),
        ("007", 7),
        ("0" * 40 + "5", 5),
        ("", None),
        ("-", None),
        (" 5", None),
        ("5.0", None),
        ("\u0665", None),
        ("1_000", None),
    ],
)
def test_integers_are_those_of_go(text: str, expected: int | None):
    """Signed 64 bit, ASCII digits, nothing around them."""
    assert expected == parse_int(text)
