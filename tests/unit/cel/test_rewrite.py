"""Other texts in a selector: names are hidden, what compares equal still does."""

import pytest

from scheduler.cel import CelCompileError, DeviceInput, compile_selector, replace_texts


def test_only_texts_are_replaced():
    """Numbers, bytes, names and comments stay."""
    text = """device.attributes["d"].a == 'x' && b"x" != b'' // "x" """

    assert """device.attributes["D"].a == "X" && b"x" != b'' // "x" """ == replace_texts(
        text, str.upper
    )


def test_escapes_and_raw_texts_are_read():
    """What is replaced is the value, not how it was written."""
    seen: list[str] = []

    def other(text: str) -> str:
        seen.append(text)
        return 'q"\n'

    changed = replace_texts(r"""r"\d" == "\x41" || '''a"b''' == "" """, other)

    assert ["", 'a"b', "A", r"\d"] == seen
    assert compile_selector(changed).evaluate(DeviceInput("d", {}, {}))


def test_what_has_no_tokens_is_refused():
    """A text that is none is not guessed at."""
    with pytest.raises(CelCompileError):
        replace_texts('"open', str.upper)
