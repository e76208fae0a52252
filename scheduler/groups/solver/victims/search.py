"""Who is evicted for a group: the least harm that makes it fit, with proof.

Violated budgets come first (or are forbidden), then pods by priority from the highest eligible one
down, then groups (a single pod is a group of one). No pod is evicted for more pods than the group's
minimum; what is free then takes as many as there is room for. Where budgets play no part, plain
feasibility tells the highest priority that has to suffer, and everybody below is imagined gone
while that one is decided. Then the group is placed into the freed room. Nothing here evicts
anybody.

All of it shares one deadline. When the search has used up its part, victims that can be spared
without asking CP-SAT is spared, and what is known then counts, with the bounds that were proven.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from scheduler.base.clock import perf_s
from scheduler.groups.problem.answer import Outcome, SolvedStage, SolvedVictims, SolverAnswer
from scheduler.groups.problem.instance import Leaf, PreemptionInstance, SolveLimits
from scheduler.groups.solver import solve as placing
from scheduler.groups.solver import tree
from scheduler.groups.solver.exact import fold
from scheduler.groups.solver.victims import freed
from scheduler.groups.solver.victims.bundles import Bundles
from scheduler.groups.solver.victims.freed import Choice, EvictionRoom

if TYPE_CHECKING:
    from scheduler.groups.solver.victims.victimmodel import StageDecision


# The parts of the whole time after which the stages end, and sparing others afterwards; the rest is
# left for the placement.
SEARCH, SPARE = 0.8, 0.9
STAGE = 0.7  # how much of what is left a stage may take: the next ones need some as well
MEANINGFUL_S = 0.005


def solve(problem: PreemptionInstance, limits: SolveLimits | None = None) -> SolvedVictims:
    """Return the best victims and the placement after them.

    `infeasible` when the group would not fit even if all candidates went, or not without violating
    budgets where that is forbidden. InputError when the problem contradicts itself.
    """
    # Loading CP-SAT can take longer than a small search, so that is not on the search's clock.

    started = perf_s()
    tree.check(problem.instance)
    search = VictimSearch(problem, limits or SolveLimits(), started)
    search.run()
    return search.result()


class VictimSearch:
    """One search: the evictions known to suffice so far, and the stages that are decided."""

    def __init__(self, problem: PreemptionInstance, limits: SolveLimits, started: float) -> None:
        self._asked = problem.instance
        self._bundles = Bundles(
            msgspec.structs.replace(problem, instance=fold.folded(problem.instance))
        )
        self._problem = problem = self._bundles.problem
        self._limits = limits
        self._started = started
        self._room = EvictionRoom(problem)
        self._stages: list[SolvedStage] = []
        self._frozen: list[tuple[dict[int, int], int]] = []
        self._violations: int | None = 0 if problem.forbid else None
        self._budgeted = _budgeted(problem)
        self._eligible: tuple[int, ...] = ()
        self._known: dict[int, int] | None = None
        self._is_infeasible = False

    def run(self) -> None:
        """Decide all stages."""
        if self._suffices({}):
            self._known = {}
            self._nothing_to_do()
            return
        everybody = self._all_of(range(len(self._problem.candidates)))
        if not self._more_is_better:
            self._one_by_one()
            return
        verdict = self._verdict(everybody)
        if verdict != "placed":
            self._is_infeasible = verdict == "infeasible"
            return
        if self._problem.budgets:
            self._with_budgets(everybody)
        else:
            self._eligible = self._up_to_need()
            self._known = self._all_of(self._eligible)
        if self._known is None:
            return
        for priority in self._priorities():
            self._least_pods(priority)
        self._fewest_groups()
        if not all(stage.proven for stage in self._stages):
            self._spare()

    @property
    def _more_is_better(self) -> bool:
        """Whether a group that fits after some evictions also fits after more of them.

        Not where candidates count in a rule of spread: without them their domain is the emptiest.
        """
        return not any(one.counted for one in self._problem.candidates)

    def _one_by_one(self) -> None:
        """Decide all stages over all candidates, with no candidate assumed evicted."""
        self._eligible = tuple(range(len(self._problem.candidates)))
        shape = self._room.tree(self._all_of(self._eligible))
        if not len(shape.slots) or int(shape.room[0][0]) < shape.least:
            self._is_infeasible = True
            return
        if self._problem.budgets:
            found = self._minimise(self._eligible, (), None)
            self._known = found.chosen
            self._is_infeasible = found.is_infeasible
            if found.chosen is None:
                return
            value = freed.violations(self._problem, found.chosen)
            self._violations = value
            self._stages.append(
                SolvedStage("", "violations", value, min(found.bound, value), "CP-SAT")
            )
            if self._problem.forbid and value:
                self._known = None
                self._is_infeasible = found.bound > 0
                return
        for priority in self._priorities():
            self._least_pods(priority)
            if self._known is None:
                return
        self._fewest_groups()

    def result(self) -> SolvedVictims:
        """Return the victims, and where the group goes then."""
        if self._known is None:
            outcome: Outcome = "infeasible" if self._is_infeasible else "unknown"
            return SolvedVictims(outcome, seconds=perf_s() - self._started)
        placement = self._placed(self._known)
        return SolvedVictims(
            "placed" if placement.outcome == "placed" else "unknown",
            self._bundles.unpacked(self._known),
            tuple(self._stages),
            placement,
            round(perf_s() - self._started, 6),
        )

    def _nothing_to_do(self) -> None:
        """The group fits as it is: every stage is zero."""
        if self._problem.budgets:
            self._stages.append(SolvedStage("", "violations", 0, 0, "feasibility"))
        self._eligible = tuple(range(len(self._problem.candidates)))
        for priority in self._priorities():
            self._stages.append(SolvedStage(str(priority), "pods", 0, 0, "feasibility"))
        self._stages.append(SolvedStage("", "groups", 0, 0, "feasibility"))

    def _up_to_need(self) -> tuple[int, ...]:
        """Return all candidates up to the lowest priority whose going, with all below, suffices.

        Candidates above it are spared in every best answer.
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
            self._stages.append(SolvedStage(str(priority), "pods", 0, 0, "feasibility"))
        return tuple(i for i, one in enumerate(candidates) if one.priority <= priorities[low])

    def _with_budgets(self, everybody: dict[int, int]) -> None:
        """Decide the violations first; who has no budget is imagined gone meanwhile."""
        candidates = self._problem.candidates
        self._eligible = tuple(range(len(candidates)))
        covered = tuple(i for i in self._eligible if i in self._budgeted)
        others = tuple(i for i in self._eligible if i not in self._budgeted)
        self._known = None if self._problem.forbid else everybody
        if self._suffices(self._all_of(others)):
            self._known = self._all_of(others)
            value = bound = 0
            by = "feasibility"
        else:
            found = self._minimise(covered, others, None)
            value, bound, by = self._violated(found, others), found.bound, "CP-SAT"
            if self._problem.forbid and (value > 0 or self._known is None):
                self._is_infeasible = found.is_infeasible or bound > 0
                self._known = None
                return
        self._violations = value
        self._stages.append(SolvedStage("", "violations", value, min(bound, value), by))

    def _violated(self, found: "StageDecision", others: tuple[int, ...]) -> int:
        """Take over what the stage of violations found; return its value."""
        if found.chosen is not None:
            self._known = found.chosen | self._all_of(others)
        return freed.violations(self._problem, self._known or {})

    def _priorities(self) -> list[int]:
        """Return the priorities of the eligible, the highest first."""
        candidates = self._problem.candidates
        return sorted({candidates[i].priority for i in self._eligible}, reverse=True)

    def _least_pods(self, priority: int) -> None:
        """Decide the candidates of one priority while those below are imagined gone."""
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
            self._known = spared
            self._keep(own, SolvedStage(str(priority), "pods", 0, 0, "feasibility"))
            return
        decided = tuple(i for i in self._eligible if i not in set(gone))
        found = self._minimise(decided, gone, own)
        if found.chosen is not None:
            self._known = found.chosen | self._all_of(gone)
        if self._known is None:
            self._is_infeasible = found.is_infeasible
            return
        value = freed.pods(self._problem, self._evicted(), priority)
        # Zero victims of this priority are possible only with other choices above; with none there,
        # one has to go.
        is_first = (
            self._more_is_better
            and not self._problem.budgets
            and not any(kept for _, kept in self._frozen)
        )
        least = max(found.bound, min(own.values()) if is_first else 0)
        self._keep(own, SolvedStage(str(priority), "pods", value, min(value, least), "CP-SAT"))

    def _fewest_groups(self) -> None:
        """Of all such choices take one that hits few groups; a single pod counts as a group."""
        elastic = {index for group in self._problem.elastic for index in group.candidates}
        weights = {
            index: 0 if index in elastic else self._problem.candidates[index].groups
            for index in self._eligible
        }
        value, bound, by = freed.groups(self._problem, self._evicted()), self._least_groups(), ""
        if bound < value:
            found = self._minimise(self._eligible, (), weights, counts_ended=True)
            if found.chosen is not None:
                self._known = found.chosen
            value = freed.groups(self._problem, self._evicted())
            bound, by = max(bound, found.bound), "CP-SAT"
        self._stages.append(SolvedStage("", "groups", value, min(bound, value), by or "counting"))

    def _least_groups(self) -> int:
        """Return how many groups it takes at least to have that many pods at each priority."""
        if self._problem.elastic:
            return 0  # those that shrink do not count
        total = 0
        for weights, value in self._frozen:
            if value:
                candidates = self._problem.candidates
                total += -(-value // max(n // candidates[i].groups for i, n in weights.items()))
        return total

    def _spare(self) -> None:
        """Spare who is not needed: first the highest priority, many at once as long as that
        goes.
        """
        candidates, known = self._problem.candidates, self._evicted()
        order = sorted(known, key=lambda i: (-candidates[i].priority, -candidates[i].pods, i))
        number = len(order)
        while number:
            for first in range(0, len(order), number):
                spared = set(order[first : first + number])
                if self._left(SPARE) <= 0:
                    break
                fewer = {index: times for index, times in known.items() if index not in spared}
                fewer = freed.closed(self._problem, fewer)
                if len(fewer) < len(known) and self._suffices(fewer):
                    known = fewer
            number //= 2
        self._known = known
        self._stages = [self._as_known(stage) for stage in self._stages]

    def _as_known(self, stage: SolvedStage) -> SolvedStage:
        """Return a stage with the value of the evictions that are known now."""
        problem, known = self._problem, self._evicted()
        if stage.measure == "pods":
            value = freed.pods(problem, known, int(stage.level))
        elif stage.measure == "groups":
            value = freed.groups(problem, known)
        else:
            value = freed.violations(problem, known)
        return msgspec.structs.replace(stage, value=value, bound=min(stage.bound, value))

    def _keep(self, weights: dict[int, int], stage: SolvedStage) -> None:
        self._stages.append(stage)
        self._frozen.append((weights, stage.value))

    def _minimise(
        self,
        decided: tuple[int, ...],
        gone: tuple[int, ...],
        weights: dict[int, int] | None,
        *,
        counts_ended: bool = False,
    ) -> "StageDecision":
        """Let CP-SAT run one stage within its time."""
        from scheduler.groups.solver.victims.victimmodel import StageDecision, StageTask
        from scheduler.groups.solver.victims.victimstage import minimise

        kept = tuple(self._frozen)
        task = StageTask(decided, gone, weights, kept, self._violations, counts_ended)
        seconds = min(self._limits.stage_s, self._left(SEARCH) * (STAGE if gone else 1.0))
        if seconds < MEANINGFUL_S:
            return StageDecision(None, 0)
        return minimise(self._room, task, self._limits, seconds, self._evicted())

    def _suffices(self, evicted: Choice) -> bool:
        return self._verdict(evicted) == "placed"

    def _verdict(self, evicted: Choice) -> Outcome:
        """Return whether the group fits after these evictions; unknown when there is no time to
        ask.
        """
        if self._room.knows_rules:
            return "placed" if self._room.fits(evicted) else "infeasible"
        return self._placed(evicted).outcome if self._left(SPARE) > 0 else "unknown"

    def _placed(self, evicted: Choice) -> SolverAnswer:
        """Return the placement after these evictions."""
        slots = self._room.after(evicted).tolist()
        leaves = tuple(
            Leaf(leaf.path, fits, held=leaf.held)
            for leaf, fits in zip(self._asked.leaves, slots, strict=True)
        )
        rules = freed.rules_after(self._problem, self._asked, evicted)
        after = msgspec.structs.replace(self._asked, leaves=leaves, request=(), domains=rules)
        # Once the victims are known, their placement gets its share even when the time is nearly
        # over.
        left = max((1.0 - SPARE) * self._limits.total_s, self._left(1.0))
        return placing.solve(after, msgspec.structs.replace(self._limits, total_s=left))

    def _left(self, share: float) -> float:
        """Return the seconds until a share of the whole time is used up."""
        return self._started + share * self._limits.total_s - perf_s()

    def _evicted(self) -> dict[int, int]:
        return self._known or {}

    def _all_of(self, some: Iterable[int]) -> dict[int, int]:
        return {index: self._problem.candidates[index].count for index in some}


def _budgeted(problem: PreemptionInstance) -> frozenset[int]:
    """Return who is protected by a budget, and all pods of the elastic groups that have such a
    one.
    """
    found = {index for index, one in enumerate(problem.candidates) if one.budgets}
    for group in problem.elastic:
        if not found.isdisjoint(group.candidates):
            found.update(group.candidates)
    return frozenset(found)
