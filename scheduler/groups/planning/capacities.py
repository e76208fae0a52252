"""How many members each unit of a tree takes, by each limit alone: every request, and the filters.

From these follow the requests that make a group infeasible: a set of limits conflicts with the
rules if no unit takes enough members under it, and every smaller set allows enough. The columns
also show which unit must contain a group, and which pods use the devices there. Pure; called for
the message of a group that does not fit.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.base.text import natural
from scheduler.framework.groups import Fits, title
from scheduler.framework.nodes import Nodes
from scheduler.framework.together import Inventory
from scheduler.groups.planning.task import GroupTask
from scheduler.groups.problem.answer import Advice
from scheduler.groups.problem.instance import Instance
from scheduler.groups.sources.registry import group_of, is_by_object
from scheduler.groups.topology.tree import Topology
from scheduler.state.podindex import PodIndex
from scheduler.state.resources import PODS

FILTERS = ""  # the limit that represents every filter except that of requests
REQUESTS_FILTER = "NodeResourcesFit"
ENOUGH = 1 << 31


class MemberCapacity:
    """Members per node of a group's tree under each limit, bound members included.

    `nodes` are the indexes of the tree's leaves that are nodes of the cluster; columns are aligned
    with it.
    """

    def __init__(self, task: GroupTask, fits: Fits) -> None:
        self.task = task
        nodes = task.context.nodes
        rows = task.tree.rows(nodes)
        self.leaves = np.flatnonzero((rows >= 0) & (rows < len(fits.slots)))
        self.rows = rows[self.leaves]
        self.request = {**task.requests[task.context.members[0].metadata.uid], PODS: 1}
        self.slots = task.allowed(fits.slots)[self.rows]
        free = task.context.free(self.request)
        self.by_limit: dict[str, IntColumn] = {
            name: (free[name][self.rows] // amount).clip(0)
            for name, amount in self.request.items()
            if amount > 0
        }
        self.by_limit[FILTERS] = self._by_filters(fits)
        self.fixed = np.zeros(len(self.rows), dtype=np.int64)
        for one in task.bound:
            self.fixed[self.rows == nodes.row(one.node)] += 1

    def _by_filters(self, fits: Fits) -> IntColumn:
        least = _least(list(self.by_limit.values()))
        limit = np.where(self.slots < least, self.slots, ENOUGH)
        for one in fits.rejections:
            if one.plugin != REQUESTS_FILTER:
                limit = np.where(one.rows[self.rows], 0, limit)
        return limit

    def when_empty(self) -> IntColumn:
        """Return how many members each node takes, bound ones included, without any other pod."""
        allocatable = [
            self.task.context.nodes.allocatable(name)[self.rows] // amount
            for name, amount in self.request.items()
            if amount > 0
        ]
        return _least([*allocatable, self.by_limit[FILTERS] + self.fixed]).clip(0)

    def under(self, limits: Collection[str]) -> IntColumn:
        """Return how many members each node takes, fixed ones included, if only `limits` count."""
        if len(limits) == len(self.by_limit):
            return self.slots + self.fixed
        columns = [self.by_limit[name] for name in limits]
        if not columns:
            return np.full(len(self.rows), ENOUGH, dtype=np.int64)
        return _least(columns) + self.fixed

    def by_unit(self, slots: Sequence[int] | IntColumn, depth: int) -> dict[tuple[str, ...], int]:
        """Return members per unit at `depth` levels below the root (0: one unit of all nodes)."""
        units, _ = self.task.tree.units_at(depth)
        many, known = self._by_number(slots, depth)
        return {units[number]: int(many[number]) for number in np.flatnonzero(known).tolist()}

    def largest(self, slots: IntColumn, depth: int) -> int:
        """Return how many members the unit with the largest capacity at `depth` takes."""
        many, known = self._by_number(slots, depth)
        return int(many[known].max(initial=0))

    def _by_number(
        self, slots: Sequence[int] | IntColumn, depth: int
    ) -> tuple[IntColumn, BoolColumn]:
        """Return members by number of the unit, and which units have nodes of the cluster."""
        units, numbers = self.task.tree.units_at(depth)
        here = numbers[self.leaves]
        many = np.zeros(len(units), dtype=np.int64)
        np.add.at(many, here, np.asarray(slots))
        known = np.zeros(len(units), dtype=np.bool_)
        known[here] = True
        return many, known

    def conflict(self, fits: Callable[[IntColumn], bool | None], depth: int) -> tuple[str, ...]:
        """Return the smallest set found of limits under which `fits(slots)` is false.

        Empty if the limits do not decide. If any one limit suffices, the one with the least
        capacity is kept; filters are dropped first, then resources of the node, then devices.
        """
        kept = list(self.by_limit)
        order = sorted(
            kept, key=lambda name: (name != FILTERS, -self.largest(self.under((name,)), depth))
        )
        if fits(self.under(kept)) is not False:
            return ()
        for name in order:
            fewer = [one for one in kept if one != name]
            answer = fits(self.under(fewer))
            if answer is None:
                return ()
            if not answer:
                kept = fewer
        return tuple(kept)

    def most_of(self, resource: str) -> int:
        """Return the largest allocatable amount of a resource among the nodes of the tree."""
        amounts = self.task.context.nodes.allocatable(resource)[self.rows]
        return int(amounts.max()) if len(amounts) else 0


def shortage(
    needed: Mapping[str, int], free: Mapping[str, IntColumn], rows: Iterable[int]
) -> tuple[str, int]:
    """Return the resource whose free share of `needed` is smallest on `rows` together, and its
    amount.

    The resource is '' if every amount suffices.
    """
    chosen = list(rows)
    worst, least, left = "", 1.0, 0
    for name, amount in sorted(needed.items()):
        if name not in free or amount <= 0:
            continue
        there = int(free[name][chosen].clip(0).sum()) if chosen else 0
        if there < amount and there / amount < least:
            worst, least, left = name, there / amount, there
    return worst, left


def _least(columns: Sequence[IntColumn]) -> IntColumn:
    least: IntColumn = np.min(np.stack(columns), axis=0)
    return least


NAMED = 2  # how many users of devices a message names


def packed(instance: Instance, advice: Advice) -> int:
    """Return the depth of the unit that must contain the whole group, by the rules in conflict; 0:
    none.

    With hard pack on a level, the pods below each used unit of the level above are in one unit; all
    pods are in one unit only if the same holds for all levels above.
    """
    in_conflict = {one.level for one in advice.conflict if one.rule == "hard"}
    found = 0
    for depth, level in enumerate(instance.levels, 1):
        if not level.rule.is_hard_pack:
            break
        found = depth if level.name in in_conflict else found
    return found


def stocks_in(
    tree: Topology, nodes: Nodes, unit: tuple[str, ...], fits: Fits, pods: PodIndex
) -> str:
    """Return the number of devices on the nodes of a unit and their users; '' without devices."""
    if not fits.inventories:
        return ""
    rows = np.zeros(nodes.size, dtype=np.bool_)
    for path, name in tree.leaves:
        row = nodes.row(name)
        if row is not None and (*path, name)[: len(unit)] == unit:
            rows[row] = True
    return " and ".join(_inventory(inventory(rows), pods) for inventory in fits.inventories)


def _inventory(inventory: Inventory, pods: PodIndex) -> str:
    users: Counter[str] = Counter()
    for user, number in inventory.users.items():
        users[_name(user, pods)] += number
    ordered = sorted(users.items(), key=lambda one: (-one[1], natural(one[0])))
    text = (
        f"{inventory.free} of {inventory.total} {inventory.what} that match "
        f"{'is' if inventory.free == 1 else 'are'} free"
    )
    parts = [f"{number} in use by {name}" for name, number in ordered[:NAMED]]
    rest = sum(number for _, number in ordered[NAMED:])
    parts += [f"{rest} by others"] if rest else []
    return ", ".join((text, *parts))


def _name(user: str, pods: PodIndex) -> str:
    """Return the name of a device's user: that of its group, if it has one."""
    placed = pods.get(user)
    if placed is None:
        return user
    key = group_of(placed.pod)
    if not key or is_by_object(key):  # an application may be a gang or not; a pod is a pod
        return f"the pod {placed.pod.key}"
    return f"the group {title(key)}"
