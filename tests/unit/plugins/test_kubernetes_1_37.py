"""What Kubernetes 1.37 changed in preemption and devices, each beside what 1.36 does."""

import pytest

from scheduler.base.release import V1_36, V1_37
from scheduler.engine.effects import SetStatus
from scheduler.objects.devices import CapacityPolicy, CapacityRange, DeviceCapacity
from scheduler.plugins.dynamicresources.allocation.capacity import CapacityError, taken_of
from scheduler.plugins.dynamicresources.allocation.rules import DeviceRules
from scheduler.testing import node
from tests.unit.plugins.devices import GROUP, Daemon, claim, claiming, gpu_class, local_slice
from tests.unit.simulate.asking import place, pod, results

NODES = [node("n1", allocatable={"cpu": "2"}), node("n2", allocatable={"cpu": "2"})]
BOTH = pytest.mark.parametrize("release", [V1_36, V1_37])


def rule(name="r", effect="NoSchedule", **selector):
    """Return a rule that taints the devices which a selector names."""
    spec = {"taint": {"key": "example.com/broken", "value": "yes", "effect": effect}}
    if "none" not in selector:
        spec["deviceSelector"] = selector
    meta = {"name": name, "uid": name}
    return {"apiVersion": GROUP, "kind": "DeviceTaintRule", "metadata": meta, "spec": spec}


def placed(*objects, release=V1_37, **ask):
    """Return where a pod with a claim goes; `ask` are more fields of its request."""
    exactly = {"deviceClassName": "gpu", "count": 1, **ask}
    made = claim("c", requests=[{"name": "r", "exactly": exactly}])
    devices = [gpu_class(), local_slice("n1", "g0"), local_slice("n2", "g0")]
    found = place(*NODES, *devices, made, claiming("p", "c"), *objects, release=release)
    return results(found)["p"]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule(pool="n1")], "n2"),
        ([rule(driver="gpu.example.com", pool="n1", device="g0")], "n2"),
        ([rule(driver="other.example.com", pool="n1")], "n1"),
        ([rule(pool="n1", effect="NoExecute")], "n2"),
        ([rule(pool="n1", effect="None")], "n1"),
        ([rule(pool="n1", effect="Later")], "n1"),
        ([rule(none=True)], "n1"),
        ([rule("a", pool="n1"), rule("b", pool="n2")], "Unschedulable"),
        ([rule()], "Unschedulable"),
    ],
)
def test_rules_taint_devices(rules, expected):
    """Every given field of the selector must match.

    No selector matches nothing, `{}` everything.
    """
    assert expected == placed(*rules)


def test_rules_do_not_count_before_1_37():
    """The gate is off there; a request may tolerate the taint of a rule."""
    tolerated = [{"key": "example.com/broken", "operator": "Exists"}]

    assert "n1" == placed(rule(pool="n1"), release=V1_36)
    assert "n1" == placed(rule(pool="n1"), tolerations=tolerated)


def test_a_rule_that_goes_or_changes_wakes_the_pod():
    """A rule that comes wakes nobody."""
    daemon = Daemon(NODES[:1], gpu_class(), local_slice("n1", "g0"), claim("c"), release=V1_37)
    daemon.see(rule(pool="n1"))
    daemon.see(claiming("p", "c"))
    daemon.run()
    daemon.see(rule("other", pool="n9"))
    assert not daemon.run()

    daemon.see(rule(pool="n1"), "DELETED")
    daemon.now += 30

    assert daemon.run()


@BOTH
def test_a_pod_without_claims_reads_no_word_on_claims(release):
    """1.37 states a reason of DynamicResources only where it frees a claim."""
    (found,) = place(*NODES, pod("p", requests={"cpu": "9"}), release=release).pods
    words = "" if release == V1_37 else "no new claims to deallocate, "

    assert found.message.startswith(
        f"0/2 nodes are available: 2 Insufficient cpu. {words}preemption: "
    )


@BOTH
def test_a_preemptor_reads_where_it_may_go(release):
    """The condition names the node and the number of victims, since 1.37."""
    daemon = Daemon(NODES[:1], release=release)
    low = pod("low", requests={"cpu": "2"}, spec={"priority": 1})
    low["spec"]["nodeName"] = "n1"
    daemon.see(low)
    daemon.see(pod("high", requests={"cpu": "2"}, spec={"priority": 9}))
    daemon.run()
    reported = [
        one.condition for one in daemon.effects if isinstance(one, SetStatus) and one.condition
    ]
    text = "0/1 nodes are available: 1 Insufficient cpu."
    if release == V1_37:
        text += " preemption: found a potential placement for pod on node n1, preempting 1 victims"

    assert text in [one.message for one in reported]


@pytest.mark.parametrize(("release", "expected"), [(V1_36, "n2"), (V1_37, "n1")])
def test_a_violated_budget_spares_the_budgets_behind_it(release, expected):
    """On n1 1.36 counts two violations, 1.37 one; n2 has one, and pods of higher priority."""

    def budget(name, allowed, label):
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {label: "y"}}},
            "status": {"disruptionsAllowed": allowed},
        }

    def victim(name, where, priority, **labels):
        made = pod(name, requests={"cpu": "1"}, spec={"priority": priority}, labels=labels)
        made["spec"]["nodeName"] = where
        return made

    found = place(
        *NODES,
        budget("a", 0, "a"),
        budget("b", 1, "b"),
        victim("v1", "n1", 2, a="y", b="y"),
        victim("v2", "n1", 1, b="y"),
        victim("v3", "n2", 3, a="y"),
        victim("v4", "n2", 3),
        pod("p", requests={"cpu": "2"}, spec={"priority": 9}),
        release=release,
    )

    assert expected == next(one.node for one in found.pods if one.name == "p")


@BOTH
def test_more_devices_than_a_claim_may_have(release):
    """1.37 names the request and what is accounted for before it."""
    asks = [
        {"name": name, "exactly": {"deviceClassName": "gpu", "count": count}}
        for name, count in (("first", 30), ("second", 3))
    ]
    objects = [gpu_class(), local_slice("n1", "g0"), claim("c", requests=asks)]
    (found,) = place(NODES[0], *objects, claiming("p", "c"), release=release).pods
    text = "claim default/c: number of requested devices 33 exceeds the claim limit of 32"
    if release == V1_37:
        text = (
            "claim default/c, request second: adding 3 devices exceeds the claim limit of 32, "
            "with 30 already accounted for"
        )

    assert text in found.message


@BOTH
def test_a_selector_that_fails_on_a_device(release):
    """1.37 names the device, and what to write where a key is missing."""
    objects = [gpu_class(), local_slice("n1", "g0")]
    wanting = claim("c", selector='device.attributes["x.example.com"].model == "a"')
    (found,) = place(NODES[0], *objects, wanting, claiming("p", "c"), release=release).pods
    text = "claim default/c: selector #0: CEL runtime error: no such key: model"
    if release == V1_37:
        text = (
            "claim default/c: selector #0 on device gpu.example.com/n1/g0: CEL runtime error: "
            "no such key: model. consider using CEL optional chaining (.? followed by orValue()) "
            "or guarding the check with has() for optional fields"
        )

    assert text in found.message


def capacity(value="10", default=None, **limits):
    """Return the capacity `c` of a device, with a range."""
    policy = CapacityPolicy(default=default, valid_range=CapacityRange(**limits))
    return {"c": DeviceCapacity(value=value, request_policy=policy)}


NEW = DeviceRules(is_1_37=True, fractions=True)


@pytest.mark.parametrize(
    ("asked", "limits", "taken"),
    [
        ("1100m", {"min": "500m", "step": "250m"}, "1250m"),
        ("100m", {"min": "500m", "step": "250m"}, "500m"),
        ("1", {"min": "500m", "step": "250m"}, "1"),
        ("3", {"min": "1", "step": "2"}, "3"),
        ("1100m", {"min": "1", "step": "2"}, "3"),
        ("700m", {"min": "500m"}, "700m"),
        ("3", {"min": "500m", "step": "500m", "max": "2500m"}, None),
        ("3Gi", {"min": "1Gi", "step": "2Gi"}, "3Gi"),
        ("3Gi", {"min": "1Gi", "step": "2147483648"}, "3221225472"),
        # A step below 1m: whole units.
        ("1100m", {"min": "1", "step": "1u"}, "2"),
    ],
)
def test_ranges_with_fractions(asked, limits, taken):
    """Steps of 1m or more are counted in milli units; the result has the form of the step."""
    offered = capacity("10Gi", **limits)
    found = taken_of({"c": asked}, offered, NEW)

    assert taken == (None if found is None else str(found["c"]))


def test_ranges_without_the_gate_are_whole():
    """1.37 with the gate off rounds up to whole units."""
    offered = capacity(min="500m", step="250m")
    found = taken_of({"c": "1100m"}, offered, DeviceRules(is_1_37=True))

    assert found is not None
    assert "2" == str(found["c"])


@pytest.mark.parametrize(
    ("asked", "limits", "text"),
    [
        (
            "1100u",
            {"min": "1m", "step": "1m"},
            "capacity request cannot be represented in the device's range arithmetic",
        ),
        (
            "20E",
            {"min": "1", "step": "1"},
            "capacity request cannot be represented in the device's range arithmetic",
        ),
        ("-1", {}, "capacity value is negative"),
    ],
)
def test_an_amount_that_ends_the_attempt(asked, limits, text):
    """1.36 passes the device over."""
    with pytest.raises(CapacityError, match=f'^capacity "c": {text}'):
        taken_of({"c": asked}, capacity(**limits), NEW)
    taken_of({"c": asked}, capacity(**limits), DeviceRules())
