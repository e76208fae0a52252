"""Sets of characters in regular expressions: ranges, classes of Perl and POSIX, Unicode categories."""

import unicodedata
from bisect import bisect_right

LAST = 0x10FFFF
Ranges = list[tuple[int, int]]

_PERL: dict[str, Ranges] = {
    "d": [(48, 57)],
    "s": [(9, 10), (12, 13), (32, 32)],
    "w": [(48, 57), (65, 90), (95, 95), (97, 122)],
}
_POSIX: dict[str, Ranges] = {
    "alnum": [(48, 57), (65, 90), (97, 122)],
    "alpha": [(65, 90), (97, 122)],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": [(48, 57)],
    "graph": [(33, 126)],
    "lower": [(97, 122)],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)],
    "word": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "xdigit": [(48, 57), (65, 70), (97, 102)],
}
_CATEGORIES = frozenset(
    [
        "C",
        "Cc",
        "Cf",
        "Co",
        "Cs",
        "L",
        "Ll",
        "Lm",
        "Lo",
        "Lt",
        "Lu",
        "M",
        "Mc",
        "Me",
        "Mn",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Pe",
        "Pf",
        "Pi",
        "Po",
        "Ps",
        "S",
        "Sc",
        "Sk",
        "Sm",
        "So",
        "Z",
        "Zl",
        "Zp",
        "Zs",
    ]
)


class CharSet:
    """A set of characters: `ranges`, and Unicode categories with whether they are excluded."""

    __slots__ = ("_starts", "categories", "fold", "negated", "ranges")

    def __init__(
        self,
        ranges: Ranges,
        categories: list[tuple[str, bool]] | None = None,
        *,
        negated: bool = False,
        fold: bool = False,
    ) -> None:
        self.ranges = _merged(ranges)
        self.categories = categories or []
        self.negated = negated
        self.fold = fold
        self._starts = [low for low, _high in self.ranges]

    def __contains__(self, rune: str) -> bool:
        runes = {rune, rune.lower(), rune.upper()} if self.fold else (rune,)
        return any(self._holds(one) for one in runes if len(one) == 1) != self.negated

    def _holds(self, rune: str) -> bool:
        code = ord(rune)
        index = bisect_right(self._starts, code) - 1
        if index >= 0 and code <= self.ranges[index][1]:
            return True
        if not self.categories:
            return False
        category = unicodedata.category(rune)
        return any(
            (name == "Any" or category.startswith(name)) != out for name, out in self.categories
        )


def perl_class(letter: str) -> Ranges:
    """Return the ranges of a class of Perl, `d`, `s` or `w`, or of its complement."""
    ranges = _PERL[letter.lower()]
    return complement(ranges) if letter.isupper() else ranges


def posix_class(name: str) -> Ranges | None:
    """Return the ranges of `[:name:]` or `[:^name:]`; None if there is no such class."""
    ranges = _POSIX.get(name.removeprefix("^"))
    if ranges is None:
        return None
    return complement(ranges) if name.startswith("^") else ranges


def is_category(name: str) -> bool:
    """Whether a name is a general category of Unicode (or `Any`)."""
    return name in _CATEGORIES or name == "Any"


def complement(ranges: Ranges) -> Ranges:
    """Return all other characters."""
    result: Ranges = []
    start = 0
    for low, high in _merged(ranges):
        if low > start:
            result.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        result.append((start, LAST))
    return result


def _merged(ranges: Ranges) -> Ranges:
    merged: Ranges = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return merged
