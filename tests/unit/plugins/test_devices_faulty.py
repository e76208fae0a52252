"""Incomplete pools and requests for all devices: the effect of one node's fault on others."""

import pytest

from scheduler.plugins.dynamicresources.allocation.selectors import Selector
from scheduler.testing import node
from tests.property.test_group_devices import simulated
from tests.unit.plugins.devices import DRIVER, allocated, claim, claiming, gpu_class, local_slice

OTHER = "other.example.com"
UPDATING = "resource pools are currently being updated"
ALL = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
COUNTERS = [{"name": "c", "counters": {"slots": {"value": "2"}}}]
HALF = [{"counterSet": "c", "counters": {"slots": {"value": "1"}}}]


def decided(*objects, asks=ALL, nodes=("n1", "n2"), constraints=()):
    """Return the message of `simulate` for a pod with one claim."""
    nodes = [node(name, allocatable={"cpu": "4"}) for name in nodes]
    own = claim("c", requests=[asks])
    own["spec"]["devices"]["constraints"] = list(constraints)
    (found,) = simulated([*nodes, *objects, gpu_class(), own], [claiming("p", "c")])["pods"]
    return found


def partial(name, *devices, driver=DRIVER, parts=2, **spec):
    """Return a slice of a node's pool that lacks others."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": parts}
    return local_slice(name, *devices, name=f"partial-{name}", driver=driver, pool=pool, **spec)


def counters(name, driver=DRIVER, parts=2):
    """Return a slice with the counters of a node's pool."""
    found = partial(name, driver=driver, parts=parts, sharedCounters=COUNTERS)
    found["metadata"]["name"] = f"counters-{name}"
    del found["spec"]["devices"]
    return found


@pytest.mark.parametrize("fault", [partial("n1", "a"), partial("n1", "a", "a", parts=1)])
def test_a_pool_that_cannot_be_used_is_its_nodes_matter(fault):
    """With an incomplete or invalid pool, the other node is used."""
    assert "n2" == decided(fault, local_slice("n2", "a"))["node"]


def test_a_node_with_unknown_devices_is_reported():
    """The pod waits for the driver; that is no error."""
    found = decided(partial("n1", "a"), nodes=["n1"])

    assert ("Unschedulable", True) == (found["result"], UPDATING in found["message"])


def test_a_pool_whose_driver_the_selectors_exclude_does_not_matter():
    """A driver that restarts stops no claim for devices of another one."""
    objects = local_slice("n1", "a"), partial("n1", "x", driver=OTHER)
    objects[1]["metadata"]["name"] = "other"

    assert "n1" == decided(*objects, nodes=["n1"])["node"]


def test_counters_of_a_node_do_not_spoil_others():
    """Counters are visible to all nodes; an incomplete pool affects only its own nodes."""
    assert "n2" == decided(counters("n1", parts=3), local_slice("n2", "a"))["node"]


def test_the_next_alternative_is_taken():
    """All devices of a pool under update cannot be allocated; one of another pool can."""
    asks = {
        "name": "r",
        "firstAvailable": [
            {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
            {"name": "one", "deviceClassName": "gpu", "count": 1},
        ],
    }
    whole = local_slice(
        "n1", "b", name="whole", pool={"name": "w", "generation": 1, "resourceSliceCount": 1}
    )
    found = decided(partial("n1", "a"), whole, asks=asks, nodes=["n1"])

    (result,) = found["claims"][0]["allocation"]["devices"]["results"]
    assert ("r/one", "b") == (result["request"], result["device"])


def test_all_devices_are_all_devices():
    """A device that is used up or in use is one of them."""
    device = {"capacity": {"bw": {"value": "1"}}, "allowMultipleAllocations": True}
    shared = local_slice("n1", {"name": "d1", **device}, {"name": "d2", **device})
    used = allocated("d1")
    (result,) = used["allocation"]["devices"]["results"]
    result |= {"shareID": "11111111-1111-1111-1111-111111111111", "consumedCapacity": {"bw": "1"}}

    assert "n1" == decided(shared, nodes=["n1"])["node"]
    assert "Unschedulable" == decided(shared, claim("u", status=used), nodes=["n1"])["result"]


def test_a_device_that_is_used_up_violates_no_constraint():
    """The next alternative is tried: the claim is not at fault where its device has no capacity."""
    device = {"capacity": {"bw": {"value": "1"}}, "allowMultipleAllocations": True}
    shared = local_slice("n1", {"name": "d1", **device})
    used = allocated("d1")
    (result,) = used["allocation"]["devices"]["results"]
    result |= {"shareID": "11111111-1111-1111-1111-111111111111", "consumedCapacity": {"bw": "1"}}
    every = {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"}
    asks = {"name": "r", "firstAvailable": [every, {"name": "two", "deviceClassName": "gpu"}]}
    rules = [{"matchAttribute": f"{DRIVER}/absent"}]

    found = decided(shared, claim("u", status=used), asks=asks, nodes=["n1"], constraints=rules)
    assert ("Unschedulable", True) == (
        found["result"],
        "cannot allocate all claims" in found["message"],
    )


def test_admin_access_takes_no_counters():
    """The purpose of admin access is to inspect devices in use."""
    half = [{"counterSet": "c", "counters": {"slots": {"value": "2"}}}]
    devices = partial("n1", {"name": "a", "consumesCounters": half})
    objects = devices, counters("n1"), claim("u", status=allocated("a"))
    one = {"deviceClassName": "gpu", "count": 1}
    user, admin = (
        decided(*objects, asks={"name": "r", "exactly": {**one, **more}}, nodes=["n1"])
        for more in ({}, {"adminAccess": True})
    )

    assert ("Unschedulable", "n1") == (user["result"], admin["node"])


@pytest.mark.parametrize(("in_use", "fits"), [("b", True), ("gone", False)])
def test_counters_hold_for_devices_that_are_published_no_more(in_use, fits):
    """The use of such a device is unknown, so no counters of its pool are allocated."""
    devices = [{"name": name, "consumesCounters": HALF} for name in ("a", "b")]
    objects = partial("n1", *devices), counters("n1"), claim("u", status=allocated(in_use))
    asks = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}

    assert fits == (decided(*objects, asks=asks, nodes=["n1"])["node"] == "n1")


@pytest.mark.parametrize(
    ("text", "excludes"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.driver == "other.example.com"', False),
        ('device.attributes["x"].y == 1 && device.driver == "gpu.example.com"', True),
        ('device.attributes["x"].y == 1', False),
        ('has(device.attributes.x) || device.driver != "other.example.com"', False),
        ("!device.allowMultipleAllocations", False),
        ('device.attributes[?"x"].hasValue()', False),
        ("device.attributes.exists(x, false)", False),
    ],
)
def test_a_driver_is_excluded_only_where_nothing_else_matters(text, excludes):
    """A selector that reads an attribute may match a device that is not published yet."""
    assert excludes == Selector(text).excludes(OTHER)
