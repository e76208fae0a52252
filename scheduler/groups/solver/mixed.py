"""Groups of unlike members: several kinds of pods, each with its own request, over common leaves.

The rules of the levels hold for all pods together, whatever their kind, those of classes
(scheduler.groups.problem.classes) for theirs. `solve` looks for the most pods,
and of those placements for the best by the levels from the top down, as for like members; it proves
that there is no better one, or says of which stage it does not know. `evict` finds the fewest victims
that make room for `minimum` pods. A descent (large pods first, the fullest leaf that takes them) finds
what is easy, scheduler.groups.solver.mixedsearch improves and proves. Called by scheduler.groups.solver.questions.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
import numpy as np

from scheduler.base.clock import perf_s
from scheduler.base.errors import StateError
from scheduler.groups.problem import checker
from scheduler.groups.problem.answer import NOTHING, SolvedStage
from scheduler.groups.problem.instance import LevelRule, SolveLimits
from scheduler.groups.problem.parts import PlacedPart
from scheduler.groups.problem.roles import Mixed, MixedAnswer, MixedPreemption
from scheduler.groups.solver import mixedalike, mixedflows, mixedguess, mixednear, mixedstages, tree
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.mixedbounds import bounds
from scheduler.groups.solver.pieces import split
from scheduler.groups.solver.tree import Ints

MEANINGFUL_S = 0.02
# The share of the time left that the traffic bound may use.
PAID_PART = 0.5
Rows: TypeAlias = tuple[tuple[int, ...], ...]


def solve(group: Mixed, limits: SolveLimits) -> MixedAnswer:
    """Return the best placement, or that fewer than `minimum` pods fit anywhere."""
    started = perf_s()
    found = _best(group, limits, Deadline(limits.total_s))
    if found.counts is None:
        outcome: Literal["infeasible", "unknown"] = "infeasible" if found.is_proven else "unknown"
        return MixedAnswer(outcome, optimal=found.is_proven, seconds=_since(started))
    counts, pieces = _checked(group, found.counts)
    is_proven = all(stage.proven for stage in found.stages)
    return MixedAnswer(
        "placed", counts, {}, is_proven, _since(started), stages=found.stages, pieces=pieces
    )


def fits(group: Mixed, limits: SolveLimits, left_s: Deadline, part: float) -> bool | None:
    """Return whether at least the minimum fits; None when a `part` of the time left does not tell."""
    if _is_hopeless(group):
        return False
    if group.links and not mixedflows.parts_of(group):
        return None
    if any(_guess(group, is_filling=one).counts is not None for one in (True, False)):
        return True
    with left_s.loading():
        from scheduler.groups.solver import mixedsearch
    return mixedsearch.exists(group, limits, part * left_s())


def evict(problem: MixedPreemption, limits: SolveLimits) -> MixedAnswer:
    """Return the least harm that lets `minimum` pods of the group in: budgets, pods, groups."""
    from scheduler.groups.solver import mixedvictims

    started = perf_s()
    group = problem.group
    best: tuple[tuple[int, ...], Ints, dict[int, int]] | None = None
    is_proven = True
    for leaves in units(group, _levels_in_one_unit(group)):
        if sum(group.part(leaves.tolist()).held) < sum(group.held):
            continue  # others of the group stand in another unit
        left = limits.total_s - (perf_s() - started)
        if left < MEANINGFUL_S:
            is_proven = False
            break
        found = mixedvictims.least_harm(problem, leaves, limits, left)
        is_proven = is_proven and found.is_proven
        if found.harm and (best is None or found.harm < best[0]):
            counts = np.zeros((len(group.kinds), len(group.paths)), dtype=np.int64)
            counts[:, leaves] = found.counts
            best = found.harm, counts, found.evicted
    if best is None:
        return MixedAnswer(
            "infeasible" if is_proven else "unknown", optimal=is_proven, seconds=_since(started)
        )
    rows = tuple(tuple(row) for row in best[1].tolist())
    pieces = tuple(split(group, rows) or ()) if group.parts else ()
    return MixedAnswer("placed", rows, best[2], is_proven, _since(started), pieces=pieces)


def _checked(group: Mixed, found: Ints) -> tuple[Rows, tuple[PlacedPart, ...]]:
    """Return the rows of a placement, and its pieces; StateError when it is none."""
    rows = tuple(tuple(row) for row in found.tolist())
    pieces = split(group, rows) if group.parts else []
    wrong = checker.problems(group, rows, pieces)
    if wrong or pieces is None:
        raise StateError(f"a wrong answer for unlike members: {'; '.join(wrong[:3])}")
    return rows, tuple(pieces)


class MixedResult(msgspec.Struct, frozen=True):
    """The best that is known: pods by kind and leaf (None: nothing), its stages with bounds.

    Without a placement, `is_proven` says that there is none.
    """

    counts: Ints | None
    stages: tuple[SolvedStage, ...] = ()
    is_proven: bool = False

    @property
    def values(self) -> list[int]:
        """Return the value of every stage, the most important first."""
        return [stage.value for stage in self.stages]


class KnownLimits(msgspec.Struct, frozen=True):
    """A placement that breaks no rule, if one is known, and what none is better than; nothing fits if `is_none`.

    Each of `limits` holds while all before it are met. Without any, nothing is known.
    """

    limits: list[int]
    counts: Ints | None = None
    is_none: bool = False


def _best(group: Mixed, limits: SolveLimits, left_s: Deadline) -> MixedResult:
    """Return the best placement: inside of one unit where that is wanted and possible, else in all."""
    if _is_hopeless(group):
        return MixedResult(None, is_proven=True)
    if group.links and not mixedflows.parts_of(group):
        return MixedResult(None)
    level = first_with_several(group)
    rule = group.levels[level - 1].rule if level else LevelRule("spread")
    best = MixedResult(None)
    is_wished = rule.is_hard_pack or (rule.kind == "pack" and level - 1 not in group.unwished)
    if is_wished and rule.units_per_parent <= 1 and level < len(group.levels):
        best = _in_one_unit(group, level, limits, left_s)
        is_whole = best.counts is not None and int(best.counts.sum()) == group.wanted
        if rule.is_hard_pack or (is_whole and best.is_proven):
            return best
    elif _is_free_together(group, level):
        best = _in_one_unit(group, level, limits, left_s)
        if best.counts is not None and best.is_proven and best.values[0] == 0:
            return best  # whoever else pays nothing is in one unit, too
    known = bounds(group)
    guess, least = best, KnownLimits([])
    if guess.counts is None:
        guess = _better(_guess(group, is_filling=True), _guess(group, is_filling=False))
        if guess.values != known:
            least = _by_leaves(group, limits, left_s)
        if least.is_none:
            return MixedResult(None, is_proven=True)
        if least.counts is not None:
            guess = _better(guess, valid(group, least.counts))
        if guess.counts is not None and guess.values == least.limits:
            return _told(group, guess.counts, least.limits)
        for near in mixednear.near_by(group) if group.traffic and guess.values != known else ():
            guess = _better(guess, valid(group, near))
            if guess.values in (known, least.limits):
                break
    if guess.counts is not None and guess.values in (known, least.limits):
        return _told(group, guess.counts, guess.values)
    if left_s() < MEANINGFUL_S:
        if guess.counts is None:
            return guess
        told = max(least.limits, up_to_a_gap(guess.values, known))
        return _told(group, guess.counts, up_to_a_gap(guess.values, told))
    if guess.counts is not None and group.traffic:
        known = _paid(group, guess, known, limits, left_s)
        if guess.values == known:
            return _told(group, guess.counts, known)
    made = tree.build(group.alike(), with_full=True)
    alike = mixedalike.best(group, mixedstages.stages(group, made), limits, left_s())
    if alike.is_none:
        return MixedResult(None, is_proven=True)
    if alike.counts is not None:
        own = valid(group, alike.counts)
        guess = _better(guess, own)
        if own.counts is not None and tuple(own.values) == alike.values:
            return _told(group, own.counts, alike.values)
    # Limits, each of which holds while those before it are met.
    least_of_all = max(alike.values, tuple(least.limits))
    with left_s.loading():
        from scheduler.groups.solver import mixedsearch
    return mixedsearch.improved(group, guess, known, least_of_all, limits, left_s)


def _by_leaves(group: Mixed, limits: SolveLimits, left_s: Deadline) -> KnownLimits:
    """Return what the leaves alone prove about a group with traffic; uses a part of the time."""
    if not group.traffic or group.costs.areas:
        return KnownLimits([])
    with left_s.loading():
        from scheduler.groups.solver import mixedleaves
    return mixedleaves.best(group, limits, left_s) or KnownLimits([])


def _paid(
    group: Mixed, guess: MixedResult, bounds: Sequence[int], limits: SolveLimits, left_s: Deadline
) -> list[int]:
    """Return the stage bounds with a tightened traffic bound; uses at most PAID_PART of the time left.

    Where costs depend on levels alone, patterns of equal leaves prove them as fast.
    """
    if not group.costs.areas:
        return list(bounds)
    at = next((at for at, one in enumerate(guess.stages) if one.measure == "cost"), -1)
    if at < 0 or guess.counts is None or int(guess.counts.sum()) < group.wanted:
        return list(bounds)
    with left_s.loading():
        from scheduler.groups.solver import mixedcut
    reserved = left_s() * (1 - PAID_PART)
    paid = mixedcut.least(group, guess.values[at], limits, lambda: left_s() - reserved)
    return [*bounds[:at], max(bounds[at], paid), *bounds[at + 1 :]]


def _is_free_together(group: Mixed, level: int) -> bool:
    """Whether talk costs nothing in one unit of a level and something from one to another, and comes first.

    Everybody has to be placed for that, and to talk to all others, over some at least.
    """
    steps, classes = group.costs.steps, group.classes
    if not group.traffic or group.costs.areas or not 0 < level < len(group.levels):
        return False
    is_first = all(at in group.unwished for at in range(len(group.levels)))
    is_first = is_first and not any(one.rules for one in classes) and group.least == group.wanted
    if not is_first or not sum(steps[:level]) or any(steps[level:]):
        return False
    pods = [sum(group.kinds[kind].count for kind in one.kinds) + sum(one.held) for one in classes]
    there = {number for number, count in enumerate(pods) if count}
    reached, at = set[int](), [min(there, default=0)]
    while at:
        reached.add(one := at.pop())
        pairs = ({each.first, each.second} for each in group.traffic if each.weight)
        at += {other for pair in pairs if one in pair for other in pair & there} - reached
    of_classes = sum(len(one.kinds) for one in classes)
    return reached >= there and of_classes == len(group.kinds)


def _in_one_unit(group: Mixed, level: int, limits: SolveLimits, left_s: Deadline) -> MixedResult:
    """Return the best placement with all pods in one unit of a level.

    Units are looked at in the order of what they could offer at best, so that most need no look.
    """
    parts = [(leaves, group.part(leaves.tolist())) for leaves in units(group, level)]
    held = sum(group.held)
    parts = [
        (leaves, part)
        for leaves, part in parts
        if sum(part.held) == held and not _is_hopeless(part)
    ]
    ordered = sorted(
        ((bounds(part), at) for at, (_, part) in enumerate(parts)), key=lambda pair: pair
    )
    best, is_proven = MixedResult(None), True
    known = {at: least for least, at in ordered}
    for least, at in ordered:
        if best.counts is not None and best.values <= least:
            break
        if left_s() < MEANINGFUL_S:
            is_proven = False
            break
        leaves, part = parts[at]
        found = _best(part, limits, left_s)
        if found.counts is None:
            is_proven = is_proven and found.is_proven
            if found.is_proven:
                del known[at]  # nothing can be placed there, however good it would be
            continue
        known[at] = [stage.bound for stage in found.stages]
        if best.counts is None or found.values < best.values:
            counts = np.zeros((len(group.kinds), len(group.paths)), dtype=np.int64)
            counts[:, leaves] = found.counts
            best = MixedResult(counts, found.stages)
    if best.counts is None:
        return MixedResult(None, is_proven=is_proven)
    return _told(group, best.counts, up_to_a_gap(best.values, min(known.values())))


def up_to_a_gap(values: Sequence[int], bounds: Sequence[int]) -> list[int]:
    """Return the bounds up to the first stage that is not proven: they say nothing of later ones."""
    open_ones = (
        at for at, (value, bound) in enumerate(zip(values, bounds, strict=True)) if bound < value
    )
    first = next(open_ones, len(values))
    return [bound if at <= first else NOTHING for at, bound in enumerate(bounds)]


def _told(group: Mixed, counts: Ints, bounds: Sequence[int] = ()) -> MixedResult:
    values = objective_of(group, counts)
    stages = tuple(
        SolvedStage(level, measure, value, min(bound, value))
        for (level, measure, value), bound in zip(
            values, bounds or [NOTHING] * len(values), strict=True
        )
    )
    return MixedResult(counts, stages, all(stage.proven for stage in stages))


def objective_of(group: Mixed, counts: Ints) -> list[tuple[str, str, int]]:
    """Return (level, measure, value) of every stage for pods by kind and leaf."""
    return checker.objective(group, counts.tolist())


def _is_hopeless(group: Mixed) -> bool:
    """Whether these leaves have too little of something, all together."""
    room = group.room()
    least = group.least
    if int(room.sum()) < least:
        return True
    if least < group.wanted:
        return False
    free = np.array(group.free, dtype=np.int64).clip(min=0).sum(axis=0)
    requests = np.array([kind.request for kind in group.kinds], dtype=np.int64)
    counts = np.array([kind.count for kind in group.kinds], dtype=np.int64)
    slots = np.array([kind.slots for kind in group.kinds], dtype=np.int64)
    return bool(((counts @ requests) > free).any() or (slots.sum(axis=1) < counts).any())


def first_with_several(group: Mixed) -> int:
    """Return the first level with several units that could be used, 0 when there is none."""
    room = group.room()
    usable = [at for at in range(len(group.paths)) if room[at] or (group.held and group.held[at])]
    depth = len(group.levels)
    paths = [tree.filled(group.paths[at], depth) for at in usable]
    for level in range(1, depth + 1):
        if len({path[:level] for path in paths}) > 1:
            return level
    return 0


def _levels_in_one_unit(group: Mixed) -> int:
    """Return how many of the topmost levels keep all pods in one unit each."""
    found = 0
    for level in group.levels[:-1]:
        if not level.rule.is_hard_pack:
            break
        found += 1
    return found


def units(group: Mixed, level: int) -> list[Ints]:
    """Return the leaves of each unit of a level, in the order of their paths; 0 is the root."""
    by_unit: dict[tuple[str, ...], list[int]] = defaultdict(list)
    depth = len(group.levels)
    for leaf, path in enumerate(group.paths):
        by_unit[tree.filled(path, depth)[:level]].append(leaf)
    return [np.array(by_unit[unit], dtype=np.int64) for unit in sorted(by_unit)]


def _better(one: MixedResult, other: MixedResult) -> MixedResult:
    if one.counts is None or (other.counts is not None and other.values < one.values):
        return other
    return one


def _guess(group: Mixed, *, is_filling: bool) -> MixedResult:
    """Return what a descent finds, with no bound; nothing if it breaks a rule of a level."""
    return valid(group, mixedguess.descent(group, is_filling=is_filling))


def valid(group: Mixed, counts: Ints) -> MixedResult:
    """Return a placement with no bound; nothing if it breaks a rule."""
    rows = counts.tolist()
    if checker.problems(group, rows, split(group, rows) if group.parts else ()):
        return MixedResult(None)
    return _told(group, counts)


def _since(started: float) -> float:
    return round(perf_s() - started, 6)
