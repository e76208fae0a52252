"""The depth of JSON is measured before it is decoded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.nesting import MOST_LEVELS, is_too_deep

plain = st.recursive(
    st.none() | st.booleans() | st.text(alphabet='[]{}"\\a'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=30,
)


def levels_of(value: Any) -> int:
    """Return how deep a value is nested, level by level."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(levels_of, inner), default=0)


@given(value=plain)
def test_it_counts_what_a_decoder_would_go_down(value: Any):
    """Brackets in texts do not count, with any escapes."""
    data, levels = json.dumps(value).encode(), levels_of(value)

    assert not is_too_deep(data, levels)
    assert levels == 0 or is_too_deep(data, levels - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 200_000 + b"]" * 200_000,
        b"[" * 200_000,
        b'{"a":' * 1000 + b"1" + b"}" * 1000,
        b'["' + b"]" * 5000 + b'",' + b"[" * 600 + b"]" * 601,
        b'["\\"' + b"]" * 5000 + b'",' + b"[" * 600 + b"]" * 601,
    ],
    ids=["lists", "unfinished", "objects", "hidden", "hidden behind a quote"],
)
def test_deep_ones_are_found(data: bytes):
    """The depth is right for a text whose closing brackets would hide it."""
    assert is_too_deep(data)


def test_wide_ones_are_not():
    """Any number of siblings is allowed."""
    assert not is_too_deep(b"[" + b"[1]," * 100_000 + b"[1]]")
    assert not is_too_deep(b'{"a": ' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS)
    assert not is_too_deep(b'["' + b"[" * 5000 + b'"]')
