"""Kubernetes quantities without loss, for selectors and for capacities of devices.

A quantity is an integer multiple of 10**-9, rounded away from zero as in the API machinery. It also
records which of two forms upstream uses (64 bits, or wide), because `isInteger` and `asInteger`
depend on it. (Format: Kubernetes API reference, "Quantity".)
"""

import re
from functools import lru_cache
from typing import Final

from scheduler.base.errors import ObjectError

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

# The scanner of the API machinery: every part may be empty, `Mi` and `.` are zero.
_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+", re.ASCII)
# Upstream takes any exponent of 32 bits and computes with numbers of as many digits; here it ends.
_LARGEST_EXPONENT = 300
_LONGEST_EXPONENT = 8
_LONGEST = 1024
_NANO = -9
_DIGITS_64_BIT = 18

_FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_NUMERIC = "unable to parse numeric part of quantity"
_SUFFIX = "unable to parse quantity's suffix"


class Quantity:
    """A quantity; equal and ordered by value.

    `nanos` is the value in 10**-9. `derived` marks results of `add` and `sub` in selectors, which
    upstream does not take as the right side of `==`.
    """

    __slots__ = ("derived", "nanos", "scale", "unscaled", "wide")

    def __init__(
        self, unscaled: int, scale: int = 0, *, wide: bool = False, derived: bool = False
    ) -> None:
        self.unscaled = unscaled
        self.scale = scale
        self.wide = wide
        self.derived = derived
        power = scale - _NANO
        # Only zero is below 10**-9.
        self.nanos: int = unscaled * 10**power if power >= 0 else unscaled // 10**-power

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Read a quantity; ObjectError with the words of the API machinery if it is none."""
        return _parsed(text)

    @property
    def integer(self) -> int | None:
        """Return the value as upstream's AsInt64 does, None if that has no result."""
        if self.wide or self.scale < 0:
            return None
        value = self.unscaled * 10**self.scale
        return value if INT64_MIN <= value <= INT64_MAX else None

    def approximate(self) -> float:
        """Return the value as a float, rounded as upstream rounds; infinite beyond its range."""
        value = float(self.unscaled)
        return value * float(f"1e{self.scale}") if self.scale else value

    def plus(self, other: "Quantity") -> "Quantity":
        """Return the sum."""
        return self._plus(other.unscaled, other)

    def minus(self, other: "Quantity") -> "Quantity":
        """Return the difference."""
        return self._plus(-other.unscaled, other)

    def _plus(self, unscaled: int, other: "Quantity") -> "Quantity":
        wide = self.wide or other.wide
        if not wide and not unscaled:
            return Quantity(self.unscaled, self.scale, derived=True)
        if not wide and not self.unscaled:
            return Quantity(unscaled, other.scale, derived=True)
        scale = min(self.scale, other.scale)
        mine = self.unscaled * 10 ** (self.scale - scale)
        theirs = unscaled * 10 ** (other.scale - scale)
        total = mine + theirs
        fits = all(INT64_MIN <= part <= INT64_MAX for part in (mine, theirs, total))
        return Quantity(total, scale, wide=wide or not fits, derived=True)

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1 by value."""
        return (self.nanos > other.nanos) - (self.nanos < other.nanos)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __le__(self, other: "Quantity") -> bool:
        return self.nanos <= other.nanos

    def __repr__(self) -> str:
        return f"Quantity({self.unscaled}e{self.scale})"


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Quantity:
    match = _FORM.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if match is None:
        raise ObjectError(_FORMAT_WRONG)
    sign, whole, fraction, suffix = match.groups(default="")
    exponent, bits = _interpreted(suffix)
    significant = whole.lstrip("0") or "0"
    digits = int(significant + fraction)
    small = digits << bits
    scale = exponent - len(fraction)
    if _headroom(significant, fraction, bits) >= 0 and scale >= _NANO and small <= INT64_MAX:
        return Quantity(-small if sign == "-" else small, scale)
    if not whole and not fraction:
        raise ObjectError(_NUMERIC)
    power = scale - _NANO
    value = small * 10**power if power >= 0 else -(-small // 10**-power)
    scale = _NANO
    if bits and value > INT64_MAX * 10**-_NANO:
        value, scale = INT64_MAX, 0
    return Quantity(-value if sign == "-" else value, scale, wide=True)


def _interpreted(suffix: str) -> tuple[int, int]:
    """Return the suffix as powers of ten and of two; ObjectError if it is none."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix], 0
    if suffix in _BINARY:
        return 0, _BINARY[suffix]
    if _EXPONENT.fullmatch(suffix) and len(suffix) <= _LONGEST_EXPONENT:
        exponent = int(suffix[1:])
        if abs(exponent) <= _LARGEST_EXPONENT:
            return exponent, 0
    raise ObjectError(_SUFFIX)


def _headroom(whole: str, fraction: str, bits: int) -> int:
    """Return the number of digits left in upstream's 64-bit form; below 0 it uses the wide form."""
    if not bits:
        return _DIGITS_64_BIT - len(whole) - len(fraction)
    return -1 if fraction else 15 - len(whole) - bits * 3 // 10 - 1
