"""Amounts of capacities and counters: exact, and printed in the API machinery's format.

An `Amount` is a number of 10**-9 together with its original format, which determines how a sum or a
rounded amount is printed (`3Gi`, `3k`, `3e3`). (Format: Kubernetes API reference, "Quantity".)
"""

from functools import lru_cache
from typing import NamedTuple

from scheduler.base.errors import ObjectError
from scheduler.cel import Quantity
from scheduler.objects.devices import AmountText

NANO = 10**9

_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Amount(NamedTuple):
    """A number of 10**-9 and its form: `decimal`, `binary` or `exponent`."""

    nanos: int
    form: str = "decimal"

    @property
    def whole(self) -> int:
        """Return the amount in whole units, rounded up."""
        return -(-self.nanos // NANO)

    def __str__(self) -> str:
        """Return the amount in its canonical form."""
        form = "decimal" if abs(self.nanos) < 1024 * NANO and self.form == "binary" else self.form
        if form == "binary":
            value, place = self.whole, 0
            while value and value % 1024 == 0 and place + 1 < len(_BINARY):
                value, place = value // 1024, place + 1
            return f"{value}{_BINARY[place]}"
        value, power = self.nanos, -9
        while value and value % 1000 == 0 and (power < 18 or form == "exponent"):
            value, power = value // 1000, power + 3
        if not value:
            return "0"
        if form == "exponent":
            return f"{value}e{power}" if power else str(value)
        return f"{value}{_DECIMAL[power // 3 + 3]}"


@lru_cache(maxsize=8192)
def amount(text: AmountText) -> Amount:
    """Return an amount; an invalid text (no API server stores it) counts as 0."""
    written = str(text)
    try:
        nanos = Quantity.parse(written).nanos
    except ObjectError:
        return Amount(0)
    if written.endswith("i"):
        return Amount(nanos, "binary")
    is_exponent = written[-1:].isdigit() and "e" in written.lower()
    return Amount(nanos, "exponent" if is_exponent else "decimal")
