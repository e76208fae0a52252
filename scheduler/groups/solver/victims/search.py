"""The search for victims: the evictions with the least harm after which a group fits, with proof.

Harm is compared in this order: violated budgets (or they are forbidden), pods by priority from the
highest, pods that fit no other node, groups (a single pod is a group). Victims are chosen for the
group's minimum; the placement afterwards takes as many pods as fit. Without budgets, feasibility
checks find the highest priority that must lose pods; while one priority is decided, all candidates
below it are assumed evicted. Groups of one role and of several use the same search
(scheduler.groups.solver.victims.onerole, scheduler.groups.solver.victims.severalroles). All stages
share one deadline. At their limit, victims are dropped where feasibility checks show that the
others suffice, and the result is what is known then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from scheduler.groups.problem.answer import Outcome, SolvedStage
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.solver.deadline import Deadline
from scheduler.groups.solver.victims import freed
from scheduler.groups.solver.victims.freed import Choice, EvictionProblem

if TYPE_CHECKING:
    from scheduler.groups.solver.victims.model import StageDecision, StageTask

# Shares of the whole time: the stages end at SEARCH, dropping needless victims at BEFORE_END. The
# rest is for the placement.
SEARCH, BEFORE_END = 0.8, 0.9
STAGE = 0.7  # the share of the time left that one stage may use
MEANINGFUL_S = 0.005


class EvictingGroup(Protocol):
    """The group that victims are evicted for."""

    def verdict(self, evicted: Choice, left_s: float) -> Outcome:
        """Return whether the group fits after these evictions; unknown if that takes too long."""

    def minimise(
        self, task: StageTask, limits: SolveLimits, seconds: float, hint: Choice
    ) -> StageDecision:
        """Minimise one stage of the harm; earlier stages keep their values."""

    def is_hopeless(self, evicted: Choice) -> bool:
        """Return whether the total capacity is too small even after these evictions."""


class VictimSearch:
    """One search: the best evictions known to suffice, and the stages decided so far.

    `known` is None until evictions that suffice are found; `is_infeasible` states that none exist.
    """

    def __init__(
        self, problem: EvictionProblem, group: EvictingGroup, limits: SolveLimits, clock: Deadline
    ) -> None:
        self._problem = problem
        self._group = group
        self._limits = limits
        self._clock = clock
        self.stages: list[SolvedStage] = []
        self._frozen: list[tuple[dict[int, int], int]] = []  # pods by priority
        self._tied: list[tuple[dict[int, int], int]] = []  # stranded pods
        self._violations: int | None = 0 if problem.forbid else None
        self._budgeted = _budgeted(problem)
        self._eligible: tuple[int, ...] = ()
        self._knows_stranded = any(one.stranded for one in problem.candidates)
        self.known: dict[int, int] | None = None
        self.is_infeasible = False

    def run(self) -> None:
        """Decide all stages."""
        if self._suffices({}):
            self.known = {}
            self._nothing_to_do()
            return
        everybody = self._all_of(range(len(self._problem.candidates)))
        if not self._more_is_better:
            self._one_by_one()
            return
        verdict = self._verdict(everybody)
        if verdict != "placed":
            self.is_infeasible = verdict == "infeasible"
            return
        if self._problem.budgets:
            self._with_budgets(everybody)
        else:
            self._eligible = self._up_to_need()
            self.known = self._all_of(self._eligible)
        if self.known is None:
            return
        for priority in self._priorities():
            self._least_pods(priority)
        self._fewest_stranded()
        self._fewest_groups()
        if not all(stage.proven for stage in self.stages):
            self._keep_victims()

    @property
    def _more_is_better(self) -> bool:
        """Return whether a group that fits after some evictions also fits after more evictions.

        False if candidates count in a skew rule: evicting them lowers the minimum over domains.
        """
        return not any(one.counted for one in self._problem.candidates)

    def _one_by_one(self) -> None:
        """Decide all stages over all candidates; none is assumed evicted."""
        self._eligible = tuple(range(len(self._problem.candidates)))
        if self._group.is_hopeless(self._all_of(self._eligible)):
            self.is_infeasible = True
            return
        if self._problem.budgets:
            found = self._minimise(self._eligible, (), None)
            self.known = found.chosen
            self.is_infeasible = found.is_infeasible
            if found.chosen is None:
                return
            value = freed.violations(self._problem, found.chosen)
            self._violations = value
            self.stages.append(
                SolvedStage("", "violations", value, min(found.bound, value), "CP-SAT")
            )
            if self._problem.forbid and value:
                self.known = None
                self.is_infeasible = found.bound > 0
                return
        for priority in self._priorities():
            self._least_pods(priority)
            if self.known is None:
                return
        self._fewest_stranded()
        self._fewest_groups()

    @property
    def outcome(self) -> Outcome:
        """Return the outcome of a search without known victims."""
        return "infeasible" if self.is_infeasible else "unknown"

    def left_s(self, share: float) -> float:
        """Return the seconds until a share of the whole time is used."""
        return share * self._clock.total - self._clock.spent

    def _nothing_to_do(self) -> None:
        """Set every stage to a proven 0: the group fits without evictions."""
        if self._problem.budgets:
            self.stages.append(SolvedStage("", "violations", 0, 0, "feasibility"))
        self._eligible = tuple(range(len(self._problem.candidates)))
        for priority in self._priorities():
            self.stages.append(SolvedStage(str(priority), "pods", 0, 0, "feasibility"))
        if self._knows_stranded:
            self.stages.append(SolvedStage("", "stranded", 0, 0, "feasibility"))
        self.stages.append(SolvedStage("", "groups", 0, 0, "feasibility"))

    def _up_to_need(self) -> tuple[int, ...]:
        """Return the candidates up to the lowest priority at which evicting all of them suffices.

        Candidates of higher priority are in no best answer; their stages are a proven 0.
        """
        candidates = self._problem.candidates
        priorities = sorted({each.priority for each in candidates})
        low, high = 0, len(priorities) - 1
        while low < high:
            middle = (low + high) // 2
            some = [i for i, one in enumerate(candidates) if one.priority <= priorities[middle]]
            if self._suffices(self._all_of(some)):
                high = middle
            else:
                low = middle + 1
        for priority in reversed(priorities[low + 1 :]):
            self.stages.append(SolvedStage(str(priority), "pods", 0, 0, "feasibility"))
        return tuple(i for i, one in enumerate(candidates) if one.priority <= priorities[low])

    def _with_budgets(self, everybody: dict[int, int]) -> None:
        """Minimise violations first, with all candidates without a budget assumed evicted."""
        candidates = self._problem.candidates
        self._eligible = tuple(range(len(candidates)))
        covered = tuple(i for i in self._eligible if i in self._budgeted)
        others = tuple(i for i in self._eligible if i not in self._budgeted)
        self.known = None if self._problem.forbid else everybody
        if self._suffices(self._all_of(others)):
            self.known = self._all_of(others)
            value = bound = 0
            by = "feasibility"
        else:
            found = self._minimise(covered, others, None)
            value, bound, by = self._violated(found, others), found.bound, "CP-SAT"
            if self._problem.forbid and (value > 0 or self.known is None):
                self.is_infeasible = found.is_infeasible or bound > 0
                self.known = None
                return
        self._violations = value
        self.stages.append(SolvedStage("", "violations", value, min(bound, value), by))

    def _violated(self, found: StageDecision, others: tuple[int, ...]) -> int:
        """Take the evictions of the violations stage as known; return its value."""
        if found.chosen is not None:
            self.known = found.chosen | self._all_of(others)
        return freed.violations(self._problem, self.known or {})

    def _priorities(self) -> list[int]:
        """Return the priorities of the eligible candidates, the highest first."""
        candidates = self._problem.candidates
        return sorted({candidates[i].priority for i in self._eligible}, reverse=True)

    def _least_pods(self, priority: int) -> None:
        """Minimise the evicted pods of one priority; candidates below it are assumed evicted."""
        candidates = self._problem.candidates
        own = {i: candidates[i].pods for i in self._eligible if candidates[i].priority == priority}
        gone = tuple(
            i
            for i in self._eligible
            if candidates[i].priority < priority
            and i not in self._budgeted
            and self._more_is_better
        )
        spared = {i: n for i, n in self._evicted().items() if i not in own} | self._all_of(gone)
        if self._suffices(spared):
            self.known = spared
            self._keep(own, SolvedStage(str(priority), "pods", 0, 0, "feasibility"))
            return
        decided = tuple(i for i in self._eligible if i not in set(gone))
        found = self._minimise(decided, gone, own)
        if found.chosen is not None:
            self.known = found.chosen | self._all_of(gone)
        if self.known is None:
            self.is_infeasible = found.is_infeasible
            return
        value = freed.pods(self._problem, self._evicted(), priority)
        # Sparing this priority did not suffice. Without victims of higher priority, whose choice
        # could change that, at least one victim is needed here.
        is_first = (
            self._more_is_better
            and not self._problem.budgets
            and not any(kept for _, kept in self._frozen)
        )
        least = max(found.bound, min(own.values()) if is_first else 0)
        self._keep(own, SolvedStage(str(priority), "pods", value, min(value, least), "CP-SAT"))

    def _fewest_stranded(self) -> None:
        """Minimise the evicted pods that fit no other node, with earlier stages kept."""
        weights = {i: self._problem.candidates[i].stranded for i in self._eligible}
        if not self._knows_stranded:
            return
        value, bound, by = freed.stranded(self._problem, self._evicted()), 0, "counting"
        if value:
            found = self._minimise(self._eligible, (), weights)
            if found.chosen is not None:
                self.known = found.chosen
            value = freed.stranded(self._problem, self._evicted())
            bound, by = found.bound, "CP-SAT"
        self.stages.append(SolvedStage("", "stranded", value, min(bound, value), by))
        self._tied.append((weights, value))

    def _fewest_groups(self) -> None:
        """Minimise the groups that lose pods, with earlier stages kept; a single pod is a group."""
        elastic = {index for group in self._problem.elastic for index in group.candidates}
        weights = {
            index: 0 if index in elastic else self._problem.candidates[index].groups
            for index in self._eligible
        }
        value, bound, by = freed.groups(self._problem, self._evicted()), self._least_groups(), ""
        if bound < value:
            found = self._minimise(self._eligible, (), weights, counts_ended=True)
            if found.chosen is not None:
                self.known = found.chosen
            value = freed.groups(self._problem, self._evicted())
            bound, by = max(bound, found.bound), "CP-SAT"
        self.stages.append(SolvedStage("", "groups", value, min(bound, value), by or "counting"))

    def _least_groups(self) -> int:
        """Return a lower bound of groups, from the number of evicted pods at each priority."""
        if self._problem.elastic:
            return 0  # evictions within a surplus count as no group
        total = 0
        for weights, value in self._frozen:
            if value:
                candidates = self._problem.candidates
                total += -(-value // max(n // candidates[i].groups for i, n in weights.items()))
        return total

    def _keep_victims(self) -> None:
        """Drop victims that are not needed, from the highest priority on.

        First shorten the list by bisection, even after the deadline; then try blocks of halving
        size.
        """
        candidates, known = self._problem.candidates, self._shortened(self._evicted())
        order = sorted(known, key=lambda i: (-candidates[i].priority, -candidates[i].pods, i))
        number = len(order)
        while number:
            for first in range(0, len(order), number):
                spared = set(order[first : first + number])
                if self.left_s(BEFORE_END) <= 0:
                    break
                fewer = {index: times for index, times in known.items() if index not in spared}
                fewer = freed.closed(self._problem, fewer)
                if len(fewer) < len(known) and self._suffices(fewer):
                    known = fewer
            number //= 2
        self.known = known
        self.stages = [self._as_known(stage) for stage in self.stages]

    def _shortened(self, known: dict[int, int]) -> dict[int, int]:
        """Return a subset of evictions that suffices: the shortest prefix by harm, then its suffix.

        Needed if a stage had no time, because all candidates assumed evicted are then victims. It
        takes about ten feasibility checks, for which no time limit applies with one role.
        """
        candidates = self._problem.candidates

        def place(index: int) -> tuple[bool, int, int, int]:
            one = candidates[index]
            return index in self._budgeted, one.priority, min(one.freed, default=0), index

        order = sorted(known, key=place)
        singles = [index for index in order for _ in range(known[index])]
        last = self._least(len(singles), lambda many: singles[:many])
        kept = singles[:last]
        least = self._least(len(kept), lambda many: kept[len(kept) - many :])
        found = freed.closed(self._problem, Counter(kept[len(kept) - least :]))
        return found if self._suffices(found) else known

    def _least(self, most: int, some: Callable[[int], Sequence[int]]) -> int:
        """Return the least number for which the evictions `some(number)` suffice, by bisection."""
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            if self._suffices(freed.closed(self._problem, Counter(some(middle)))):
                high = middle
            else:
                low = middle + 1
        return high

    def _as_known(self, stage: SolvedStage) -> SolvedStage:
        """Return a stage with the value of the known evictions."""
        problem, known = self._problem, self._evicted()
        if stage.measure == "pods":
            value = freed.pods(problem, known, int(stage.level))
        elif stage.measure == "groups":
            value = freed.groups(problem, known)
        elif stage.measure == "stranded":
            value = freed.stranded(problem, known)
        else:
            value = freed.violations(problem, known)
        return msgspec.structs.replace(stage, value=value, bound=min(stage.bound, value))

    def _keep(self, weights: dict[int, int], stage: SolvedStage) -> None:
        self.stages.append(stage)
        self._frozen.append((weights, stage.value))

    def _minimise(
        self,
        decided: tuple[int, ...],
        gone: tuple[int, ...],
        weights: dict[int, int] | None,
        *,
        counts_ended: bool = False,
    ) -> StageDecision:
        """Run one stage in CP-SAT within its share of the time."""
        with self._clock.loading():
            from scheduler.groups.solver.victims.model import StageDecision, StageTask

        kept = (*self._frozen, *self._tied)
        task = StageTask(decided, gone, weights, kept, self._violations, counts_ended)
        share = STAGE if gone else 1.0
        seconds = min(self._limits.stage_s, self.left_s(SEARCH) * share)
        if seconds < MEANINGFUL_S:
            return StageDecision(None, 0)
        return self._group.minimise(task, self._limits, seconds, self._evicted())

    def _suffices(self, evicted: Choice) -> bool:
        return self._verdict(evicted) == "placed"

    def _verdict(self, evicted: Choice) -> Outcome:
        return self._group.verdict(evicted, self.left_s(BEFORE_END))

    def _evicted(self) -> dict[int, int]:
        return self.known or {}

    def _all_of(self, some: Iterable[int]) -> dict[int, int]:
        return {index: self._problem.candidates[index].count for index in some}


def _budgeted(problem: EvictionProblem) -> frozenset[int]:
    """Return the candidates with a budget, and all candidates of an elastic group with one."""
    found = {index for index, one in enumerate(problem.candidates) if one.budgets}
    for group in problem.elastic:
        if not found.isdisjoint(group.candidates):
            found.update(group.candidates)
    return frozenset(found)
