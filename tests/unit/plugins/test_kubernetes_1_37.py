"""Changes of Kubernetes 1.37 in preemption and devices, each beside the behaviour of 1.36."""

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
    """Return the node of a pod with a claim; `ask` has further fields of its request."""
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
    """On 1.36, where the feature gate is off, rules add no taints. A request may tolerate the taint
    of a rule.
    """
    tolerated = [{"key": "example.com/broken", "operator": "Exists"}]

    assert "n1" == placed(rule(pool="n1"), release=V1_36)
    assert "n1" == placed(rule(pool="n1"), tolerations=tolerated)


def test_a_rule_that_goes_or_changes_wakes_the_pod():
    """A deleted or changed rule wakes the pod; a new rule does not."""
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
    """1.37 adds a DynamicResources reason to the message only if the preemption frees a claim."""
    (found,) = place(*NODES, pod("p", requests={"cpu": "9"}), release=release).pods
    words = "" if release == V1_37 else "no new claims to deallocate, "

    assert found.message.startswith(
        f"0/2 nodes are available: 2 Insufficient cpu. {words}preemption: "
    )


@BOTH
def test_a_pod_whose_claims_cannot_be_freed_reads_no_word_on_them(release):
    """The message of the pod is that of a pod without claims."""
    objects = [gpu_class(), local_slice("n1", "g0"), claim("c", count=2), claiming("p", "c")]
    (found,) = place(NODES[0], *objects, release=release).pods
    words = "" if release == V1_37 else "still not schedulable, "

    assert found.message.startswith(
        f"0/1 nodes are available: 1 cannot allocate all claims. {words}preemption: "
    )


@BOTH
def test_a_preemptor_reads_where_it_may_go(release):
    """Since 1.37, the condition of a preemptor names the node and the number of victims."""
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
    """On n1, 1.36 counts two violated budgets and 1.37 one. n2 has one violation and victims of
    higher priority.
    """

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
    """1.37 names the request and the number of accounted devices before it."""
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
    """1.37 names the device, and the expression to use for a missing key."""
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


def test_a_list_of_alternatives_goes_on_where_one_exceeds_the_limit():
    """If the first alternative exceeds the limit of 32 devices, the claim gets the second
    alternative.
    """
    ask = {"deviceClassName": "gpu"}
    asks = [
        {"name": "first", "exactly": {**ask, "count": 30}},
        {
            "name": "second",
            "firstAvailable": [
                {"name": "three", "count": 3, **ask},
                {"name": "one", "count": 1, **ask},
            ],
        },
    ]
    devices = local_slice("n1", *(f"g{number}" for number in range(40)))
    objects = [gpu_class(), devices, claim("c", requests=asks), claiming("p", "c")]
    (found,) = place(NODES[0], *objects, release=V1_37).pods

    assert "n1" == found.node
    chosen = [one.request for one in found.claims[0].allocation.devices.results]
    assert ["first"] * 30 + ["second/one"] == chosen


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (V1_36, [("FromClass", ["r", "s"]), ("FromClaim", ["r", "s"]), ("FromClaim", ["r", "s"])]),
        (V1_37, [("FromClass", []), ("FromClaim", [])]),
    ],
)
def test_parameters_of_an_allocation_are_listed_once(release, expected):
    """1.37 lists the claim's once, and names no requests where it means all of them."""
    opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {}}}
    asks = [
        {"name": name, "exactly": {"deviceClassName": "gpu", "count": 1}} for name in ("r", "s")
    ]
    made = claim("c", requests=asks)
    made["spec"]["devices"]["config"] = [{"requests": ["r", "s"], **opaque}]
    objects = [gpu_class(config=[opaque]), local_slice("n1", "g0", "g1"), made, claiming("p", "c")]
    (found,) = place(*NODES, *objects, release=release).pods
    config = found.claims[0].allocation.devices.config

    assert expected == [(one.source, list(one.requests)) for one in config]


TAGS = 'device.attributes["gpu.example.com"].tags'


def tagged(name="g0", **attribute):
    """Return a device whose attribute `tags` has this value."""
    return {"name": name, "attributes": {"tags": attribute}}


def selecting(selector, *devices, release=V1_37, **fields):
    """Return the node or the reason of a pod whose claim has a selector; n1 has devices."""
    ask = {"deviceClassName": "gpu", "count": 1, "selectors": [{"cel": {"expression": selector}}]}
    made = claim("c", requests=[{"name": "r", "exactly": ask}])
    made["spec"]["devices"] |= fields
    objects = [gpu_class(), local_slice("n1", *devices), made, claiming("p", "c")]
    (found,) = place(*NODES, *objects, release=release).pods
    return found.node or found.message


@pytest.mark.parametrize(
    ("selector", "fitting", "other"),
    [
        (f'{TAGS}.includes("b")', {"strings": ["a", "b"]}, {"strings": ["a", "c"]}),
        (f'{TAGS}.includes("b")', {"string": "b"}, {"string": "ab"}),
        (f"{TAGS}.includes(3)", {"ints": [1, 3]}, {"strings": ["1", "3"]}),
        (f"{TAGS}.includes(semver('1.2.0'))", {"versions": ["1.2.0"]}, {"version": "1.3.0"}),
        (f'"b" in {TAGS}', {"strings": ["a", "b"]}, {"strings": ["c"]}),
        (f"{TAGS}.exists(x, x > 2)", {"ints": [1, 3]}, {"ints": [1, 2]}),
        (f"{TAGS}.all(x, x)", {"bools": [True, True]}, {"bools": [True, False]}),
        (f"size({TAGS}) == 2", {"strings": ["a", "b"]}, {"strings": ["a"]}),
        (f"{TAGS}[0]", {"bools": [True]}, {"bools": [False, True]}),
    ],
)
def test_selectors_read_lists(selector, fitting, other):
    """1.37 evaluates attributes that are lists, `includes` and macros with every setting of the
    gate DRAListTypeAttributes, which decides what the API server stores.
    """
    assert "n1" == selecting(selector, tagged(**fitting))
    assert "n1" == selecting(selector, tagged(**other), tagged("g1", **fitting))
    assert "n1" != selecting(selector, tagged(**other))


def test_selectors_do_not_read_lists_on_1_36():
    """On 1.36, a device with a list attribute ends the attempt, and the function `includes` is
    unknown, also for single values.
    """
    text = "attribute tags: unsupported attribute value"
    assert text in selecting("true", tagged(strings=["a"]), release=V1_36)
    text = "undeclared reference to 'includes'"
    assert text in selecting(f"{TAGS}.includes(1)", tagged(int=1), release=V1_36)


@BOTH
@pytest.mark.parametrize("kind", ["matchAttribute", "distinctAttribute"])
def test_a_constraint_takes_one_device_with_a_list(kind, release):
    """Lists are neither equal nor distinct, as long as the gate DRAListTypeAttributes is off."""
    asks = [
        {"name": name, "exactly": {"deviceClassName": "gpu", "count": 1}} for name in ("r", "s")
    ]
    devices = [tagged("g0", strings=["a"]), tagged("g1", strings=["b"])]
    classes = {**gpu_class(), "spec": {}}

    def where(*requests):
        made = claim("c", requests=list(requests))
        made["spec"]["devices"]["constraints"] = [{kind: "gpu.example.com/tags"}]
        objects = [classes, local_slice("n1", *devices), made, claiming("p", "c")]
        return results(place(*NODES, *objects, release=release))["p"]

    assert "n1" == where(asks[0])
    assert "Unschedulable" == where(*asks)


@BOTH
def test_a_pool_with_compatibility_groups_is_skipped(release):
    """While the gate DRADeviceCompatibilityGroups is off, no device of a pool with such groups is
    allocated.
    """

    def where(**used):
        counted = {"name": "g0", "consumesCounters": [{"counterSet": "s", **used}]}
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 3}
        shared = [{"name": "s", "counters": {"c": {"value": "1"}}}]
        slices = [
            local_slice("n1", name="a", pool=pool, sharedCounters=shared),
            local_slice("n1", counted, name="b", pool=pool),
            local_slice("n1", "g1", name="c", pool=pool),
        ]
        return results(
            place(*NODES, gpu_class(), *slices, claim("c"), claiming("p", "c"), release=release)
        )["p"]

    counters = {"c": {"value": "1"}}
    assert "n1" == where(counters=counters)
    assert "Unschedulable" == where(counters=counters, compatibilityGroups=["x"])


@BOTH
@pytest.mark.parametrize("is_list", [False, True])
def test_a_request_with_derived_attributes_is_an_error(is_list, release):
    """While the gate DRADerivedAttributes is off, such a request ends the attempt with the message
    of 1.37.
    """
    derived = [{"name": "example.com/x", "expression": "device.driver"}]
    ask = {"deviceClassName": "gpu", "count": 1, "derivedAttributes": derived}
    asked = {"firstAvailable": [ask | {"name": "one"}]} if is_list else {"exactly": ask}
    request = {"name": "r", **asked}
    objects = [gpu_class(), local_slice("n1", "g0"), claim("c", requests=[request])]
    (found,) = place(*NODES, *objects, claiming("p", "c"), release=release).pods

    assert "Error" == found.result
    assert (
        f"claim default/c, request {'one' if is_list else 'r'}: cannot handle request with derived "
        "attributes, the feature is disabled"
    ) in found.message


@pytest.mark.parametrize(
    "spec",
    [
        {"evictionResponders": [{"name": "example.com/x", "priority": 1}]},
        {"volumes": [{"name": "v", "emptyDir": {"mode": 448}}]},
        {"containers": [{"name": "c", "volumeMounts": [{"bindMountOptions": ["noexec"]}]}]},
    ],
)
def test_alpha_fields_of_pods_are_read_past(spec):
    """A manifest with alpha fields is placed like one without them."""
    assert "n1" == results(place(NODES[0], pod("p", spec=spec), release=V1_37))["p"]


@pytest.mark.parametrize(
    "more",
    [
        {"partitionTypeAttribute": "example.com/type"},
        {"skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"]},
        {"devices": [{"name": "g0", "nodeAllocatableResources": {"cpu": {"mapping": {}}}}]},
    ],
)
def test_alpha_fields_of_slices_are_read_past(more):
    """The devices of a slice with alpha fields are allocated."""
    objects = [gpu_class(), local_slice("n1", "g0", **more), claim("c"), claiming("p", "c")]

    assert "n1" == results(place(*NODES, *objects, release=V1_37))["p"]


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
    """On 1.37, an invalid amount ends the attempt; 1.36 skips the device."""
    with pytest.raises(CapacityError, match=f'^capacity "c": {text}'):
        taken_of({"c": asked}, capacity(**limits), NEW)
    taken_of({"c": asked}, capacity(**limits), DeviceRules())
