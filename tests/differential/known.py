"""Known differences: each rule with its reason, which docs/compatibility.md also states.

A difference that no rule explains is a fault of ours.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scheduler.base.release import V1_36, V1_37, Release, read_release
from tests.differential.case import Decision
from tests.differential.kinds import Manifest


class Known(NamedTuple):
    """A rule that explains differences of decisions.

    `fixed_in` is the release whose kube-scheduler no longer has the fault; None: no release.
    """

    why: str
    explains: Callable[[Decision, str, Any, Any], bool]
    fixed_in: Release | None = None

    def applies_to(self, release: Release) -> bool:
        """Return whether kube-scheduler of this release decides as the rule states."""
        return self.fixed_in is None or release < self.fixed_in


def _claims_twice(decision: Decision, path: str, peer: Any, _ours: Any) -> bool:
    """Return whether the peer lost a race with itself over a claim that two volumes of the pod
    name.
    """
    claims = _claims(decision.pod)
    conflict = "the object has been modified" in str(peer)
    return path == "result" and conflict and len(claims) > len(set(claims))


def _equally_important(decision: Decision, path: str, peer: Any, ours: Any) -> bool:
    """Return whether pods of a node are equally important, so that only their order decides which
    is reprieved. The message may state the number of victims.
    """
    if path == "message":
        texts = {re.sub(r"preempting \d+ victims?", "", str(text)) for text in (peer, ours)}
        if len(texts) > 1 or not decision.peer.nominated:
            return False
    elif path not in {"candidates", "victims"}:
        return False
    if path in {"message", "victims"}:
        nodes = {decision.peer.nominated or ""}
    else:
        nodes = {node for node in peer.keys() | ours.keys() if peer.get(node) != ours.get(node)}
        if peer.keys() != ours.keys():
            return False
    return all(_has_equals(decision, node) for node in nodes)


def _has_equals(decision: Decision, node: str) -> bool:
    ranks = [
        (pod["spec"].get("priority", 0), pod["status"].get("startTime"))
        for pod in decision.objects
        if pod["kind"] == "Pod" and pod["spec"].get("nodeName") == node
    ]
    lower = [rank for rank in ranks if rank[0] < decision.pod["spec"].get("priority", 0)]
    return len(lower) > len(set(lower))


def _claim_shared(decision: Decision, path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether several pods use a ReadWriteOncePod claim of the pod: the peer counts one of
    them.
    """
    if decision.peer.result != "Unschedulable" or path.startswith("simulate/feasible"):
        return False
    namespace = decision.pod["metadata"]["namespace"]
    single = {
        obj["metadata"]["name"]
        for obj in decision.objects
        if obj["kind"] == "PersistentVolumeClaim"
        and obj["metadata"]["namespace"] == namespace
        and "ReadWriteOncePod" in obj["spec"]["accessModes"]
    }
    users = [
        pod for pod in decision.objects if pod["kind"] == "Pod" and pod["spec"].get("nodeName")
    ]
    return any(
        sum(claim in _claims(pod) for pod in users if pod["metadata"]["namespace"] == namespace) > 1
        for claim in single & set(_claims(decision.pod))
    )


def _spread_dry_run(decision: Decision, path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether a dry run spreads a pod beside terminating ones, or by a selector for all
    pods.
    """
    if decision.peer.result != "Unschedulable" or path == "plugins":
        return False
    hard = _hard_constraints(decision.pod)
    namespace = decision.pod["metadata"]["namespace"]
    leaving = any(
        obj["kind"] == "Pod"
        and obj["metadata"]["namespace"] == namespace
        and "deletionTimestamp" in obj["metadata"]
        for obj in decision.objects
    )
    return bool(hard) and (leaving or any(not one.get("labelSelector") for one in hard))


def _spread_beside_nominated(decision: Decision, path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether a pod spread by a selector for all pods meets a nominated one, which the peer
    counts then.
    """
    if path == "plugins" or all(
        one.get("labelSelector") for one in _hard_constraints(decision.pod)
    ):
        return False
    return any(
        obj["kind"] == "Pod"
        and obj["metadata"]["namespace"] == decision.pod["metadata"]["namespace"]
        and bool(obj["status"].get("nominatedNodeName"))
        and obj["spec"].get("priority", 0) >= decision.pod["spec"].get("priority", 0)
        for obj in decision.objects
    )


def _named_beside_narrowing(decision: Decision, path: str, peer: Any, ours: Any) -> bool:
    """Return whether the pod is nominated, and the peer names the plugin that rejected that node
    for others as well.
    """
    if path != "message" or not decision.pod["status"].get("nominatedNodeName"):
        return False
    texts = (re.sub(r"didn't satisfy plugin\(s\) \[.*?\]", "", str(text)) for text in (peer, ours))
    return len(set(texts)) == 1


def _forgetful(decision: Decision, _path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether claims of the pod require distinct values, which the peer does not keep
    between devices.
    """
    return any(
        "distinctAttribute" in one
        for claim in _device_claims(decision)
        for one in claim["spec"]["devices"].get("constraints", ())
    )


def _two_drivers(decision: Decision, _path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether pools of two drivers have one name and counters: the peer confuses them."""
    drivers: dict[str, set[str]] = {}
    for one in decision.objects:
        if one["kind"] == "ResourceSlice" and _device_claims(decision):
            spec = one["spec"]
            if any(device.get("consumesCounters") for device in spec.get("devices", ())):
                drivers.setdefault(spec["pool"]["name"], set()).add(spec["driver"])
    return any(len(found) > 1 for found in drivers.values())


def _empty_extended_claim(_decision: Decision, path: str, peer: Any, _ours: Any) -> bool:
    """Return whether the peer makes a claim for extended resources that the node serves itself."""
    return path == "result" and "nil or empty request mappings" in str(peer)


def _all_but_used_up(decision: Decision, _path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether a claim requests all devices and a shareable one has a share in use.

    The peer leaves a device without enough capacity out of "all devices".
    """
    requests = [
        one
        for claim in _device_claims(decision)
        for request in claim["spec"]["devices"].get("requests", ())
        for one in (request.get("exactly", {}), *request.get("firstAvailable", ()))
    ]
    return any(one.get("allocationMode") == "All" for one in requests) and bool(
        _devices_with_shares(decision) & _shared_devices(decision)
    )


def _all_of_a_faulty_pool(decision: Decision, path: str, peer: Any, _ours: Any) -> bool:
    """Return whether the peer fails a pod, or its preemption, over all devices of an incomplete or
    invalid pool.
    """
    text = "asks for all devices, but resource pool"
    if path in {"nominated", "candidates", "victims"}:
        error = f'preemption: running "DynamicResources" filter plugin: .*{text}'
        # An error leaves the nomination as it was.
        kept = decision.pod["status"].get("nominatedNodeName")
        is_left = not peer or (path == "nominated" and peer == kept)
        return is_left and re.search(error, decision.peer.message) is not None
    return path in {"result", "message"} and text in str(peer)


def _admin_access(decision: Decision, path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether admin access to a device needs free counters or capacity for the peer.

    One of the devices that either side selects consumes counters, may be shared, or is allocated to
    another claim with admin access. If neither side selects one, any such device counts.
    """
    requests = (
        one.get("exactly", {})
        for claim in _device_claims(decision)
        for one in claim["spec"]["devices"].get("requests", ())
    )
    if path not in {"claims", "result", "message"} or not any(
        one.get("adminAccess") for one in requests
    ):
        return False
    special = _shared_devices(decision) | _admin_devices(decision)
    outcomes = (decision.peer, decision.ours)
    granted = [claim for one in outcomes if one is not None for claim in one.claims]
    selected = {_device(result) for claim in granted for result in claim["results"]}
    return bool(special & selected if selected else special)


def _shared_devices(decision: Decision) -> set[tuple[str, str, str]]:
    """Return the devices that consume counters or that several requests may share."""
    return {
        (one["spec"]["driver"], one["spec"]["pool"]["name"], device["name"])
        for one in decision.objects
        if one["kind"] == "ResourceSlice"
        for device in one["spec"].get("devices", ())
        if device.get("consumesCounters") or device.get("allowMultipleAllocations")
    }


def _admin_devices(decision: Decision) -> set[tuple[str, str, str]]:
    """Return the devices that are allocated with admin access."""
    return {_device(one) for one in _allocated(decision) if one.get("adminAccess")}


def _devices_with_shares(decision: Decision) -> set[tuple[str, str, str]]:
    """Return the devices with an allocated share."""
    return {_device(one) for one in _allocated(decision) if one.get("shareID")}


def _allocated(decision: Decision) -> Iterator[Manifest]:
    """Yield the device results of all allocated claims."""
    for one in decision.objects:
        if one["kind"] == "ResourceClaim":
            allocation = one.get("status", {}).get("allocation", {})
            yield from allocation.get("devices", {}).get("results", ())


def _device(result: Manifest) -> tuple[str, str, str]:
    return result["driver"], result["pool"], result["device"]


def _claim_that_simulate_creates(decision: Decision, path: str, peer: Any, _ours: Any) -> bool:
    """Return whether simulate creates the claim of an ephemeral volume, which does not exist
    yet.
    """
    text = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
    waits = decision.ours is not None and text in str(decision.ours.message)
    return path.startswith("simulate/") and (waits or text in str(peer))


def _scored_without_claims(decision: Decision, path: str, peer: Any, ours: Any) -> bool:
    """Return whether the peer scores 0 for the volumes of a pod that has none to score (since
    1.37).
    """
    return (
        _release(decision) >= V1_37
        and path.startswith("scores/")
        and path.endswith("/VolumeBinding")
        and (peer, ours) == (0, None)
    )


def _which_error(decision: Decision, path: str, peer: Any, ours: Any) -> bool:
    """Return whether dry runs of preemption end with errors: their order determines which error is
    reported.
    """
    error = 'preemption: .*running "DynamicResources" filter plugin: '
    texts = [str(one).partition(" preemption: ")[0] for one in (peer, ours)]
    return (
        path == "message"
        and len(set(texts)) == 1
        and all(re.search(error, str(one)) for one in (peer, ours))
    )


def _excluding_namespaces(decision: Decision, _path: str, _peer: Any, _ours: Any) -> bool:
    """Return whether a namespaceSelector of the pod matches no labels: the peer takes all
    namespaces then.
    """
    return any(
        expression["operator"] in {"NotIn", "DoesNotExist"}
        for term in _terms(decision.pod)
        for expression in (term.get("namespaceSelector") or {}).get("matchExpressions", ())
    )


def _terms(pod: Manifest) -> list[Manifest]:
    """Return the terms of the pod's affinity and anti-affinity, including preferred ones."""
    found = []
    for kind in ("podAffinity", "podAntiAffinity"):
        for terms in pod["spec"].get("affinity", {}).get(kind, {}).values():
            found += [one.get("podAffinityTerm", one) for one in terms]
    return found


def _device_claims(decision: Decision) -> list[Manifest]:
    made = decision.pod.get("status", {}).get("resourceClaimStatuses", ())
    names = {one.get("resourceClaimName") for one in made}
    names |= {
        one.get("resourceClaimName") for one in decision.pod["spec"].get("resourceClaims", ())
    }
    return [
        one
        for one in decision.objects
        if one["kind"] == "ResourceClaim"
        and one["metadata"]["name"] in names
        and one["metadata"]["namespace"] == decision.pod["metadata"]["namespace"]
    ]


def _hard_constraints(pod: Manifest) -> list[Manifest]:
    return [
        constraint
        for constraint in pod["spec"].get("topologySpreadConstraints", ())
        if constraint["whenUnsatisfiable"] == "DoNotSchedule"
    ]


def _claims(pod: Manifest) -> list[str]:
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    ]


def _release(decision: Decision) -> Release:
    """Return the API server's release; decisions without one are of 1.36."""
    return read_release(decision.kubernetes) if decision.kubernetes else V1_36


RULES: tuple[Known, ...] = (
    Known("spread counts in dry runs of preemption", _spread_dry_run),
    Known("spread counts beside nominated pods", _spread_beside_nominated),
    Known("a ReadWriteOncePod claim in dry runs of preemption", _claim_shared),
    Known("who cut away nodes of a nominated pod", _named_beside_narrowing),
    Known("order of equally important pods", _equally_important),
    Known("two volumes of a pod with one unbound claim", _claims_twice),
    Known("distinct attributes that the peer forgets", _forgetful, fixed_in=V1_37),
    Known("counters of two drivers' pools of one name", _two_drivers, fixed_in=V1_37),
    Known("a used-up device that is none of all devices", _all_but_used_up, fixed_in=V1_37),
    Known("an empty claim for extended resources", _empty_extended_claim),
    Known("namespaces that a selector excludes", _excluding_namespaces, fixed_in=V1_37),
    Known("which error ends dry runs of preemption", _which_error),
    Known("all devices of an incomplete or invalid pool", _all_of_a_faulty_pool),
    Known("admin access to devices in use", _admin_access),
    Known("a score of 0 without claims to score", _scored_without_claims),
    Known("a claim that simulate creates", _claim_that_simulate_creates),
)


def explained(decision: Decision) -> str:
    """Return the reasons if every difference of the decision has one, else ''."""
    reasons = []
    rules = [rule for rule in RULES if rule.applies_to(_release(decision))]
    for path, (peer, ours) in decision.differences.items():
        why = next((rule.why for rule in rules if rule.explains(decision, path, peer, ours)), "")
        if not why:
            return ""
        reasons.append(why)
    return "; ".join(dict.fromkeys(reasons))
