"""`UnitIndex`: the groups of pods on nodes, by node, for a preemptor.

Groups come from the plugin that plans them (`framework.groups.Unit`). Only groups that changed are
read again, and `touched` is the log of the rows where that may change the result of a dry run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from scheduler.framework import Handle, Nodes, Placed
from scheduler.framework.hypothetical.disruption import DisruptionMode, DisruptionUnit
from scheduler.state.counts.rowlists import start_of
from scheduler.state.counts.touched import Touched


class Gang(msgspec.Struct, frozen=True):
    """A group, and when its first member started, in seconds since the epoch or `NOT_STARTED`."""

    unit: DisruptionUnit
    start: int

    @property
    def is_whole(self) -> bool:
        """Return whether the group's pods are evicted together or not at all."""
        return self.unit.mode is DisruptionMode.ALL


class UnitIndex:
    """The groups by the nodes of their pods."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._mark = 0
        self._gangs: dict[str, Gang] = {}
        self._priorities: Counter[int] = Counter()
        # Per node the groups of its pods, by uid.
        self._on: dict[str, dict[str, Gang]] = {}
        # Members of groups with surplus, by uid, and those of them whose eviction is in progress.
        self._elastic: dict[str, Gang] = {}
        self.going: frozenset[str] = frozenset()
        self.touched = Touched()

    def catch_up(self, nodes: Nodes) -> None:
        """Apply the changes since the previous call; `nodes` are all nodes."""
        changes = self._handle.disruption_units(self._mark)
        if changes.is_all:
            self._gangs, self._on, self._elastic, self.touched = {}, {}, {}, Touched()
            self._priorities.clear()
        self._mark = changes.mark
        changed = [
            (key, unit)
            for key, unit in changes.changed.items()
            if (known := self._gangs.get(key)) is None or not _is_same(known.unit, unit)
        ]
        # A pod may have moved from one group to another: it leaves the first before it joins the
        # second.
        for key, _ in changed:
            before = self._gangs.pop(key, None)
            if before is not None:
                self._drop(before, nodes)
        for key, unit in changed:
            if unit.members:
                gang = Gang(unit, min(map(start_of, unit.members)))
                self._gangs[key] = gang
                self._put(gang, nodes)
        if self._elastic or self.going:
            self.going = self._handle.evicted() & self._elastic.keys()

    def on(self, name: str) -> Mapping[str, Gang]:
        """Return the groups of the pods on a node, by uid; pods without a group are left out."""
        return self._on.get(name, {})

    @property
    def is_empty(self) -> bool:
        """Return whether no pod on any node belongs to a group."""
        return not self._on

    def any_below(self, priority: int) -> bool:
        """Return whether some group counts with a lower priority."""
        return any(one < priority for one in self._priorities)

    def surplus(self, gang: Gang) -> int:
        """Return how many pods of a group may be evicted alone, without those already being
        evicted.
        """
        going = (
            sum(self._elastic.get(uid) is gang for uid in self.going) if gang.unit.surplus else 0
        )
        return max(0, gang.unit.surplus - going)

    def with_their_groups(self, victims: Sequence[Placed]) -> list[tuple[Placed, Gang | None]]:
        """Return `victims` and all pods evicted with them, each once, with the group it counts in.

        Surplus members are evicted alone.
        """
        gangs = [self.on(victim.node).get(victim.pod.metadata.uid) for victim in victims]
        evictions = Counter(gang.unit.key for gang in gangs if gang is not None)
        found: dict[str, tuple[Placed, Gang | None]] = {}
        for victim, gang in zip(victims, gangs, strict=True):
            whole = gang if gang is not None and gang.is_whole else None
            is_surplus = whole is None or evictions[whole.unit.key] <= self.surplus(whole)
            together = (victim,) if whole is None or is_surplus else whole.unit.members
            for one in together:
                found.setdefault(one.pod.metadata.uid, (one, whole))
        return list(found.values())

    def _put(self, gang: Gang, nodes: Nodes) -> None:
        self._priorities[gang.unit.priority] += 1
        for member in gang.unit.members:
            self._on.setdefault(member.node, {})[member.pod.metadata.uid] = gang
            if gang.unit.surplus:
                self._elastic[member.pod.metadata.uid] = gang
            self._touch(member.node, nodes)

    def _drop(self, gang: Gang, nodes: Nodes) -> None:
        self._priorities[gang.unit.priority] -= 1
        if not self._priorities[gang.unit.priority]:
            del self._priorities[gang.unit.priority]
        for member in gang.unit.members:
            self._touch(member.node, nodes)
            on_node = self._on.get(member.node, {})
            on_node.pop(member.pod.metadata.uid, None)
            self._elastic.pop(member.pod.metadata.uid, None)
            if not on_node:
                self._on.pop(member.node, None)

    def _touch(self, node: str, nodes: Nodes) -> None:
        row = nodes.row(node)
        if row is not None:
            self.touched.add(row)


def _is_same(one: DisruptionUnit, other: DisruptionUnit) -> bool:
    """Return whether nothing relevant changed; any change creates new records of pods."""
    return (
        (one.mode, one.priority, one.surplus) == (other.mode, other.priority, other.surplus)
        and len(one.members) == len(other.members)
        and all(a is b for a, b in zip(one.members, other.members, strict=True))
    )  # fmt: skip
