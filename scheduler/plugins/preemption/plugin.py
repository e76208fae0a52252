"""DefaultPreemption: when a pod fits nowhere, find the node where evictions do the least harm.

Decides only; the engine carries the decision out (evictions, cleared nominations).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

import msgspec
import numpy as np

from scheduler.base.errors import PluginError
from scheduler.base.reasons import PREEMPTION_BY_SCHEDULER
from scheduler.framework import (
    V1_37,
    Args,
    Code,
    Cycle,
    FitFailure,
    Handle,
    Nodes,
    Placed,
    Plugin,
    Pod,
    PostFiltered,
    Rows,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.hypothetical.elsewhere import Elsewhere
from scheduler.framework.hypothetical.fitmessage import ReasonCounts
from scheduler.plugins.deviceclasses import DEVICE_CLASS
from scheduler.plugins.preemption.budgets import BudgetIndex
from scheduler.plugins.preemption.choice import TieBreak, choose
from scheduler.plugins.preemption.dryrun import Block, Walk, examine
from scheduler.plugins.preemption.importance import PodsByImportance
from scheduler.plugins.preemption.offers import best_offer, offers_of
from scheduler.plugins.preemption.remembered import Chosen, DryRunCache
from scheduler.plugins.preemption.units import UnitIndex
from scheduler.plugins.preemption.victims import Victims

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
WAITING = "waiting for the preemption for this pod to be finished"


class DefaultPreemptionArgs(Args):
    """The number of candidates to find: a share of the nodes that may help, with a minimum.

    `preferVictimsThatFitElsewhere` is an extension of Trellis: among candidates with equally few
    victims it prefers those whose victims fit other nodes, and their events name these nodes.
    """

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    prefer_victims_that_fit_elsewhere: bool = False

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the violated rules, with kube-scheduler's texts."""
        share, number = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        names = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        if not 0 <= share <= 100:
            yield names[0], f"Invalid value: {share}: not in valid range [0, 100]"
        if number < 0:
            yield names[1], f"Invalid value: {number}: not in valid range [0, inf)"
        if share == number == 0:
            for name, other in (names, names[::-1]):
                yield name, f"Invalid value: 0: cannot be zero at the same time as {other}"

    def wanted(self, nodes: int) -> int:
        """Return how many candidates to find among this number of nodes."""
        share = nodes * self.min_candidate_nodes_percentage // 100
        return min(nodes, max(share, self.min_candidate_nodes_absolute))


# Nodes on which filters fail in the dry run before the search ends: a tenant may cause them.
MOST_FAULTS = 32


class FoundCandidates(msgspec.Struct, frozen=True):
    """The result of the dry runs: candidates by block, the reasons of other nodes, and failures."""

    blocks: list[Block] = msgspec.field(default_factory=list)
    reasons: ReasonCounts = msgspec.field(default_factory=ReasonCounts)
    faults: list[PluginError] = msgspec.field(default_factory=list)


class DefaultPreemption(Plugin[DefaultPreemptionArgs]):
    """Nominate the pod to the node where the least important pods can be evicted for it."""

    # The engine wakes a gated preemptor when its evictions are answered.
    reads = ()
    preempts = True
    # Whether dry runs are cached for the next preemptor of a shape.
    remembers: ClassVar[bool] = True

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ranks = handle.tracker(PodsByImportance)
        self._budgets = handle.tracker(BudgetIndex)
        self._units = UnitIndex(handle)
        self._remembered = DryRunCache()
        self._is_1_37 = handle.release >= V1_37

    def key(self, _pod: Pod) -> tuple[()]:
        """Return one key for all pods: the result for a pod follows from its spec and its
        filters.
        """
        return ()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Gate a pod whose evictions are in progress."""
        return unresolvable(WAITING) if self.handle.is_preempting(pod.metadata.uid) else None

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Return the node to nominate and the victims, or the reason for none."""
        refusal = self.refusal(cycle.pod, nodes, failure)
        if refusal:
            return _failed(refusal)
        try:
            return self._search(cycle, nodes, failure)
        except PluginError as error:
            # kube-scheduler: a filter that fails in a dry run ends the search, not the attempt.
            text = f"preemption: {error}"
            return PostFiltered(Status(Code.ERROR, (text,)), text=text)

    def _search(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Search the node where evictions do the least harm."""
        self._units.catch_up(nodes)
        try:
            chosen = self._chosen(cycle, nodes, failure)
        except PluginError:
            chosen = None  # the code below finds out on which nodes
        if chosen is not None:
            row, uids, violations = chosen
            placed = map(self.handle.pods.get, uids)
            victims = tuple(victim for victim in placed if victim is not None)
            return self._nominated(nodes.name(row), victims, violations)
        found = self.candidates(cycle, nodes, failure)
        if any(len(block.places) for block in found.blocks):
            if failure.wants_offers:
                return PostFiltered(
                    offers=offers_of(found.blocks, nodes),
                    choose=lambda offers: self._nominated(
                        *best_offer(offers, nodes, self._units, self.tie_break(nodes, failure))
                    ),
                )
            if not self.args.prefer_victims_that_fit_elsewhere:
                row, victims, violations = choose(found.blocks, self.tie_break(nodes, failure))
                return self._nominated(nodes.name(row), victims, violations)
            elsewhere = Elsewhere(failure.attempted, failure.nominated)
            tie_break = self.tie_break(nodes, failure)
            row, victims, violations = choose(found.blocks, tie_break, elsewhere.stranded)
            answer = self._nominated(nodes.name(row), victims, violations)
            return msgspec.structs.replace(answer, expected=elsewhere.destinations(victims))
        if found.faults:
            raise found.faults[0]
        helpless = nodes.count - int(np.count_nonzero(failure.candidates))
        found.reasons.add(NOT_HELPFUL, helpless)
        text = found.reasons.sentence(nodes.count)
        return _failed(text, nominated_node="", prevented_by=found.reasons.plugins)

    def _nominated(self, node: str, victims: tuple[Placed, ...], violations: int) -> PostFiltered:
        text = found_text(node, len(victims)) if self._is_1_37 else ""
        disruption = Disruption(violations)
        return PostFiltered(nominated_node=node, victims=victims, text=text, disruption=disruption)

    def refusal(self, pod: Pod, nodes: Nodes, failure: FitFailure) -> str:
        """Return why the pod may not evict pods at the moment, or ''."""
        if pod.spec.preemption_policy == "Never":
            return NEVER
        row = nodes.row(pod.status.nominated_node_name)
        if row is None or not failure.candidates[row]:
            return ""
        on_node = (placed.pod for placed in self._ranks.lists.pods_on(row))
        if any(one.priority < pod.priority and _leaves_for_us(one) for one in on_node):
            return TERMINATING
        return ""

    def candidates(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> FoundCandidates:
        """Search the nodes that evictions may help, starting at a random one."""
        self._units.catch_up(nodes)
        found = FoundCandidates()
        walk = self._walk(cycle, failure)

        def visit(rows: Rows) -> None:
            reasons = ReasonCounts()
            try:
                block = self._examine(cycle, nodes, failure, rows, reasons)
            except PluginError as fault:
                # kube-scheduler: a node on which a filter fails is no candidate, and others may be.
                if len(rows) == 1:
                    found.faults.append(fault)
                if len(found.faults) >= MOST_FAULTS:
                    raise
                for half in np.array_split(rows, 2) if len(rows) > 1 else ():
                    visit(half)
                return
            found.reasons.include(reasons)
            if block is not None:
                found.blocks.append(walk.keep(block))

        for visited in walk.blocks():
            visit(visited)
        return found

    def _chosen(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> Chosen | None:
        """Return the best candidate with its victims from cached dry runs.

        None also means no candidate: the reasons of nodes are not cached.
        """
        logs = (nodes.facts_touched, failure.nominated.touched)
        known = [log for log in logs if log is not None]
        if (
            not self.remembers
            or self.args.prefer_victims_that_fit_elsewhere
            or len(known) < len(logs)
            or failure.wants_offers
            or not failure.attempted.is_by_row
            or self.handle.objects(DEVICE_CLASS)
        ):
            return None
        runs = self._remembered.runs_of(
            cycle.shape.id,
            nodes.size,
            (self._budgets.generation, self._units.going),
            (self._ranks.touched, self._units.touched, *known),
        )
        return runs.choose(
            self._walk(cycle, failure),
            lambda rows: self._examine(cycle, nodes, failure, rows, ReasonCounts()),
            self.tie_break(nodes, failure),
        )

    def tie_break(self, nodes: Nodes, failure: FitFailure) -> TieBreak:
        """Return a tie-break that prefers victims which are being evicted already.

        kube-scheduler decides by chance. The capacity that is about to become free often suffices
        for several preemptors, which would evict more pods elsewhere.
        """

        def pick(rows: Rows, victims_of: Callable[[int], Iterable[str]]) -> int:
            going = self.handle.evicted().union(self._ranks.terminating)
            if not going:
                return failure.break_tie(rows)
            placed = filter(None, map(self.handle.pods.get, going))
            nodes_of = {one.node for one in placed}
            there = [row for row in rows.tolist() if nodes.name(row) in nodes_of]
            counts = [len(going.intersection(victims_of(row))) for row in there]
            most = max(counts, default=0)
            if most:
                rows = np.array(there, dtype=np.intp)[np.array(counts) == most]
            return failure.break_tie(rows)

        return pick

    def _walk(self, cycle: Cycle, failure: FitFailure) -> Walk:
        rows: Rows = np.flatnonzero(failure.candidates)
        offset = cycle.random.randrange(len(rows)) if len(rows) else 0
        return Walk(rows, offset, self.args.wanted(len(rows)))

    def _any_below(self, priority: int) -> bool:
        """Return whether some pod, or some group as a unit, has a lower priority."""
        return self.handle.pods.any_below(priority) or self._units.any_below(priority)

    def _examine(
        self, cycle: Cycle, nodes: Nodes, failure: FitFailure, rows: Rows, reasons: ReasonCounts
    ) -> Block | None:
        """Return the candidates among some rows; None if there are no pods to evict."""
        if not self._any_below(cycle.pod.priority):
            # The usual case on a full cluster of one priority: the rows' pods need not be read.
            reasons.add(NO_VICTIMS, len(rows))
            return None
        pods = Victims(self._ranks, self._units, nodes, rows, cycle.pod.priority)
        reasons.add(NO_VICTIMS, len(rows) - len(pods.rows))
        if not len(pods.rows):
            return None
        violating = self._budgets.violations(pods, first_ends=self._is_1_37)
        return examine(failure.attempted, failure.nominated, pods, violating, reasons)


def found_text(node: str, victims: int) -> str:
    """Return the text that release 1.37 adds to the message of a pod with victims."""
    return (
        f"preemption: found a potential placement for pod on node {node}, "
        f"preempting {victims} victims"
    )


def _failed(
    text: str, *, nominated_node: str | None = None, prevented_by: tuple[str, ...] = ()
) -> PostFiltered:
    text = f"preemption: {text}"
    return PostFiltered(unschedulable(text), nominated_node, text=text, prevented_by=prevented_by)


def _leaves_for_us(pod: Pod) -> bool:
    """Return whether a pod is terminating because a scheduler preempted it."""
    condition = pod.condition("DisruptionTarget")
    return (
        pod.is_terminating
        and condition is not None
        and condition.status == "True"
        and condition.reason == PREEMPTION_BY_SCHEDULER
    )
