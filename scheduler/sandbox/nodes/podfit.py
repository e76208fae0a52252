"""The amounts of a pod on its node, and the kubelet's admission check.

A real kubelet rejects a pod that exceeds its node's free capacity, whichever scheduler bound it; so
does ours, which reveals an overcommitting scheduler. Amounts are thousandths; nothing here is
shared with the scheduler's own arithmetic.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

from scheduler.controlplane.quantities import value
from scheduler.sandbox.api.status import Object

Amounts: TypeAlias = dict[str, int]


@lru_cache(maxsize=8192)
def milli(text: str | float) -> int:
    """Return a quantity in thousandths, rounded up."""
    return int(-(-value(text) * 1000 // 1))


def requests_of(spec: Object) -> Amounts:
    """Return a pod's amounts: its containers, or its largest init step if that is more, and the
    overhead.
    """
    total: Amounts = {}
    for container in spec["containers"]:
        _add(total, container)
    peak: Amounts = {}
    sidecars: Amounts = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(total, container)
            _add(sidecars, container)
            _raise(peak, sidecars)
        else:
            step = dict(sidecars)
            _add(step, container)
            _raise(peak, step)
    _raise(total, peak)
    whole = (spec.get("resources") or {}).get("requests") or {}
    total.update({name: milli(amount) for name, amount in whole.items()})
    for name, amount in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, 0) + milli(amount)
    total["pods"] = 1000
    return total


class Usage:
    """The sum of the pods of one node."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used: Amounts = {}

    def take(self, requests: Amounts) -> None:
        """Add a pod."""
        _merge(self.used, requests, 1)

    def give_back(self, requests: Amounts) -> None:
        """Remove a pod."""
        _merge(self.used, requests, -1)

    def shortage(self, requests: Amounts, allocatable: Mapping[str, str]) -> Object | None:
        """Return reason and message if one resource does not suffice.

        Unlisted resources are free.
        """
        for name, wanted in requests.items():
            limit = allocatable.get(name)
            if not wanted or limit is None:
                continue
            used, most = self.used.get(name, 0), milli(limit)
            if used + wanted > most:
                shown = [_shown(name, amount) for amount in (wanted, used, most)]
                return {
                    "reason": f"OutOf{name}",
                    "message": (
                        f"Pod was rejected: Node didn't have enough resource: {name}, requested: "
                        f"{shown[0]}, used: {shown[1]}, capacity: {shown[2]}"
                    ),
                }
        return None


def _shown(name: str, amount: int) -> int:
    """Return an amount as the kubelet prints it: cpu in thousandths, everything else in whole
    units.
    """
    return amount if name == "cpu" else -(-amount // 1000)


def _add(total: Amounts, container: Object) -> None:
    resources = container.get("resources")
    requests = resources.get("requests") if resources else None
    if requests:
        for name, amount in requests.items():
            total[name] = total.get(name, 0) + milli(amount)


def _raise(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if amount > total.get(name, 0):
            total[name] = amount


def _merge(total: Amounts, other: Amounts, sign: int) -> None:
    for name, amount in other.items():
        total[name] = total.get(name, 0) + sign * amount
