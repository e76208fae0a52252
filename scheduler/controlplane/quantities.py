"""Resource quantities as text: their value and kube-apiserver's canonical spelling.

Used by defaulting (sums of requests) and by the sandbox's decoding, which writes every quantity in
canonical form (`0.5` becomes `500m`, `1024Mi` becomes `1Gi`). Shares no code with the scheduler's
own quantities, so that tests of the sandbox compare two implementations.
"""

import re
from decimal import ROUND_UP, Decimal
from functools import lru_cache
from typing import Any, Final

_FORM: Final = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(.*)")
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_OF: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_EXPONENT: Final = re.compile(r"[eE]([+-]?\d+)")
_NANO: Final = Decimal("1e-9")


@lru_cache(maxsize=8192)
def value(text: Any) -> Decimal:
    """Return the exact value, rounded up to nano units; `ValueError` if it is no quantity."""
    return _parse(str(text))[0]


@lru_cache(maxsize=8192)
def canonical(text: Any) -> str:
    """Return the canonical spelling; `ValueError` if it is no quantity."""
    amount, form = _parse(str(text))
    if form == "binary" and not -1024 < amount < 1024 and amount == amount.to_integral_value():
        return _binary(int(amount))
    return _decimal(amount, exponent=form == "exponent")


def _parse(text: str) -> tuple[Decimal, str]:
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise ValueError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, digits, suffix = found.groups()
    number = Decimal(sign + digits)
    if suffix in _BINARY:
        return _rounded(number * 1024 ** _BINARY[suffix]), "binary"
    if suffix in _DECIMAL:
        return _rounded(number.scaleb(_DECIMAL[suffix])), "decimal"
    if power := _EXPONENT.fullmatch(suffix):
        return _rounded(number.scaleb(int(power.group(1)))), "exponent"
    raise ValueError("unable to parse quantity's suffix")


def _rounded(number: Decimal) -> Decimal:
    if number == number.to_integral_value():
        return number
    return number.quantize(_NANO, rounding=ROUND_UP)


def _binary(amount: int) -> str:
    power = 0
    while amount and amount % 1024 == 0 and power < 6:
        amount //= 1024
        power += 1
    suffix = {number: name for name, number in _BINARY.items()}.get(power, "")
    return f"{amount}{suffix}"


def _decimal(amount: Decimal, *, exponent: bool) -> str:
    if not amount:
        return "0"
    power = -9
    mantissa = int(amount.scaleb(9))
    while mantissa % 1000 == 0 and power < 18:
        mantissa //= 1000
        power += 3
    if not exponent:
        return f"{mantissa}{_DECIMAL_OF[power]}"
    return f"{mantissa}e{power}" if power else str(mantissa)
