"""Spelling suggestions and limits by bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.text import cut_bytes, did_you_mean, go_duration


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("nodeaffinity", ' (did you mean "NodeAffinity"?)'),
        ("NodeAfinity", ' (did you mean "NodeAffinity"?)'),
        ("Zebra", ""),
        ("", ""),
    ],
)
def test_the_nearest_known_word_is_offered(word: str, hint: str):
    """Case does not matter, and a word far from all others gets no hint."""
    assert hint == did_you_mean(word, ["NodeName", "NodeAffinity", "PrioritySort"])


@given(st.text(), st.integers(4, 40))
def test_text_is_cut_to_bytes(text: str, limit: int):
    """Never longer than allowed, never half a character, untouched when it fits."""
    cut = cut_bytes(text, limit)
    raw = text.encode()

    assert len(cut.encode()) <= limit
    if len(raw) <= limit:
        assert text == cut
    else:
        assert cut.endswith(" ...")
        assert text.startswith(cut.removesuffix(" ..."))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-1, "0s"),
        (1e-9, "1ns"),
        (0.0000025, "2.5µs"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (59.999, "59.999s"),
        (60, "1m0s"),
        (90.5, "1m30.5s"),
        (3600, "1h0m0s"),
        (7384, "2h3m4s"),
        (1e-12, "0s"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, text: str):
    """As the timeout messages of permit show them."""
    assert text == go_duration(seconds)
