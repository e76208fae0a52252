"""`Victims`: who on some rows is less important than a preemptor, as units that go together.

A unit is one pod, or a group that is disrupted as a whole: then it stands on every row of its pods,
with its own priority, and counts with all its pods, wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduler.framework import BoolColumn, IntColumn, IntMatrix, Nodes, Placed, Rows
from scheduler.framework.rowpods import Companions, RowPods
from scheduler.plugins.preemption.importance import PodsByImportance
from scheduler.plugins.preemption.units import Gang, UnitIndex
from scheduler.state.rowlists import AMOUNTS, FIRST_AMOUNT, PRIORITY, SHAPE, START


class Victims(RowPods):
    """Who would leave, row by row, the most important unit first; rows without any are left out.

    Per unit: `priority`, `start` (seconds since the epoch, or `NOT_STARTED`), `size` (its pods on all
    nodes) and `shape_ids` (of its first pod). `gangs` are the groups among them, by number.
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
        pods, places = ranks.lists.pods, numbers.tolist()
        joined = _Joined(rows, nodes, units, lambda pod: pods[places[pod]], counts, fields)
        kept = joined.order[joined.is_unit[joined.order]]
        kept = kept[joined.fields[PRIORITY, kept] < priority]
        counts = np.bincount(joined.index[kept], minlength=len(rows))
        if not counts.all():
            held = np.flatnonzero(counts)
            rows, counts = rows[held], counts[held]
        fields = joined.fields[:, kept]
        amounts = {name: fields[FIRST_AMOUNT + place] for place, name in enumerate(AMOUNTS)}
        finders = kept.tolist()
        companions, gangs = {}, {}
        if joined.gangs:
            place_of = {number: place for place, number in enumerate(finders)}
            for number, gang in joined.gangs.items():
                if number in place_of:
                    gangs[place_of[number]] = gang
                    companions[place_of[number]] = joined.companions(number)
        super().__init__(rows, counts, lambda pod: pods[places[finders[pod]]], amounts, companions)
        # Once groups are among them, what their pods' own priorities say is not who is here.
        self.below = None if joined.has_gangs else priority
        self.gangs: Mapping[int, Gang] = gangs
        self.priority: IntColumn = fields[PRIORITY]
        self.start: IntColumn = fields[START]
        self.shape_ids: IntColumn = fields[SHAPE]
        self.size: IntColumn = joined.size[kept]

    def everyone(self, number: int) -> tuple[Placed, ...]:
        """Return all pods that leave with a unit."""
        gang = self.gangs.get(number)
        return (self.pod(number),) if gang is None else gang.unit.members


class _Joined:
    """The pods of some rows, those of one group on a row joined to one unit.

    `index` is the row of each pod, `is_unit` leaves out all but the first of the joined ones, and
    `order` puts the most important of each row first: by priority, groups before pods on their own,
    larger groups first, then who started earlier.
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
        self.has_gangs = False
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
            # The pods stand in their own order of importance, which settles what is left open. Groups
            # come before pods on their own: their size counts below 0.
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
        """Return the pods of a joined unit, here and elsewhere."""
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
        found: dict[str, int] = {}
        flags = []
        for number in numbers:
            gang = on_node.get(self._pod(number).pod.metadata.uid)
            flags.append(gang is not None)
            if gang is None or not gang.is_whole:
                continue
            first = found.setdefault(gang.unit.key, number)
            self._here.setdefault(first, []).append(number)
            self.is_unit[number] = first == number
            if first == number:
                self._begin(number, gang)
            else:
                self.fields[FIRST_AMOUNT:, first] += self.fields[FIRST_AMOUNT:, number]
        self.has_gangs = self.has_gangs or any(flags)
        return flags

    def _begin(self, number: int, gang: Gang) -> None:
        self.gangs[number] = gang
        self.fields[PRIORITY, number], self.fields[START, number] = gang.unit.priority, gang.start
        self.size[number] = len(gang.unit.members)
