"""Quantities: one spelling for each amount."""

from decimal import Decimal

import pytest

from scheduler.controlplane.quantities import canonical, value


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0.5", "500m"),
        (0.5, "500m"),
        (2, "2"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Mi", "1Gi"),
        ("1000Mi", "1000Mi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1e3", "1e3"),
        ("129e6", "129e6"),
        ("1E", "1E"),
        ("1000k", "1M"),
        ("0", "0"),
        ("100Ki", "100Ki"),
        (".5", "500m"),
        ("250u", "250u"),
        ("0.1m", "100u"),
        ("12Ei", "12Ei"),
        ("-1", "-1"),
        ("+5", "5"),
        ("0.0000000001", "1n"),
    ],
)
def test_canonical_spelling(written: object, expected: str):
    """The form is that of kube-apiserver."""
    assert expected == canonical(written)


@pytest.mark.parametrize("written", ["", "x", "1x", "1.2.3", "1 Gi", "Gi", "1e", "--1"])
def test_malformed_amounts(written: str):
    """The error is a ValueError."""
    with pytest.raises(ValueError, match="quantit"):
        canonical(written)


def test_values_compare_across_suffixes():
    """Amounts are compared exactly."""
    assert value("1Gi") == 1024**3
    assert value("100m") == Decimal("0.1")
    assert value("1M") < value("1Mi")
