"""Rules for known differences explain the named difference and no other."""

from typing import Any

import pytest

from tests.differential.case import Decision, Outcome
from tests.differential.known import explained

POD = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "admin"}]},
    "status": {},
}


def result(device: str) -> dict[str, Any]:
    return {"driver": "d.example.com", "pool": "n1", "device": device, "adminAccess": True}


def claim(name: str, *devices: str) -> dict[str, Any]:
    requests = [{"name": "r", "exactly": {"deviceClassName": "x", "adminAccess": True}}]
    allocation = {"devices": {"results": [result(device) for device in devices]}}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": requests}},
        "status": {"allocation": allocation} if devices else {},
    }


def pool(**device: Any) -> dict[str, Any]:
    devices = [{"name": "plain"}, {"name": "special", **device}]
    spec = {"driver": "d.example.com", "pool": {"name": "n1"}, "devices": devices}
    return {"kind": "ResourceSlice", "spec": spec}


def decided(ours: str, *others: dict[str, Any]) -> Decision:
    """Return a decision where the peer selects `plain` and this side `ours`."""
    return Decision(
        "1/0/0",
        "c.json",
        [claim("admin"), *others],
        POD,
        Outcome("Scheduled", claims=[{"results": [result("plain")]}]),
        Outcome("Scheduled", claims=[{"results": [result(ours)]}]),
        {"claims": [[], []]},
    )


@pytest.mark.parametrize(
    ("ours", "others", "is_known"),
    [
        ("special", [pool(consumesCounters=[{"counterSet": "s", "counters": {}}])], True),
        ("special", [pool(allowMultipleAllocations=True)], True),
        ("special", [pool(), claim("other", "special")], True),
        ("special", [pool()], False),
        ("plain", [pool(allowMultipleAllocations=True)], False),
        ("plain", [pool(), claim("other", "special")], False),
    ],
)
def test_admin_access_is_known_where_the_device_is_shared(
    ours: str, others: list[dict[str, Any]], is_known: bool
):
    """A selected device consumes counters, may be shared, or has another claim's admin access."""
    assert is_known == bool(explained(decided(ours, *others)))


@pytest.mark.parametrize(
    ("release", "path", "values", "is_known"),
    [
        ("1.37", "scores/n1/VolumeBinding", [0, None], True),
        ("1.37", "scores/n1/VolumeBinding", [10, None], False),
        ("1.37", "scores/n1/NodeAffinity", [0, None], False),
        ("1.36", "scores/n1/VolumeBinding", [0, None], False),
    ],
)
def test_a_score_of_0_is_known_for_volumes_since_1_37(
    release: str, path: str, values: list[Any], is_known: bool
):
    """kube-scheduler 1.37 scores 0 where a pod has no claims to score; ours has no score."""
    one = Decision("1/0/0", "c.json", [], POD, Outcome("Scheduled"), Outcome("Scheduled"))
    one.differences, one.kubernetes = {path: values}, release

    assert is_known == bool(explained(one))


def preempting(victims: int, nominated: str = "n1") -> Outcome:
    """Return an outcome whose message states the number of victims."""
    noun = "victim" if victims == 1 else "victims"
    message = (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement "
        f"for pod on node n1, preempting {victims} {noun}"
    )
    return Outcome("Unschedulable", message=message, nominated=nominated)


def bound(name: str, node: str, priority: int = 0, start: str = "2026-01-01T00:00:00Z") -> Any:
    spec = {"nodeName": node, "priority": priority}
    meta = {"name": name, "namespace": "default"}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": {"startTime": start}}


EQUALS = [bound("a", "n1"), bound("b", "n1"), bound("c", "n2")]


@pytest.mark.parametrize(
    ("objects", "peer", "ours", "is_known"),
    [
        (EQUALS, preempting(1), preempting(2), True),
        # Equal pods on another node do not explain victims on the nominated one.
        ([*EQUALS[:1], *EQUALS[2:], bound("d", "n2")], preempting(1), preempting(2), False),
        (
            [EQUALS[0], bound("b", "n1", start="2026-01-02T00:00:00Z")],
            preempting(1),
            preempting(2),
            False,
        ),
        # Pods of the preemptor's priority are no victims.
        ([bound(one, "n1", priority=5) for one in "ab"], preempting(1), preempting(2), False),
        (EQUALS, preempting(1, nominated=""), preempting(2), False),
        (EQUALS, preempting(1), Outcome("Unschedulable", message="another text"), False),
    ],
)
def test_the_number_of_victims_is_known_where_lower_pods_are_equally_important(
    objects: list[dict[str, Any]], peer: Outcome, ours: Outcome, is_known: bool
):
    """Messages that differ in the number of victims alone are known, if equally important pods of
    lower priority run on the nominated node.
    """
    pod = {**POD, "spec": {"priority": 5}}
    one = Decision("1/0/0", "c.json", objects, pod, peer, ours)
    one.differences = {"message": [peer.message, ours.message]}

    assert is_known == bool(explained(one))


def slice_of(device: str, driver: str = "d.example.com", **more: Any) -> dict[str, Any]:
    """Return a slice of the pool n1 with one device."""
    spec = {"driver": driver, "pool": {"name": "n1"}, "devices": [{"name": device, **more}]}
    return {"kind": "ResourceSlice", "spec": spec}


def asking(request: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the claim of `POD` with one request."""
    one = claim("admin")
    one["spec"]["devices"] = {"requests": [{"name": "r", **request}], **more}
    return one


ALL: dict[str, Any] = {"firstAvailable": [{"name": "s", "allocationMode": "All"}]}
ONE: dict[str, Any] = {"exactly": {"allocationMode": "ExactCount", "count": 1}}
DISTINCT = [{"distinctAttribute": "d.example.com/root"}]
COUNTERS: dict[str, Any] = {"consumesCounters": [{"counterSet": "s", "counters": {}}]}


def share(device: str) -> dict[str, Any]:
    """Return a claim that has a share of a device."""
    one = claim("other", device)
    (found,) = one["status"]["allocation"]["devices"]["results"]
    del found["adminAccess"]
    found["shareID"] = "11111111-1111-1111-1111-111111111111"
    return one


@pytest.mark.parametrize(
    ("objects", "is_known"),
    [
        ([asking(ONE, constraints=DISTINCT)], True),
        (
            [asking(ONE), slice_of("a", **COUNTERS), slice_of("a", "e.example.com", **COUNTERS)],
            True,
        ),
        ([asking(ALL), slice_of("a", allowMultipleAllocations=True), share("a")], True),
        # A request for one device, a device that cannot be shared, and one without shares.
        ([asking(ONE), slice_of("a", allowMultipleAllocations=True), share("a")], False),
        ([asking(ALL), slice_of("a"), share("a")], False),
        ([asking(ALL), slice_of("a", allowMultipleAllocations=True), share("b")], False),
    ],
)
def test_faults_that_1_37_does_not_have_explain_nothing_there(
    objects: list[dict[str, Any]], is_known: bool
):
    """Distinct attributes, counters of two drivers and used-up devices are known differences only
    up to 1.36.
    """
    for release in ("", "1.36", "1.37", "1.38"):
        one = Decision("1/0/0", "c.json", objects, POD, Outcome("Error"), Outcome("Unschedulable"))
        one.differences = {"result": ["Error", "Unschedulable"]}
        one.kubernetes = release

        assert (is_known and release in ("", "1.36")) == bool(explained(one)), release


@pytest.mark.parametrize("release", ["1.36", "1.37"])
def test_namespaces_that_a_selector_excludes_are_known_on_1_36(release: str):
    """kube-scheduler 1.37 resolves a selector that matches no labels like any other."""
    selector = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    term = {"topologyKey": "zone", "namespaceSelector": selector}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = {**POD, "spec": {"affinity": affinity}}
    one = Decision("1/0/0", "c.json", [], pod, Outcome("Scheduled"), Outcome("Unschedulable"))
    one.differences, one.kubernetes = {"result": ["Scheduled", "Unschedulable"]}, release

    assert (release == "1.36") == bool(explained(one))
