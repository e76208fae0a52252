"""The preferences of members' claims: which places are tried first.

A request of a claim may name alternatives, the best first. The group's level rules come before
these preferences, few units of levels without a rule come after them. A group is first planned
where every member gets its best alternative, then with the fewest members that get a worse one. If
no such plan is valid, all places are equal. Pure.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix
from scheduler.framework.groups import Fits
from scheduler.framework.status import Status, unschedulable
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.planning import NodeProblem, rule
from scheduler.groups.planning.roles.roles import RoleMembers
from scheduler.groups.planning.task import GroupTask, Steps
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import DomainRule


class PreferredPlaces(msgspec.Struct, frozen=True):
    """Limits on the members of each row: at most the slots, at least `least` (None: 0), and at most
    `at_most` in total on the rows `worse`, if set. A plan with these limits is accepted if the
    values of the group's own stages equal `own`, the best possible ones.
    """

    slots: IntColumn
    least: IntColumn | None = None
    worse: BoolColumn | None = None
    at_most: int = 0
    own: tuple[SolvedStage, ...] = ()

    def keeps(self, spec: GroupSpec, stages: Sequence[SolvedStage]) -> bool:
        """Return whether a plan with these stages is as good by the group's own terms."""
        values = [one.value for one in self.own]
        return not values or values == [one.value for one in own_stages(spec, stages)]


def own_stages(spec: GroupSpec, stages: Sequence[SolvedStage]) -> tuple[SolvedStage, ...]:
    """Return the stages of the levels that the group names itself."""
    return tuple(one for one in stages if one.level in spec.constraints)


def places(
    costs: IntMatrix, slots: IntColumn, count: int, *, is_ruled: bool
) -> Iterator[PreferredPlaces]:
    """Yield the sets of places to try for `count` identical members, the best first; nothing if all
    places are equal.

    `costs` [members - 1, row] is what that many members lack on a row. With `is_ruled` some level
    has a rule that binds.
    """
    steps, there = _steps(costs, slots)
    values = np.unique(steps[there]).tolist()
    for before, value in pairwise([None, *values]):
        within = _within(steps, there, value)
        if int(within.sum()) < count:
            continue
        if before is not None:
            better = _within(steps, there, before)
            if not is_ruled and int(better.sum()) <= count:
                # No rule keeps a member from a better place: a best plan uses all of these places.
                yield PreferredPlaces(within, least=better)
            yield from _mostly(better, within, count)
        if value != values[-1]:
            yield PreferredPlaces(within)


def _mostly(better: IntColumn, within: IntColumn, count: int) -> Iterator[PreferredPlaces]:
    """Yield limits with the fewest members on inferior rows; rows with better places are used for
    better places only.
    """
    worse = (better == 0) & (within > 0)
    slots = np.where(worse, within, better)
    fewest = max(1, count - int(better.sum()))
    more = 0
    while fewest + more < count and int(slots.sum()) >= count:
        yield PreferredPlaces(slots, None, worse, fewest + more)
        more = max(1, 2 * more)


def placed(
    task: GroupTask,
    fits: Fits,
    own: tuple[SolvedStage, ...],
    within: Callable[[GroupTask, PreferredPlaces], Steps],
) -> Steps:
    """Place members with the preferred devices of their claims; a refusal if that is impossible.

    `own` are the best stages of the group's own terms, `within` places members in preferred places.
    """
    rules = map(rule, task.spec.constraints.values())
    is_ruled = any(one.hard or one.has_numbers for one in rules)
    slots, count = task.allowed(fits.slots), len(task.context.members)
    costs = fits.costs
    for one in () if costs is None else places(costs, slots, count, is_ruled=is_ruled):
        plan = yield from within(task, msgspec.structs.replace(one, own=own))
        if not isinstance(plan, Status) or not plan.is_rejected:
            return plan
    return unschedulable()


def placed_roles(task: GroupTask, place: Callable[[GroupTask], Steps]) -> Steps:
    """Place heterogeneous members with the preferred devices of their claims if possible.

    A group with terms of its own is placed by these alone.
    """
    has_terms = bool(task.shapes or task.spec.constraints or task.spec.classes)
    for roles in () if has_terms else narrowed(task.roles):
        plan = yield from place(msgspec.structs.replace(task, roles=roles, wants_all=True))
        if not isinstance(plan, Status) or not plan.is_rejected:
            return plan
    return (yield from place(task))


def narrowed(roles: Sequence[RoleMembers]) -> Iterator[list[RoleMembers]]:
    """Yield members of several roles with the places that each prefers, the best first; nothing if
    all are equal.
    """
    steps = [None if one.costs is None else _steps(one.costs, one.slots) for one in roles]
    found = [np.unique(own[0][own[1]]) for own in steps if own is not None]
    values = np.unique(np.concatenate(found)).tolist() if found else []
    for value in values[:-1]:
        slots = [
            one.slots if own is None else _within(*own, value)
            for one, own in zip(roles, steps, strict=True)
        ]
        if all(int(each.sum()) >= len(one.pods) for one, each in zip(roles, slots, strict=True)):
            yield [
                msgspec.structs.replace(one, slots=each)
                for one, each in zip(roles, slots, strict=True)
            ]


def preferring(found: NodeProblem, preferred: PreferredPlaces) -> NodeProblem:
    """Return the problem with the minimum and maximum members per row that the preferences set."""
    instance, least = found.instance, preferred.least
    if least is not None:
        more = tuple(int(least[row]) if row < len(least) else 0 for row in found.rows)
        leaves = tuple(
            msgspec.structs.replace(leaf, fixed=leaf.fixed + number)
            for leaf, number in zip(instance.leaves, more, strict=True)
        )
        return msgspec.structs.replace(
            found, instance=msgspec.structs.replace(instance, leaves=leaves), least=more
        )
    worse = preferred.worse
    if worse is None:
        return found
    on_them = tuple(at for at, row in enumerate(found.rows) if row < len(worse) and worse[row])
    fixed = sum(instance.leaves[at].fixed for at in on_them)
    limit = DomainRule("preference", (on_them,), at_most=preferred.at_most + fixed)
    instance = msgspec.structs.replace(instance, domains=(*instance.domains, limit))
    return msgspec.structs.replace(found, instance=instance)


def _steps(costs: IntMatrix, slots: IntColumn) -> tuple[IntMatrix, np.ndarray]:
    """Return the cost of each further member on a row, made non-decreasing, and a mask of the
    places that exist.
    """
    further = np.diff(costs, axis=0, prepend=0)
    there = np.arange(1, len(costs) + 1)[:, None] <= slots[: costs.shape[1]]
    return np.maximum.accumulate(further, axis=0), there


def _within(steps: IntMatrix, there: np.ndarray, value: int) -> IntColumn:
    """Return by row how many members cost at most `value` each."""
    return np.asarray(((steps <= value) & there).sum(axis=0))
