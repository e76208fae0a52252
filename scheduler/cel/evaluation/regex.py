r"""Regular expressions by RE2, as in Go: a match takes time linear in the text.

Errors of a pattern have Go's texts, because they appear in conditions and refusals. The library is
loaded with the first pattern. Syntax of RE2 that Go rejects is refused: `\C` (a single byte), two
groups of one name, and groups nested a thousand times.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from scheduler.cel.evaluation.work import WORK_BUDGET

# Memory of a program and of the state of a match together, in bytes.
_MOST_BYTES: Final = 2 << 20
# Instructions of a program that a match runs per byte of text, at worst, per unit of the budget.
_PER_STEP: Final = 100

_DEEPEST: Final = 1000

_TOKEN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|(?P<escape>\\.)|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]"
    r"|\(\?P?<(?P<name>\w+)>|.",
    re.DOTALL,
)
_LOOK_BEHIND: Final = re.compile(r"\(\?<(?=[=!]|\Z)[^>]*>?")
_FLAGS: Final = re.compile(r"\(\?[imsU-]*")
_IN_GO: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "pattern too large - compile failed": "expression too large",
}


class RegexError(ValueError):
    """The text is no regular expression; the message is Go's."""

    def __init__(self, reason: str, part: str = "") -> None:
        super().__init__(f"error parsing regexp: {reason}" + (f": `{part}`" if part else ""))


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MOST_BYTES
        try:
            self._regexp: Any = re2.compile(_bytes(pattern), options)
        except re2.error as error:
            raise _regex_error(error.args[0].decode(errors="replace"), pattern) from None
        _check_beyond_go(pattern)
        self._steps = 1 + self._regexp.programsize // _PER_STEP

    @staticmethod
    def compiled(pattern: str) -> "Regex":
        """Return the compiled pattern, kept for a while; RegexError if it is none."""
        return _compiled(pattern)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text."""
        data = _bytes(text)
        self._pay(len(data))
        return self._regexp.search(data) is not None

    def find(self, text: str) -> str:
        """Return the leftmost match (of several there, the preferred one), empty without a
        match.
        """
        return next(self._found(text), "")

    def find_all(self, text: str, most: int = -1) -> list[str]:
        """Return the matches from left to right, at most `most` if that is not negative."""
        return list(islice(self._found(text), most if most >= 0 else None))

    def _found(self, text: str) -> Iterator[str]:
        """Yield the matches; as in Go, no empty match directly after another match."""
        data, last_end = _bytes(text), -1
        self._pay(len(data))
        for match in self._regexp.finditer(data):
            start, end = match.span()
            # The library reads each byte, and no match begins inside the bytes of one character.
            is_within = start < len(data) and data[start] & 0xC0 == 0x80
            if end > start or (start != last_end and not is_within):
                yield _text(match.group())
            last_end = end
            self._pay(len(data) - end)  # each search may read all of the remaining text

    def _pay(self, size: int) -> None:
        WORK_BUDGET.spend(size * self._steps)


def _regex_error(reason: str, pattern: str) -> RegexError:
    """Return the error that Go's package reports where RE2 gives this reason."""
    words, _, part = reason.partition(": ")
    if words == "invalid perl operator" and (found := _LOOK_BEHIND.search(pattern)):
        return RegexError("invalid named capture", found[0])
    if words == "invalid perl operator" and pattern.endswith(part) and _FLAGS.fullmatch(part):
        return RegexError("missing closing )", pattern)
    if words == "invalid repetition size":
        part = part.removesuffix("?")
    return RegexError(_IN_GO.get(words, words), part)


def _check_beyond_go(pattern: str) -> None:
    """Reject RE2 syntax that Go does not accept."""
    names: set[str] = set()
    depth = 0
    for token in _TOKEN.finditer(pattern):
        depth += (token[0][0] == "(") - (token[0] == ")")
        if depth > _DEEPEST:
            raise RegexError("expression nests too deeply", pattern)
        if token["escape"] == "\\C":
            raise RegexError("invalid escape sequence", "\\C")
        if (name := token["name"]) in names:
            raise RegexError("duplicate capture group name", name)
        names |= {name} if name else set()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Regex:
    return Regex(pattern)
