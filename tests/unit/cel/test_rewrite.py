"""Replaced texts in a selector: names are hidden, equal values stay equal."""

import pytest

from scheduler.cel import CelCompileError, DeviceInput, compile_selector, replace_texts


def test_only_texts_are_replaced():
    """Numbers, bytes, names and comments stay."""
    text = """device.attributes["d"].a == 'x' && b"x" != b'' // "x" """

    assert """device.attributes["D"].a == "X" && b"x" != b'' // "x" """ == replace_texts(
        text, str.upper
    )


def test_escapes_and_raw_texts_are_read():
    """The value is replaced, whatever its spelling."""
    seen: list[str] = []

    def other(text: str) -> str:
        seen.append(text)
        return 'q"\n'

    changed = replace_texts(r"""r"\d" == "\x41" || '''a"b''' == "" """, other)

    assert ["", 'a"b', "A", r"\d"] == seen
    assert compile_selector(changed).evaluate(DeviceInput("d", {}, {}))


def test_what_has_no_tokens_is_refused():
    """A text without valid tokens is not replaced by a guess."""
    with pytest.raises(CelCompileError):
        replace_texts('"open', str.upper)
