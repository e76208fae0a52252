"""Values as Go writes them in messages: `%q` of strings, numbers that do not parse.

Upstream's error messages quote the user's text; this module quotes it in the same format.
"""

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    '"': '\\"',
    "\\": "\\\\",
}


def quoted(text: str) -> str:
    """Return the text as a Go string literal (`strconv.Quote`)."""
    return '"' + "".join(map(_quoted_rune, text)) + '"'


def _quoted_rune(rune: str) -> str:
    if rune in _ESCAPES:
        return _ESCAPES[rune]
    if rune.isprintable():
        return rune
    code = ord(rune)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def bad_number(function: str, text: str, *, out_of_range: bool = False) -> str:
    """Return strconv's message for a text that is no number."""
    reason = "value out of range" if out_of_range else "invalid syntax"
    return f"strconv.{function}: parsing {quoted(text)}: {reason}"
