"""Cached results of searches for equal requests, by kind of claims and situation of nodes.

Pods of one kind have claims of equal specs. For each kind there is a column over situations (see
`DeviceCatalog`), so a node is searched only when no node in its situation has been. Kinds are kept
in the order of use and bounded; their results are dropped when the catalog's epoch or a class
changes.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.objects.claims import ResourceClaimSpec
from scheduler.plugins.dynamicresources.allocation.preferring import preferred
from scheduler.plugins.dynamicresources.allocation.requests import AllocationPlan, plan_of
from scheduler.plugins.dynamicresources.allocation.rules import DeviceRules
from scheduler.plugins.dynamicresources.allocation.search import (
    ChosenDevice,
    DeviceSearch,
    OutOfStepsError,
    SearchError,
    Steps,
)
from scheduler.plugins.dynamicresources.allocation.selectors import Selectors, attributes_named
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.state.store import Objects

UNKNOWN, FITS, LACKING, INVALID, INCOMPLETE, FAILED, TIMED_OUT = range(7)

MOST_KINDS: Final = 64
# An alternative scores the more the earlier it is: the first this many, the last 1.
MOST_ALTERNATIVES: Final = 8
# One attempt may take as long as this many searches that time out.
MOST_TIMEOUTS: Final = 5


class ClaimKind:
    """Claims of equal specs: their plan, and by situation the outcome and the score."""

    __slots__ = ("epoch", "outcomes", "plan", "scores")

    def __init__(self, plan: AllocationPlan) -> None:
        self.plan = plan
        self.epoch = -1
        self.outcomes: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self.scores: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def look_at(self, epoch: int, situations: int) -> None:
        """Drop the results of another epoch, and grow the columns to all situations."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.outcomes = np.zeros(0, dtype=np.int8)
        if situations > len(self.outcomes):
            size = max(situations, 2 * len(self.outcomes), 64)
            for name, values in (("outcomes", self.outcomes), ("scores", self.scores)):
                grown = np.zeros(size, dtype=values.dtype)
                grown[: min(len(values), size)] = values[:size]
                setattr(self, name, grown)


class FoundOutcomes(msgspec.Struct, frozen=True):
    """Outcomes and scores by row; `error` is the error that ended the attempt, if any."""

    outcomes: NDArray[np.int8]
    scores: IntColumn
    error: str = ""


class Outcomes:
    """Kinds of claims, and the searches for them."""

    def __init__(
        self,
        catalog: DeviceCatalog,
        classes: Objects,
        most_steps: int | None,
        rules: DeviceRules = DeviceRules(),  # noqa: B008 - a constant
    ) -> None:
        self._catalog = catalog
        self.rules = rules
        self._classes = classes
        self._most_steps = most_steps
        self._selectors = Selectors(lists=rules.is_1_37)
        self._kinds: dict[bytes, ClaimKind] = {}
        self._classes_version = -1
        self._contents_version = -1

    def kind_of(self, specs: Sequence[ResourceClaimSpec]) -> ClaimKind:
        """Return the kind of claims whose classes exist.

        UnsupportedError for unknown request types.
        """
        self._renew()
        key = b"\n".join(msgspec.json.encode(spec) for spec in specs)
        kind = self._kinds.pop(key, None)
        if kind is None:
            plan = plan_of(specs, self._classes, self._selectors)
            self._distinguish(plan)
            while len(self._kinds) >= MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
            kind = ClaimKind(plan)
        self._kinds[key] = kind
        return kind

    def on(
        self,
        kind: ClaimKind,
        names: Sequence[str],
        among: BoolColumn,
        name_of: Callable[[int], str],
        column: NDArray[np.int32],
    ) -> FoundOutcomes:
        """Return the outcomes of claims (`names` are theirs) on the rows of `among`.

        `column` holds the rows' situations, `name_of` returns a row's node.
        """
        last = int(column.max(initial=-1))
        kind.look_at(self._catalog.epoch, last + 1)
        outcomes = kind.outcomes[column]
        unknown = np.flatnonzero(among & (outcomes == UNKNOWN))
        if len(unknown):
            self._explore(kind, names, unknown, name_of, column)
            outcomes = kind.outcomes[column]
        bad = np.flatnonzero(among & (outcomes >= FAILED))
        error = ""
        if len(bad):
            row = int(bad[0])
            error = self._error(kind, names, name_of(row), int(outcomes[row]))
        return FoundOutcomes(outcomes, kind.scores[column], error)

    def search(
        self, kind: ClaimKind, names: Sequence[str], node: str
    ) -> list[list[ChosenDevice]] | None:
        """Return the devices for the claims on a node, None if there are not enough.

        SearchError.
        """
        search = self._search(kind, names, node, self._most_steps)
        try:
            return search.results if search.run() else None
        except OutOfStepsError:
            raise SearchError(_timed_out(node)) from None

    def _explore(
        self,
        kind: ClaimKind,
        names: Sequence[str],
        rows: NDArray[np.intp],
        name_of: Callable[[int], str],
        column: NDArray[np.int32],
    ) -> None:
        """Search one node for each situation without a result."""
        situations, first = np.unique(column[rows], return_index=True)
        left = None if self._most_steps is None else self._most_steps * MOST_TIMEOUTS
        # In the order of rows, so that the error that ends an attempt is deterministic.
        for place in np.argsort(first, kind="stable").tolist():
            situation, row = int(situations[place]), int(rows[first[place]])
            limit = (
                self._most_steps
                if left is None or self._most_steps is None
                else min(self._most_steps, left)
            )
            search = self._search(kind, names, name_of(row), limit)
            outcome, score = FITS, 0
            try:
                if search.run():
                    score = score_of(search.results)
                else:
                    outcome = INCOMPLETE if search.awaits_pool else LACKING
                    outcome = INVALID if search.saw_invalid_pool else outcome
            except SearchError:
                outcome = FAILED
            except OutOfStepsError:
                outcome = TIMED_OUT
            kind.outcomes[situation], kind.scores[situation] = outcome, score
            if left is not None:
                left -= search.steps_taken
                if left <= 0:
                    return
            if outcome >= FAILED:
                return  # the attempt ends here

    def _error(self, kind: ClaimKind, names: Sequence[str], node: str, outcome: int) -> str:
        if outcome == TIMED_OUT:
            return _timed_out(node)
        try:
            self._search(kind, names, node, self._most_steps).run()
        except SearchError as error:
            return str(error)
        except OutOfStepsError:
            pass
        return _timed_out(node)

    def _search(
        self, kind: ClaimKind, names: Sequence[str], node: str, most_steps: int | None
    ) -> DeviceSearch:
        views = self._catalog.pools(node)
        in_use = self._catalog.in_use
        if self._catalog.order is not None:
            views = preferred(views, kind.plan, in_use, self._catalog.order)
        return DeviceSearch(kind.plan, names, views, in_use, Steps(most_steps), self.rules)

    def _renew(self) -> None:
        """Drop results that depend on former classes or content numbers."""
        versions = self._classes.version, self._catalog.contents.version
        if versions != (self._classes_version, self._contents_version):
            self._kinds.clear()
            if versions[1] != self._contents_version:
                self._selectors.forget_verdicts()
            self._classes_version, self._contents_version = versions

    def _distinguish(self, plan: AllocationPlan) -> None:
        """Distinguish devices by the attributes that a plan's selectors and constraints name."""
        names: set[str] | None = {name.rpartition("/")[2] for name in plan.attributes}
        for text in plan.expressions:
            more = attributes_named(text)
            names = None if more is None or names is None else names | more
        version = self._catalog.contents.version
        self._catalog.distinguish(names)
        if self._catalog.contents.version != version:
            # Verdicts so far had other content numbers; this plan has no verdicts yet.
            self._kinds.clear()
            self._selectors.forget_verdicts()
            self._contents_version = self._catalog.contents.version


def score_of(results: Sequence[Sequence[ChosenDevice]]) -> int:
    """Return the score of the used alternatives."""
    taken = {
        (one.requested.claim, one.requested.request): one.requested
        for claim in results
        for one in claim
    }
    return sum(
        MOST_ALTERNATIVES - requested.index
        for requested in taken.values()
        if requested.is_alternative
    )


def _timed_out(node: str) -> str:
    return f"node {node}: timed out trying to allocate devices"
