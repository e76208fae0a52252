"""Spelling suggestions and limits by bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.text import cut_bytes, did_you_mean, go_duration, in_natural_order, natural


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


@pytest.mark.parametrize(
    "names",
    [
        ["rack", "rack-1", "rack-2", "rack-10", "rack-10a", "rack-b"],
        ["n-01", "n-1", "n-1-b", "n-2", "n-010"],
        ["", "0", "00", "7", "a", "²"],
        ["x-" + "9" * 5000, "x-1" + "0" * 5000],
    ],
)
def test_numbers_in_names_are_ordered_as_numbers(names: list[str]):
    """Equal numbers are ordered by their text, so that the order is total."""
    backwards = names[::-1]
    assert names == sorted(backwards, key=natural)


@given(st.lists(st.text("ab01", max_size=4)))
def test_the_natural_order_depends_on_no_input_order(names: list[str]):
    """Two names have one key only if they are equal."""
    backwards = names[::-1]
    assert sorted(names, key=natural) == sorted(backwards, key=natural)
    assert sorted(names, key=natural) == in_natural_order(backwards)


@given(st.lists(st.from_regex(r"\A[a-b]{1,2}[0-9]{2}-[0-9]{3}\Z"), max_size=6))
def test_names_that_differ_in_digits_have_one_order(names: list[str]):
    """The order of texts is that of the numbers where the digits are at the same positions."""
    assert sorted(names, key=natural) == in_natural_order(names)


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
    """Durations have Go's format, which the timeout messages of permit use."""
    assert text == go_duration(seconds)
