"""Values of literals: numbers parsed, quotes and prefixes removed, escapes resolved."""

import re

from scheduler.cel.evaluation.values import INT64_MAX, UINT64_MAX, UInt

_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "`": "`",
    "?": "?",
}
_ESCAPE = re.compile(
    r"\\(?:(?P<code>[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"
    r"|(?P<octal>[0-3][0-7][0-7])|(?P<simple>.))",
    re.DOTALL,
)


def constant(kind: str, text: str, sign: str) -> object:
    """Return the value of a token, negative after a sign; ValueError with the reason if it has
    none.
    """
    if kind == "string":
        return string_value(text)
    if kind == "bytes":
        return bytes_value(text)
    if kind == "float":
        value = float(sign + text)
        if value in (float("inf"), float("-inf")):
            raise ValueError("invalid double literal")
        return value
    unsigned = kind == "uint"
    digits = text[:-1] if unsigned else text
    number = int(digits, 16) if digits.startswith("0x") else _decimal(digits)
    if unsigned:
        if number > UINT64_MAX:
            raise ValueError("invalid uint literal")
        return UInt(number)
    number = -number if sign else number
    if not -INT64_MAX - 1 <= number <= INT64_MAX:
        raise ValueError("invalid int literal")
    return number


def _decimal(digits: str) -> int:
    stripped = digits.lstrip("0") or "0"
    return int(stripped) if len(stripped) <= 20 else UINT64_MAX + 1


def string_value(literal: str) -> str:
    """Return the text of a string literal; ValueError for an escape that names no character."""
    body, raw = _body(literal)
    return body if raw else _ESCAPE.sub(_character, body)


def bytes_value(literal: str) -> bytes:
    """Return the bytes of a bytes literal; ValueError for an escape that bytes do not have."""
    body, raw = _body(literal[1:])
    if raw:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    at = 0
    for match in _ESCAPE.finditer(body):
        parts.extend((body[at : match.start()].encode("utf-8"), _byte(match)))
        at = match.end()
    parts.append(body[at:].encode("utf-8"))
    return b"".join(parts)


def _body(literal: str) -> tuple[str, bool]:
    """Return the text between the quotes, and whether it is raw (without escapes)."""
    literal = literal.replace("\r\n", "\n").replace("\r", "\n")
    raw = literal[0] in "rR"
    if raw:
        literal = literal[1:]
    quotes = 3 if len(literal) >= 6 and literal[:3] in ('"""', "'''") else 1
    return literal[quotes:-quotes], raw


def _character(match: re.Match[str]) -> str:
    if match["simple"]:
        return _SIMPLE[match["simple"]]
    code = int(match["octal"], 8) if match["octal"] else int(match["code"][1:], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _byte(match: re.Match[str]) -> bytes:
    if match["simple"]:
        return _SIMPLE[match["simple"]].encode()
    if match["octal"]:
        return bytes((int(match["octal"], 8),))
    if match["code"][0] in "uU":
        raise ValueError("unable to unescape string")
    return bytes((int(match["code"][1:], 16),))
