"""The kubelet's topology manager: assign NUMA zones to a pod's containers, or reject the pod.

Written from the kubelet's documentation. Three providers give hints: CPUs and memory for containers
of Guaranteed pods (CPUs only in whole numbers), devices for all. A hint is a set of zones with
enough free; it is preferred when no smaller set could ever suffice. Hints of all resources are
merged, the policy accepts the best or not, and the amounts are deducted from its zones, lowest
first. Amounts are thousandths. Uses no objects and no clock; shares no code with any scheduler.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.nodes.podfit import Amounts, milli

Policy: TypeAlias = Literal["none", "best-effort", "restricted", "single-numa-node"]
Scope: TypeAlias = Literal["container", "pod"]

POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
SCOPES: Final = ("container", "pod")
REFUSED: Final = {
    "reason": "TopologyAffinityError",
    "message": "Pod was rejected: Resources cannot be allocated with Topology locality",
}

# A set of zones as bits, and whether it is preferred.
Hint: TypeAlias = tuple[int, bool]


@dataclass(slots=True)
class SimulatedZone:
    """One NUMA zone: its total and free amounts, by resource."""

    capacity: Amounts
    free: Amounts


@dataclass(slots=True)
class Taken:
    """The amounts of one container: zone number → amounts.

    No name for amounts of init steps alone.
    """

    container: str
    amounts: dict[int, Amounts] = field(default_factory=dict)


class Aligner:
    """The zones of one node, and their use by pod."""

    def __init__(self, zones: Iterable[Mapping[str, int]], policy: Policy, scope: Scope) -> None:
        self.zones = [SimulatedZone(dict(amounts), dict(amounts)) for amounts in zones]
        self.policy: Policy = policy
        self.scope: Scope = scope
        self.current: dict[str, list[Taken]] = {}

    def admit(self, uid: str, pod: Object) -> bool:
        """Assign zones to a pod; return False, without a change, if the policy rejects it."""
        if uid in self.current:
            return True
        before = [dict(zone.free) for zone in self.zones]
        taken = self._by_pod(pod) if self.scope == "pod" else self._by_container(pod)
        if taken is None:
            for zone, free in zip(self.zones, before, strict=True):
                zone.free = free
            return False
        self.current[uid] = taken
        return True

    def release(self, uid: str) -> None:
        """Release the amounts of a pod."""
        for taken in self.current.pop(uid, ()):
            for number, amounts in taken.amounts.items():
                for name, amount in amounts.items():
                    self.zones[number].free[name] += amount

    def _by_pod(self, pod: Object) -> list[Taken] | None:
        wanted = _whole(pod)
        zones = self._accepted(wanted)
        if zones is None:
            return None
        amounts = self._take(wanted, zones)
        guaranteed = qos_of(pod) == "Guaranteed"
        names = [
            container["name"]
            for container, stays in _in_order(pod)
            if stays and _managed(container, is_guaranteed=guaranteed)
        ]
        # All containers run while the pod does; their amounts are deducted once.
        others = {number: Amounts() for number in amounts}
        return [Taken(name, others if at else amounts) for at, name in enumerate(names or [""])]

    def _by_container(self, pod: Object) -> list[Taken] | None:
        found = []
        is_guaranteed = qos_of(pod) == "Guaranteed"
        for container, stays in _in_order(pod):
            wanted = _managed(container, is_guaranteed=is_guaranteed)
            zones = self._accepted(wanted)
            if zones is None:
                return None
            # An init container's amounts are free again for those after it.
            if stays:
                found.append(Taken(container["name"], self._take(wanted, zones)))
        return found

    def _accepted(self, wanted: Amounts) -> int | None:
        """Return the zones for a request as bits, None if the policy rejects it."""
        everything = (1 << len(self.zones)) - 1
        offered = (self._hints(name, amount) for name, amount in wanted.items())
        hints = [found for found in offered if found is not None]
        if self.policy == "none" or not hints:
            return everything
        if self.policy == "single-numa-node":
            hints = [[hint for hint in found if hint[0].bit_count() == 1] for found in hints]
        agreed = set.intersection(*({zones for zones, best in found if best} for found in hints))
        if agreed:
            return _best(agreed)
        if self.policy != "best-effort":
            return None
        return _overlap([[zones for zones, _ in found] for found in hints], everything)

    def _hints(self, name: str, amount: int) -> list[Hint] | None:
        """Return the sets of zones for one resource; None if no zone manages it."""
        managed = [name in zone.capacity for zone in self.zones]
        if not amount or not any(managed):
            return None
        most = _sums([zone.capacity.get(name, 0) for zone in self.zones])
        left = _sums([zone.free.get(name, 0) for zone in self.zones])
        enough = [zones for zones in range(1, len(most)) if most[zones] >= amount]
        smallest = min((zones.bit_count() for zones in enough), default=0)
        return [(zones, zones.bit_count() == smallest) for zones in enough if left[zones] >= amount]

    def _take(self, wanted: Amounts, zones: int) -> dict[int, Amounts]:
        taken: dict[int, Amounts] = {}
        for name, amount in wanted.items():
            rest = amount
            for number, zone in enumerate(self.zones):
                part = min(rest, zone.free.get(name, 0)) if zones >> number & 1 else 0
                if part > 0:
                    zone.free[name] -= part
                    taken.setdefault(number, {})[name] = part
                    rest -= part
        return taken


def _overlap(all_sets: list[list[int]], everything: int) -> int:
    """Return the best overlap of one set of zones per resource; all zones if there is none."""
    merged = {everything}
    for sets in all_sets:
        merged = {mine & other for mine in merged for other in sets if mine & other}
    return _best(merged) if merged else everything


def _best(sets: Iterable[int]) -> int:
    """Return the narrowest set of zones, of several the one with the lowest numbers."""
    return min(sets, key=lambda zones: (zones.bit_count(), zones))


def _sums(amounts: list[int]) -> list[int]:
    """Return the sum for every set of zones, indexed by its bits."""
    sums = [0]
    for amount in amounts:
        sums += [amount + before for before in sums]
    return sums


def _whole(pod: Object) -> Amounts:
    """Return the amounts of a whole pod: its containers, or its largest init step if that is
    more.
    """
    is_guaranteed = qos_of(pod) == "Guaranteed"
    running: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container, stays in _in_order(pod):
        wanted = _managed(container, is_guaranteed=is_guaranteed)
        if stays:
            _add(running, wanted)
            if container.get("restartPolicy") == "Always":
                _add(sidecars, wanted)
        else:
            _add(wanted, sidecars)
            _raise(peak, wanted)
    _raise(running, peak)
    return running


def _in_order(pod: Object) -> Iterator[tuple[Object, bool]]:
    """Yield the containers in start order, with whether they keep running beside later ones."""
    for container in pod["spec"].get("initContainers") or ():
        yield container, container.get("restartPolicy") == "Always"
    for container in pod["spec"]["containers"]:
        yield container, True


def _managed(container: Object, *, is_guaranteed: bool) -> Amounts:
    """Return the requests that the kubelet assigns: devices; CPUs and memory if Guaranteed."""
    requests = (container.get("resources") or {}).get("requests") or {}
    found: Amounts = {}
    for name, text in requests.items():
        amount = milli(text)
        if name == "cpu":
            is_assigned = is_guaranteed and amount % 1000 == 0
        elif name == "memory" or name.startswith("hugepages-"):
            is_assigned = is_guaranteed
        else:
            is_assigned = "/" in name and "kubernetes.io/" not in name
        if is_assigned:
            found[name] = amount
    return found


def qos_of(pod: Object) -> str:
    """Return the QoS class of a pod: from its status, else from its containers."""
    known: str = (pod.get("status") or {}).get("qosClass") or ""
    if known:
        return known
    has_requests, is_guaranteed = False, True
    for container, _ in _in_order(pod):
        resources = container.get("resources") or {}
        requests, limits = (
            {
                name: milli(amount)
                for name, amount in (resources.get(part) or {}).items()
                if name in ("cpu", "memory") and milli(amount)
            }
            for part in ("requests", "limits")
        )
        has_requests = has_requests or bool(requests or limits)
        is_guaranteed = is_guaranteed and len(limits) == 2 and {**limits, **requests} == limits
    if not has_requests:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, 0), amount)
