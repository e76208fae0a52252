"""Semantic versions as selectors compare them: `1.2.3-rc.1+build`, build metadata ignored.

Reads exactly what the API machinery's parser reads (semver.org 2.0, numbers up to 64 bits), with
its error texts; `normalized` also takes `v1.2` and leading zeros, as `semver(text, true)` does.
"""

from __future__ import annotations

from functools import lru_cache

from scheduler.base.errors import ObjectError
from scheduler.cel.evaluation.gotext import bad_number, quoted

_DIGITS = frozenset("0123456789")
_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789")
_UINT64_MAX = 2**64 - 1


class Version:
    """A semantic version; equal and ordered by precedence, `text` is how it was written."""

    __slots__ = ("_key", "major", "minor", "patch", "text")

    def __init__(
        self, text: str, numbers: tuple[int, int, int], prerelease: tuple[int | str, ...]
    ) -> None:
        self.text = text
        self.major, self.minor, self.patch = numbers
        # Numbers sort before words, fewer identifiers before more, any pre-release before none.
        parts = tuple((1, 0, p) if isinstance(p, str) else (0, p, "") for p in prerelease)
        self._key = (*numbers, not parts, parts)

    @staticmethod
    def parse(text: str) -> Version:
        """Read a version; ObjectError with the words of the API machinery if it is none."""
        return _parsed(text)

    @staticmethod
    def normalized(text: str) -> Version:
        """Read a version that may start with `v`, lack minor or patch, or have leading zeros."""
        parts = text.removeprefix("v").split(".", 2)
        parts = [_without_zeros(part) if len(part) > 1 else part for part in parts]
        if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
            raise ObjectError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
        return _parsed(".".join(parts))

    def compare(self, other: Version) -> int:
        """Return -1, 0 or 1 by precedence."""
        return (self._key > other._key) - (self._key < other._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Version({self.text!r})"


def _without_zeros(part: str) -> str:
    stripped = part.lstrip("0")
    return stripped if stripped[:1] in _DIGITS else "0" + stripped


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Version:
    if not text:
        raise ObjectError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ObjectError("No Major.Minor.Patch elements found")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    numbers = (
        _number(parts[0], "Major", "major"),
        _number(parts[1], "Minor", "minor"),
        _number(patch, "Patch", "patch"),
    )
    identifiers = tuple(map(_identifier, prerelease.split("."))) if dash else ()
    if plus:
        for word in build.split("."):
            _check_build(word)
    return Version(text, numbers, identifiers)


def _number(digits: str, title: str, name: str) -> int:
    if not _DIGITS.issuperset(digits):
        raise ObjectError(f"Invalid character(s) found in {name} number {quoted(digits)}")
    if len(digits) > 1 and digits[0] == "0":
        raise ObjectError(f"{title} number must not contain leading zeroes {quoted(digits)}")
    return _uint64(digits)


def _uint64(digits: str) -> int:
    if not digits:
        raise ObjectError(bad_number("ParseUint", digits))
    if len(digits) > 20 or int(digits) > _UINT64_MAX:
        raise ObjectError(bad_number("ParseUint", digits, out_of_range=True))
    return int(digits)


def _identifier(word: str) -> int | str:
    if not word:
        raise ObjectError("Prerelease is empty")
    if _DIGITS.issuperset(word):
        if len(word) > 1 and word[0] == "0":
            raise ObjectError(
                f"Numeric PreRelease version must not contain leading zeroes {quoted(word)}"
            )
        return _uint64(word)
    if not _ALPHANUMERIC.issuperset(word):
        raise ObjectError(f"Invalid character(s) found in prerelease {quoted(word)}")
    return word


def _check_build(word: str) -> None:
    if not word:
        raise ObjectError("Build meta data is empty")
    if not _ALPHANUMERIC.issuperset(word):
        raise ObjectError(f"Invalid character(s) found in build meta data {quoted(word)}")
