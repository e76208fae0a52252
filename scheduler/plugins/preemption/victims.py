"""`Victims`: the less important pods on some rows, as units that are evicted together.

A unit is one pod, or a group that is disrupted as a whole: then it is on every row of its pods,
with its own priority, and counts with all its pods on all nodes. Surplus members, the least
important ones of a row, are units of their own: they are evicted before the rest of the group, and
always with it.
"""

from collections.abc import Callable, Mapping

import numpy as np

from scheduler.framework import BoolColumn, IntColumn, IntMatrix, Nodes, Placed, Rows
from scheduler.framework.hypothetical.rowpods import Companions, RowPods
from scheduler.plugins.preemption.importance import PodsByImportance
from scheduler.plugins.preemption.units import Gang, UnitIndex
from scheduler.state.counts.rowlists import AMOUNTS, FIRST_AMOUNT, PRIORITY, SHAPE, START


class Victims(RowPods):
    """The removable units row by row, the most important first; rows without any are left out.

    Per unit: `priority`, `start` (seconds since the epoch, or `NOT_STARTED`), `size` (its pods on
    all nodes) and `shape_ids` (of its first pod). `gangs` are the groups among them, by number;
    `rest` has for every surplus member the number of its group's rest on the row, -1 for all
    others.
    """

    def __init__(
        self,
        ranks: PodsByImportance,
        units: UnitIndex,
        nodes: Nodes,
        rows: Rows,
        priority: int,
    ) -> None:
        numbers, counts, fields = ranks.lists.on(rows)
        if not units.is_empty and not units.any_below(priority):
            # On a full cluster most rows have no pod to evict: their groups need not be joined.
            has_lower = np.bincount(
                np.repeat(np.arange(len(rows)), counts)[fields[PRIORITY] < priority],
                minlength=len(rows),
            )
            if not has_lower.all():
                rows = rows[has_lower > 0]
                numbers, counts, fields = ranks.lists.on(rows)
        pods, places = ranks.lists.pods, numbers.tolist()
        joined = _Joined(rows, nodes, units, lambda pod: pods[places[pod]], counts, fields)
        kept = joined.order[joined.is_unit[joined.order]]
        kept = kept[joined.fields[PRIORITY, kept] < priority]
        counts = np.bincount(joined.index[kept], minlength=len(rows))
        if not counts.all():
            occupied = np.flatnonzero(counts)
            rows, counts = rows[occupied], counts[occupied]
        fields = joined.fields[:, kept]
        amounts = {name: fields[FIRST_AMOUNT + place] for place, name in enumerate(AMOUNTS)}
        finders = kept.tolist()
        companions, gangs = {}, {}
        rest: Rows = np.full(len(kept), -1)
        alone: dict[int, frozenset[str]] = {}
        if joined.gangs:
            place_of = {number: place for place, number in enumerate(finders)}
            for number, gang in joined.gangs.items():
                if number not in place_of:
                    continue
                at = place_of[number]
                gangs[at] = gang
                companions[at] = joined.companions(number)
                alone_here = joined.alone.get(number, ())
                rest[[place_of[one] for one in alone_here]] = at
                if alone_here:
                    alone[at] = frozenset(pods[places[one]].pod.metadata.uid for one in alone_here)
        super().__init__(rows, counts, lambda pod: pods[places[finders[pod]]], amounts, companions)
        # With groups, the pods' own priorities do not determine which units are here.
        self.below = None if joined.has_gangs else priority
        self.gangs: Mapping[int, Gang] = gangs
        self.rest = rest
        self._alone = alone
        self.priority: IntColumn = fields[PRIORITY]
        self.start: IntColumn = fields[START]
        self.shape_ids: IntColumn = fields[SHAPE]
        self.size: IntColumn = joined.size[kept]

    def everyone(self, number: int) -> tuple[Placed, ...]:
        """Return all pods that are evicted with a unit, without its surplus members."""
        gang = self.gangs.get(number)
        if gang is None:
            return (self.pod(number),)
        alone = self._alone.get(number)
        members = gang.unit.members
        return tuple(one for one in members if not alone or one.pod.metadata.uid not in alone)

    def has_alone(self, number: int) -> bool:
        """Return whether some of a group's pods on the row are units of their own."""
        return number in self._alone


class _Joined:
    """The pods of some rows; those of one group on a row form one unit.

    `index` is the row of each pod, `is_unit` leaves out all but the first pod of a unit, and
    `order` puts the most important of each row first: by priority, groups before single pods,
    larger groups first, then the earlier start.
    """

    def __init__(
        self,
        rows: Rows,
        nodes: Nodes,
        units: UnitIndex,
        pod: Callable[[int], Placed],
        counts: IntColumn,
        fields: IntMatrix,
    ) -> None:
        self.index: Rows = np.repeat(np.arange(len(rows)), counts)
        self.fields = fields
        self.order: Rows = np.arange(len(self.index))
        self.is_unit: BoolColumn = np.ones(len(self.index), dtype=np.bool_)
        self.size: IntColumn = np.ones(len(self.index), dtype=np.int64)
        self.gangs: dict[int, Gang] = {}
        # By the first pod of a unit: its group's surplus members on the row.
        self.alone: dict[int, list[int]] = {}
        self.has_gangs = False
        self._units = units
        if units.is_empty:
            return
        self._nodes, self._pod = nodes, pod
        self._here: dict[int, list[int]] = {}
        in_group = np.zeros(len(self.index), dtype=np.bool_)
        ends = counts.cumsum().tolist()
        for place, name in enumerate(nodes.name(row) for row in rows.tolist()):
            on_node = units.on(name)
            if on_node:
                first = ends[place] - int(counts[place])
                in_group[first : ends[place]] = self._join(range(first, ends[place]), on_node)
        if self.has_gangs:
            # The pods are sorted by importance already, which breaks the remaining ties. Groups
            # come before single pods: their size counts below 0.
            self.order = np.lexsort(
                (
                    self.order,
                    np.where(in_group, self.fields[START], 0),
                    np.where(in_group, -self.size, 0),
                    -self.fields[PRIORITY],
                    self.index,
                )
            )

    def companions(self, number: int) -> Companions:
        """Return the pods of a unit, on this node and others."""
        here = tuple(map(self._pod, self._here[number]))
        node = here[0].node
        rows = (
            (one, self._nodes.row(one.node))
            for one in self.gangs[number].unit.members
            if one.node != node
        )
        return Companions(here, tuple((one, row) for one, row in rows if row is not None))

    def _join(self, numbers: range, on_node: Mapping[str, Gang]) -> list[bool]:
        """Join the pods of one row by their groups; return which of them belong to any."""
        here: dict[str, tuple[Gang, list[int]]] = {}
        flags = []
        for number in numbers:
            gang = on_node.get(self._pod(number).pod.metadata.uid)
            flags.append(gang is not None)
            if gang is not None and gang.is_whole:
                here.setdefault(gang.unit.key, (gang, []))[1].append(number)
        for gang, own in here.values():
            self._begin(gang, own)
        self.has_gangs = self.has_gangs or any(flags)
        return flags

    def _begin(self, gang: Gang, own: list[int]) -> None:
        """Join a group's pods on one row, without the least important surplus members."""
        many = max(0, len(own) - self._units.surplus(gang))
        together, alone = own[:many], own[many:]
        self.fields[PRIORITY, own] = gang.unit.priority
        if not together:
            return
        first = together[0]
        self.gangs[first] = gang
        self._here[first] = together
        self.is_unit[together[1:]] = False
        self.fields[FIRST_AMOUNT:, first] = self.fields[FIRST_AMOUNT:, together].sum(axis=1)
        self.fields[START, first] = gang.start
        self.size[first] = len(gang.unit.members) - len(alone)
        if alone:
            self.alone[first] = alone
