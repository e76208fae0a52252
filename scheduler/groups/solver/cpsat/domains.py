"""Rules over sets of leaves in the CP-SAT model: maximum per set, one set for all, skew.

Loaded only in the solver process.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.instance import DomainRule
from scheduler.groups.solver.tree import Bools


class DomainRows:
    """The rows of one `DomainRule`; all lists are by set of the rule.

    `pods` has the group's pods, `fixed` its bound pods, `leaving` the evicted pods of other groups.
    `more` is the number of pods that the group places, `size` its size.
    """

    def __init__(
        self,
        cp: cp_model.CpModel,
        rule: DomainRule,
        pods: Sequence[Any],
        fixed: Sequence[int],
        leaving: Mapping[int, Any],
        *,
        more: Any,
        size: int,
    ) -> None:
        self._cp, self._rule, self._pods, self._fixed, self._size = cp, rule, pods, fixed, size
        if rule.at_most:
            for each, here in zip(pods, fixed, strict=True):
                cp.add(each <= max(rule.at_most, here))
        if rule.only:
            cp.add(sum(pods) - sum(fixed) == more)
        if rule.single:
            self._single()
        if rule.max_skew:
            before = rule.existing or (0,) * len(pods)
            after = [old - leaving.get(at, 0) + pods[at] for at, old in enumerate(before)]
            arriving = [new - here for new, here in zip(pods, fixed, strict=True)]
            skew_rows(cp, rule, after, arriving, size)

    def _single(self) -> None:
        chosen = [self._cp.new_bool_var("") for _ in self._pods]
        self._cp.add_at_most_one(chosen)
        for each, is_chosen in zip(self._pods, chosen, strict=True):
            self._cp.add(each <= self._size * is_chosen)


def skew_rows(
    cp: cp_model.CpModel, rule: DomainRule, after: Sequence[Any], arriving: Sequence[Any], size: int
) -> None:
    """Limit each set in which pods arrive to `max_skew` above the set with the fewest.

    `after` has by set all pods that count, `arriving` the at most `size` pods that must satisfy the
    rule.
    """
    lowest = cp.new_int_var(0, size + max(rule.existing, default=0), "")
    for total, new in zip(after, arriving, strict=True):
        takes = cp.new_bool_var("")
        cp.add(new <= size * takes)
        cp.add(lowest <= total)
        cp.add(total - lowest <= rule.max_skew).only_enforce_if(takes)


def values_of(fits: Bools, most: int) -> cp_model.Domain:
    """Return a CP-SAT domain of 0 and the allowed counts up to `most`."""
    counts = [0, *np.flatnonzero(fits[: most + 1]).tolist()]
    return cp_model.Domain.from_values(counts)
