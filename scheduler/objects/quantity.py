"""Kubernetes quantities as exact integers: `500m`, `1.5Gi`, `2e3`.

Reading is cached by text, since a cluster uses few distinct quantities. Values beyond int64 are
clamped to it, as the API machinery does. (Format: Kubernetes API reference, "Quantity".)
"""

import re
from functools import lru_cache

from scheduler.base.errors import ObjectError

INT64_MAX = 2**63 - 1

_FORM = re.compile(
    r"([+-]?)(\d*)(?:\.(\d*))?(?:([eE][+-]?\d{1,4})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 64


@lru_cache(maxsize=65536)
def _scaled(text: str, extra_digits: int) -> int:
    """Return `text` times 10**extra_digits, rounded away from zero."""
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not (match[2] or match[3]):
        raise ObjectError(f'"{text[:_LONGEST]}" is not a quantity (like "500m", "2", "1.5Gi")')
    sign, whole, fraction, exponent, suffix = match.groups()
    digits = int((whole or "") + (fraction or ""))
    power = extra_digits - len(fraction or "")
    if exponent:
        power += int(exponent[1:])
    elif suffix in _BINARY:
        digits <<= _BINARY[suffix]
    else:
        power += _DECIMAL[suffix or ""]
    # Past 10**40 every non-zero quantity is clamped anyway; a huge power would waste time.
    grown = digits * int(10 ** min(max(power, 0), 40))
    value = -(-grown // int(10 ** min(max(-power, 0), 200)))
    value = min(value, INT64_MAX)
    return -value if sign == "-" else value


def quantity(value: str | float) -> int:
    """Return a quantity in whole units (bytes, counts), rounded up; ObjectError if invalid."""
    if type(value) is int:
        return max(-INT64_MAX, min(value, INT64_MAX))
    return _scaled(str(value), 0)


def milli_quantity(value: str | float) -> int:
    """Return a quantity in thousandths (CPU), rounded up; ObjectError if invalid."""
    return _scaled(str(value), 3)


def resource_amount(name: str, value: str | float) -> int:
    """Return an amount of resource `name`: CPU in milli, everything else in whole units."""
    return milli_quantity(value) if name == "cpu" else quantity(value)


def resource_text(name: str, amount: int) -> str:
    """Return the shortest exact text of an amount that `resource_amount` returned."""
    if name == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    for suffix, bits in reversed(_BINARY.items()):
        if amount and amount % (1 << bits) == 0:
            return f"{amount >> bits}{suffix}"
    return str(amount)
