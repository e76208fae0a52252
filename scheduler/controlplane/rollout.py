"""The arithmetic of a rolling update: the next number of replicas of each ReplicaSet.

Pure functions over counts, as in kube-controller-manager. The sandbox's Deployment controller and
`simulate` apply the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.controlplane.objects import Object


@dataclass(frozen=True, slots=True)
class Size:
    """A ReplicaSet's wanted and available replicas."""

    name: str
    replicas: int
    available: int


def limits(spec: Object) -> tuple[int, int]:
    """Return how many pods a Deployment may have in excess, and how many may be unavailable."""
    strategy = spec.get("strategy") or {}
    wanted = spec.get("replicas", 1)
    if strategy.get("type") == "Recreate":
        return 0, wanted
    rolling = strategy.get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", "25%"), wanted, round_up=True)
    unavailable = share(rolling.get("maxUnavailable", "25%"), wanted, round_up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, wanted)


def share(amount: Any, total: int, *, round_up: bool) -> int:
    """Return a number, or a percentage of `total` as text."""
    if isinstance(amount, int):
        return amount
    text = str(amount)
    if not text.endswith("%"):
        return int(text)
    product = int(text[:-1]) * total
    return -(-product // 100) if round_up else product // 100


def grown(new_replicas: int, all_replicas: int, wanted: int, surge: int) -> int:
    """Return the next size of the new ReplicaSet."""
    if new_replicas > wanted:
        return wanted
    headroom = wanted + surge - all_replicas
    return new_replicas + max(0, min(headroom, wanted - new_replicas))


def shrunk(old: Sequence[Size], new: Size, wanted: int, unavailable: int) -> dict[str, int]:
    """Return the next sizes of old ReplicaSets that may shrink now.

    `old` is sorted by age, oldest first.
    """
    total = sum(size.replicas for size in old) + new.replicas
    least = wanted - unavailable
    may_go = total - least - (new.replicas - new.available)
    sizes = {size.name: size.replicas for size in old}
    if may_go <= 0:
        return {}
    for size in old:
        # Deleting pods that are not available reduces no capacity: they are deleted first.
        gone = min(may_go, max(0, size.replicas - size.available))
        sizes[size.name] -= gone
        may_go -= gone
    may_go = sum(size.available for size in old) + new.available - least
    for size in old:
        gone = min(max(0, may_go), sizes[size.name])
        sizes[size.name] -= gone
        may_go -= gone
    return {size.name: sizes[size.name] for size in old if sizes[size.name] != size.replicas}


def scaled(sizes: Sequence[Size], before: int, allowed: int) -> dict[str, int]:
    """Deal `allowed` replicas over ReplicaSets in proportion to their sizes (a scale during a
    rollout).

    The largest comes first and takes what rounding leaves; `before` is what they were dealt when
    they were sized.
    """
    total = sum(size.replicas for size in sizes)
    to_add = allowed - total
    ranked = sorted(sizes, key=lambda size: -size.replicas)
    found: dict[str, int] = {}
    left = to_add
    for size in ranked:
        part = _rounded(size.replicas * allowed, before) - size.replicas if before else 0
        part = max(min(part, left), 0) if to_add > 0 else min(max(part, left), 0)
        found[size.name] = size.replicas + part
        left -= part
    if ranked and left:
        first = ranked[0].name
        found[first] = max(0, found[first] + left)
    return {size.name: found[size.name] for size in sizes if found[size.name] != size.replicas}


def _rounded(product: int, divisor: int) -> int:
    return (2 * product + divisor) // (2 * divisor)
