"""Small rules of device allocation: amounts as they are written, shares as they are rounded,
protobuf.
"""

import pytest

from scheduler.objects.devices import CapacityPolicy, CapacityRange, DeviceCapacity
from scheduler.plugins.dynamicresources.allocation.amounts import amount
from scheduler.plugins.dynamicresources.allocation.capacity import taken_of
from scheduler.plugins.dynamicresources.allocation.selectors import attributes_named
from scheduler.plugins.dynamicresources.writing import with_finalizer


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("1", "1"),
        ("1000", "1k"),
        ("1024Mi", "1Gi"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("2500Mi", "2500Mi"),
        ("512", "512"),
        ("1Ki", "1Ki"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("0", "0"),
        ("10", "10"),
    ],
)
def test_amounts_are_written_in_their_canonical_form(written, shown):
    """The form is that of the API server."""
    assert shown == str(amount(written))


@pytest.mark.parametrize(
    ("asked", "policy", "taken"),
    [
        ({}, None, "10Gi"),
        ({"memory": "3Gi"}, None, "3Gi"),
        ({"memory": "11Gi"}, None, None),
        ({"other": "1"}, None, None),
        ({}, CapacityPolicy(default="1Gi", valid_range=CapacityRange("1Gi", None, "2Gi")), "1Gi"),
        (
            {"memory": "2Gi"},
            CapacityPolicy(default="1Gi", valid_range=CapacityRange("1Gi", None, "2Gi")),
            "3Gi",
        ),
        (
            {"memory": "6Gi"},
            CapacityPolicy(default="1Gi", valid_range=CapacityRange("1Gi", "5Gi", "2Gi")),
            None,
        ),
        ({"memory": "3Gi"}, CapacityPolicy(default="2Gi", valid_values=("2Gi", "4Gi")), "4Gi"),
        ({"memory": "5Gi"}, CapacityPolicy(default="2Gi", valid_values=("2Gi", "4Gi")), None),
    ],
)
def test_shares_are_rounded_by_the_devices_policy(asked, policy, taken):
    """Shares are rounded up to a valid amount; more than the maximum or the capacity cannot
    be had.
    """
    found = taken_of(asked, {"memory": DeviceCapacity("10Gi", policy)})
    assert taken == (None if found is None else str(found["memory"]))


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ('device.driver == "a"', set()),
        ('device.attributes["d"].model == "x"', {"model"}),
        (
            'device.attributes["d"]["model"] == "x" && device.attributes.d.?index.orValue(0) > 0',
            {"model", "index"},
        ),
        ('"m" in device.attributes["d"]', {"m"}),
        ('device.attributes["d"].exists(k, v, k == "m")', None),
        ('device.attributes["d"][device.driver] == "x"', None),
        ("device.attributes.all(d, true)", None),
        ('device.attributes["d"]["m\\x6f"] == "x"', None),
        ('size(device.attributes["d"]) > 1', None),
    ],
)
def test_what_an_expression_can_see_is_known_or_everything(expression, named):
    """Devices that differ only in attributes which no expression names are taken as equal.

    Each name is therefore found, or the result is None for all attributes.
    """
    assert (None if named is None else frozenset(named)) == attributes_named(expression)


def test_a_finalizer_is_added_and_nothing_else_is_touched():
    """The length may need more than a byte; input that is no object is refused."""
    spec = b"\x12" + b"\xc8\x01" + b"x" * 200
    body = b"\x0a\x06\x0a\x04name" + spec
    whole = b"k8s\x00\x0a\x04type\x12" + bytes([len(body) & 127 | 128, len(body) >> 7]) + body
    protected = with_finalizer(whole, "keep")

    assert spec in protected
    assert b"\x0a\x0c\x0a\x04name\x72\x04keep" in protected
    assert len(whole) + 6 == len(protected)
    for bad in (b"", b"k8s\x00", b"k8s\x00\x12\x7f", b"k8s\x00\x0a\x04type", b"{}"):
        with pytest.raises(ValueError, match=r"object|ends"):
            with_finalizer(bad, "keep")
