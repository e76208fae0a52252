"""`BudgetIndex`: the disruption budgets of a pod, and the evictions that would violate one.

A violated budget does not forbid an eviction: preemption restores such pods first, and prefers
nodes without violations.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.framework import Change, IntColumn, Placed, Rows
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.plugins.podselection import selector_fault
from scheduler.plugins.preemption.units import Gang
from scheduler.plugins.preemption.victims import Victims
from scheduler.state.counts.rowlists import spans
from scheduler.state.selection import Selection, SelectionIndex, expressions_of

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

_KIND = "PodDisruptionBudget"
_MOST_SHAPES = 65536


class BudgetIndex:
    """All budgets; the budgets of a shape of pods are looked up once.

    The look-ups are dropped when a budget is added, deleted, or selects other pods.
    """

    kinds: tuple[str, ...] = ()
    follows = frozenset((_KIND,))

    def __init__(self) -> None:
        self._budgets: dict[tuple[str, str], PodDisruptionBudget] = {}
        self._lookup: _Lookup | None = None
        # Incremented with each change that may turn an eviction into a violation.
        self.generation = 0

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild from `cluster`."""
        self._budgets = {_key(budget): budget for budget in cluster.store.of(_KIND).values()}
        self._lookup = None
        self.generation += 1

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind != _KIND:
            return
        self.generation += 1
        old, new = change.old, change.new
        if new is None:
            del self._budgets[_key(old)]
        else:
            self._budgets[_key(new)] = new
        if old is None or new is None or old.spec != new.spec:
            self._lookup = None
        elif self._lookup is not None:
            self._lookup.update(new)

    def columns(self) -> Mapping[str, Any]:
        """Return the budgets by `namespace/name`."""
        return {"/".join(key): budget for key, budget in sorted(self._budgets.items())}

    def violations(self, victims: Victims, *, first_ends: bool = False) -> IntColumn:
        """Return how many pods of each unit would violate a budget, each row by itself.

        On a row the more important units use up the budgets first. With `first_ends` a pod that
        violates a budget uses up no later budget, as in Kubernetes since 1.37.
        """
        flags = np.zeros(len(victims), dtype=np.int64)
        if not self._budgets:
            return flags
        if self._lookup is None or self._lookup.is_full:
            self._lookup = _Lookup(self._budgets)
        pods, budgets = self._lookup.pairs(victims)
        apart = set(victims.index[list(victims.gangs)].tolist()) if victims.gangs else set()
        if first_ends:
            # Pods are counted one by one if one of them has several budgets.
            several = pods[1:][pods[1:] == pods[:-1]]
            apart |= set(victims.index[several].tolist())
        if apart:
            for place in sorted(apart):
                for number, violating in self._lookup.row(victims, place, first_ends):
                    flags[number] = violating
            alone = ~np.isin(victims.index[pods], list(apart))
            pods, budgets = pods[alone], budgets[alone]
        if not len(pods):
            return flags
        # Pods of one row under one budget are adjacent, in order of importance.
        order = np.lexsort((pods, budgets, victims.index[pods]))
        pods, budgets = pods[order], budgets[order]
        places = victims.index[pods]
        begins = np.ones(len(pods), dtype=np.bool_)
        begins[1:] = (places[1:] != places[:-1]) | (budgets[1:] != budgets[:-1])
        before = np.arange(len(pods)) - np.flatnonzero(begins)[begins.cumsum() - 1]
        flags[pods[before >= self._lookup.allowed[budgets]]] = 1
        return flags


class _Lookup:
    """Numbers for budgets, and for each shape of pods those that cover it.

    `_shapes` are the known shapes in order; entry i has `_counts[i]` budgets, in `_flat` from
    `_first[i]` on.
    """

    def __init__(self, budgets: Mapping[tuple[str, str], PodDisruptionBudget]) -> None:
        self._number = {key: number for number, key in enumerate(budgets)}
        self._selections: SelectionIndex[tuple[int, Selection]] = SelectionIndex()
        self._disrupted: dict[int, Mapping[str, str]] = {}
        self._gangs: dict[str, tuple[Gang, Mapping[tuple[int, ...], int]]] = {}
        self.allowed: IntColumn = np.zeros(len(budgets), dtype=np.int64)
        for key, budget in budgets.items():
            self.update(budget)
            selection = _selection(budget)
            if selection is not None:
                self._selections.add(selection, (self._number[key], selection))
        nothing: IntColumn = np.zeros(0, dtype=np.int64)
        self._shapes = self._first = self._counts = self._flat = nothing

    @property
    def is_full(self) -> bool:
        """Return whether the number of known shapes is at the limit, so that the look-ups
        restart.
        """
        return len(self._shapes) > _MOST_SHAPES

    def update(self, budget: PodDisruptionBudget) -> None:
        """Store the disruptions that a budget allows."""
        number = self._number[_key(budget)]
        self.allowed[number] = budget.status.disruptions_allowed
        self._disrupted.pop(number, None)
        if budget.status.disrupted_pods:
            self._disrupted[number] = budget.status.disrupted_pods
        self._gangs.clear()

    def pairs(self, victims: Victims) -> tuple[Rows, Rows]:
        """Return which pods count against which budgets, as numbers."""
        shapes = victims.shape_ids
        where = np.searchsorted(self._shapes, shapes)
        # A position past the end means "later than all known ones".
        unknown = shapes != np.append(self._shapes, -1)[where]
        if unknown.any():
            self._learn(victims, np.flatnonzero(unknown))
            where = np.searchsorted(self._shapes, shapes)
        counts = self._counts[where]
        pods = np.repeat(np.arange(len(victims)), counts)
        budgets = self._flat[spans(self._first[where], counts)]
        counted = np.ones(len(pods), dtype=np.bool_)
        for number, names in self._disrupted.items():
            for pair in np.flatnonzero(budgets == number).tolist():
                # The eviction of such a pod is already counted.
                counted[pair] = victims.pod(int(pods[pair])).pod.metadata.name not in names
        return pods[counted], budgets[counted]

    def row(self, victims: Victims, place: int, first_ends: bool) -> Iterator[tuple[int, int]]:
        """Yield the units of one row with how many of their pods violate a budget.

        Pods of a unit that the same budgets cover are counted together: it may have thousands.
        """
        left = dict(enumerate(self.allowed.tolist()))
        for number in victims.pods_of(place):
            violating = 0
            for budgets, count in self._covers(victims, number).items():
                disruptions = min(left[budget] for budget in budgets)
                allowed = min(max(disruptions, 0), count)
                violating += count - allowed
                if first_ends:
                    _use_up(left, budgets, allowed, count - allowed)
                else:
                    for budget in budgets:
                        left[budget] -= count
            yield number, violating

    def _covers(self, victims: Victims, number: int) -> Mapping[tuple[int, ...], int]:
        """Return the number of a unit's pods by their budgets; pods without one are left out."""
        gang = victims.gangs.get(number)
        if gang is None or victims.has_alone(number):
            return self._count(victims.everyone(number))
        known = self._gangs.get(gang.unit.key)
        if known is None or known[0] is not gang:
            known = self._gangs[gang.unit.key] = (gang, self._count(gang.unit.members))
        return known[1]

    def _count(self, pods: Iterable[Placed]) -> Mapping[tuple[int, ...], int]:
        counts: dict[tuple[int, ...], int] = {}
        for placed in pods:
            name = placed.pod.metadata.name
            budgets = tuple(
                budget
                for budget in self._covering(placed)
                if name not in self._disrupted.get(budget, ())
            )
            if budgets:
                counts[budgets] = counts.get(budgets, 0) + 1
        return counts

    def _learn(self, victims: Victims, pods: Rows) -> None:
        """Look up the budgets of these pods' shapes."""
        shapes, examples = np.unique(victims.shape_ids[pods], return_index=True)
        covers = [self._covering(victims.pod(int(pods[example]))) for example in examples.tolist()]
        flat = np.array([number for cover in covers for number in cover], dtype=np.int64)
        counts = np.array([len(cover) for cover in covers], dtype=np.int64)
        first = len(self._flat) + counts.cumsum() - counts
        self._flat = np.concatenate((self._flat, flat))
        known = np.concatenate((self._shapes, shapes))
        order = np.argsort(known)
        self._shapes = known[order]
        self._first = np.concatenate((self._first, first))[order]
        self._counts = np.concatenate((self._counts, counts))[order]

    def _covering(self, placed: Placed) -> list[int]:
        meta = placed.pod.metadata
        candidates = self._selections.candidates(meta.namespace, meta.labels)
        return sorted(
            number
            for number, selection in candidates
            if meta.labels and selection.matches(meta.namespace, meta.labels)
        )


def _use_up(left: dict[int, int], budgets: Sequence[int], allowed: int, violating: int) -> None:
    """Deduct pods from their budgets; a pod above a budget stops at the first exhausted one."""
    for budget in budgets:
        left[budget] -= allowed
    while violating > 0:
        first = next(place for place, budget in enumerate(budgets) if left[budget] <= 0)
        before = [left[budget] for budget in budgets[:first]]
        steps = min([violating, *before])
        for budget in budgets[: first + 1]:
            left[budget] -= steps
        violating -= steps


def _key(budget: PodDisruptionBudget) -> tuple[str, str]:
    return budget.metadata.namespace, budget.metadata.name


def _selection(budget: PodDisruptionBudget) -> Selection | None:
    """Return the pods that a budget covers; an empty or an invalid selector covers none."""
    selector = budget.spec.selector
    if selector is None or selector_fault(selector):
        return None
    expressions = expressions_of(selector)
    return Selection(frozenset((budget.metadata.namespace,)), expressions) if expressions else None
