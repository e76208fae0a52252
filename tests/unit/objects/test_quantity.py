"""Quantities against a reference in decimal arithmetic."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.errors import ObjectError
from scheduler.objects.quantity import INT64_MAX, milli_quantity, quantity, resource_amount

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}

digits = st.text("0123456789", min_size=1, max_size=18)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, digits),
    st.builds(".{}".format, digits),
    st.builds("{}.".format, digits),
)
suffixes = st.one_of(
    st.sampled_from([*DECIMAL, *BINARY]), st.integers(-30, 30).map(lambda n: f"e{n}")
)
signs = st.sampled_from(["", "+", "-"])


def oracle(sign: str, number: str, suffix: str, digits: int) -> int:
    """Return number times 10**digits, rounded away from zero, clamped to int64."""
    with localcontext() as context:
        context.prec = 200
        value = Decimal("0" + number if number.startswith(".") else number.rstrip(".") or "0")
        if suffix in DECIMAL:
            value = value.scaleb(DECIMAL[suffix])
        elif suffix in BINARY:
            value *= 1024 ** BINARY[suffix]
        else:
            value = value.scaleb(int(suffix[1:]))
        value = value.scaleb(digits)
        rounding = ROUND_FLOOR if sign == "-" else ROUND_CEILING
        whole = int((-value if sign == "-" else value).to_integral_value(rounding))
    return max(-INT64_MAX, min(INT64_MAX, whole))


@given(signs, numbers, suffixes)
def test_quantities_follow_the_oracle(sign: str, number: str, suffix: str):
    """Whole units and thousandths, every suffix, rounded away from zero."""
    text = f"{sign}{number}{suffix}"

    assert oracle(sign, number, suffix, 0) == quantity(text)
    assert oracle(sign, number, suffix, 3) == milli_quantity(text)


@pytest.mark.parametrize(
    ("text", "whole", "milli"),
    [
        ("100m", 1, 100),
        ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
        ("0", 0, 0),
        ("1e3", 1000, 1_000_000),
        ("1E", 10**18, INT64_MAX),
        ("1E3", 1000, 1_000_000),
        ("9223372036854775807", INT64_MAX, INT64_MAX),
        ("16Ei", INT64_MAX, INT64_MAX),
        ("1n", 1, 1),
        (2, 2, 2000),
        (0.1, 1, 100),
        (1.5, 2, 1500),
    ],
)
def test_forms_that_people_write(text: str | float, whole: int, milli: int):
    """A quantity may be a text or a plain number of YAML."""
    assert (whole, milli) == (quantity(text), milli_quantity(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1.2.3",
        "m",
        "1mm",
        "1KI",
        "1ki",
        ".",
        "--1",
        "1e",
        "0x10",
        "1" * 65,
        "\u0665",
    ],
)
def test_what_is_no_quantity_is_refused(text: str):
    """The error has the text and valid examples."""
    with pytest.raises(ObjectError, match="is not a quantity"):
        quantity(text)


def test_cpu_counts_in_thousandths():
    """CPU counts in thousandths, all other resources in whole units."""
    assert 500 == resource_amount("cpu", "500m")
    assert 1 == resource_amount("memory", "500m")


def test_a_huge_exponent_costs_no_time():
    """Text of an attacker is clamped, not computed."""
    assert INT64_MAX == quantity("1e9999")
    assert 0 == quantity("0e9999")
    assert 1 == quantity("1e-9999")
