"""`BudgetIndex`: which disruption budgets cover a pod, and whose eviction would violate one.

A violated budget forbids nothing: preemption spares such pods first, and prefers nodes without any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import selector_matches
from scheduler.plugins.podselection import selector_fault
from scheduler.plugins.preemption.importance import Victims
from scheduler.state.change import Change
from scheduler.state.podindex import Placed

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

_KIND = "PodDisruptionBudget"
_MOST_SHAPES = 65536


class BudgetIndex:
    """The budgets by namespace; those that cover a shape of pods are looked up once."""

    kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._covering: dict[int, tuple[str, ...]] = {}

    def rebuild(self, cluster: Cluster) -> None:
        """Start afresh from what `cluster` holds."""
        self._budgets = {}
        self._covering = {}
        for budget in cluster.store.of(_KIND).values():
            self._put(budget)

    def apply(self, change: Change) -> None:
        """Follow one change."""
        if change.kind != _KIND:
            return
        old, new = change.old, change.new
        if old is None or new is None or old.spec != new.spec:
            self._covering = {}
        if new is not None:
            self._put(new)
        else:
            self._budgets.get(old.metadata.namespace, {}).pop(old.metadata.name, None)

    def columns(self) -> Mapping[str, Any]:
        """Return the budgets by namespace and name."""
        return {space: dict(budgets) for space, budgets in self._budgets.items() if budgets}

    def copy(self) -> BudgetIndex:
        """Return an independent copy."""
        twin = BudgetIndex()
        twin._budgets = {space: dict(budgets) for space, budgets in self._budgets.items()}
        return twin

    def violating(self, victims: Victims) -> BoolColumn:
        """Return the pods whose eviction would violate a budget, each row taken by itself.

        On a row the more important pods use up the budgets first.
        """
        flags = np.zeros(len(victims), dtype=np.bool_)
        if not any(self._budgets.values()):
            return flags
        place, left = -1, dict[tuple[str, str], int]()
        for number, shape in enumerate(victims.shape_ids.tolist()):
            names = self._covering.get(shape)
            if names is None:
                names = self._cover(shape, victims.pod(number))
            if not names:
                continue
            if victims.index[number] != place:
                place, left = victims.index[number], {}
            flags[number] = self._uses_up(names, victims.pod(number), left)
        return flags

    def _uses_up(
        self, names: tuple[str, ...], placed: Placed, left: dict[tuple[str, str], int]
    ) -> bool:
        """Count a pod against its budgets; return whether one of them has nothing left for it."""
        meta = placed.pod.metadata
        violates = False
        for name in names:
            status = self._budgets[meta.namespace][name].status
            if meta.name in status.disrupted_pods:
                continue  # its eviction is counted already
            key = meta.namespace, name
            left[key] = left.get(key, status.disruptions_allowed) - 1
            violates = violates or left[key] < 0
        return violates

    def _cover(self, shape: int, placed: Placed) -> tuple[str, ...]:
        meta = placed.pod.metadata
        budgets = self._budgets.get(meta.namespace, {}) if meta.labels else {}
        names = tuple(name for name, budget in budgets.items() if _covers(budget, meta.labels))
        if len(self._covering) >= _MOST_SHAPES:
            self._covering = {}
        self._covering[shape] = names
        return names

    def _put(self, budget: PodDisruptionBudget) -> None:
        meta = budget.metadata
        self._budgets.setdefault(meta.namespace, {})[meta.name] = budget


def _covers(budget: PodDisruptionBudget, labels: Mapping[str, str]) -> bool:
    """Whether a budget covers pods with these labels; an empty or wrong selector covers none."""
    selector = budget.spec.selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return False
    return not selector_fault(selector) and selector_matches(selector, labels)
