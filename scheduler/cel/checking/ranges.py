"""Ranges of sizes and costs, bounded by 64 bits: the arithmetic of cel-go's cost estimate."""

import math
from typing import NamedTuple

MOST = 2**64 - 1
_TWO_TO_64 = 2.0**64


class Range(NamedTuple):
    """The least and the most of a size or a cost."""

    least: int
    most: int

    def plus(self, other: "Range") -> "Range":
        """Return the sum."""
        return Range(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: "Range") -> "Range":
        """Return the product."""
        return Range(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> "Range":
        """Return the range times a factor, rounded up."""
        return Range(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: "Range") -> "Range":
        """Return the range that holds both."""
        return Range(min(self.least, other.least), max(self.most, other.most))


def fixed(amount: int) -> Range:
    """Return the range that holds just this amount."""
    return Range(amount, amount)


UNKNOWN = Range(0, MOST)


def _scaled(amount: int, factor: float) -> int:
    value = float(amount)
    if value > 0 and factor > 0 and value > _TWO_TO_64 / factor:
        return MOST
    raised = math.ceil(value * factor)
    return MOST if raised >= _TWO_TO_64 else raised
