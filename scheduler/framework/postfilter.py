"""Input and result of post-filter plugins (preemption).

`FilterRerun` and `VictimTrial` are what such a plugin may do with the filters of the failed
attempt; `framework.hypothetical.dryrun` implements them. They are protocols because the
implementation calls plugins, whose types name `FitFailure`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.framework.calls import ApiCall, Offer
from scheduler.framework.cycle import Cycle
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.hypothetical.rowpods import Nominated, RowPods
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import SUCCESS, Rejection, Status
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed
from scheduler.state.shapes import Shape

# The rows that pass, and the rejections of the others.
Verdict = tuple[BoolColumn, list[Rejection]]
Moves = Sequence[tuple[Placed, int]]


class VictimTrial(Protocol):
    """The filters on rows without their victims; columns have one entry per such row.

    Victims are restored on trial, one of each row at a time.
    """

    @property
    def gone(self) -> BoolColumn:
        """Return which of the victims are currently removed."""

    def offer(self, step: int) -> None:
        """Restore the victim number `step` of each row on trial."""

    def keep(self, rows: BoolColumn) -> None:
        """End the trial: victims on these rows stay, the others are removed again."""

    def verdict(self, among: BoolColumn, *, again: bool = False) -> Verdict:
        """Return which rows of `among` pass all filters, and the rejections of the others.

        Set `again` for rows that passed before if only pods have moved since: filters that do not
        read pods are skipped.
        """


class FilterRerun(Protocol):
    """The filters of an attempt, which can run again on changed rows; `nodes` is its view."""

    @property
    def cycle(self) -> Cycle: ...
    @property
    def nodes(self) -> Nodes: ...

    @property
    def is_by_row(self) -> bool:
        """Return whether the verdict of every filter on a row changes only with that row."""

    def state(self, plugin: str) -> Any:
        """Return what a plugin's pre-filter returned; None if it did not run or skipped the pod."""

    def filter(self, rows: Rows, *, removed: Moves = (), added: Moves = ()) -> Verdict:
        """Return the rows of `rows` that pass and the rejections of the others, as full columns.

        `removed` and `added` are pods with their rows; pods outside `rows` are ignored.
        """

    def dry_run(self, victims: RowPods, nominated: Nominated) -> VictimTrial:
        """Return a dry run of the rows of `victims` without them; it can restore them step by step.

        A row passes if the pod fits both with and without the pods that are nominated to it.
        """

    def accepting(self, pod: Pod, shape: Shape, nominated: Nominated) -> BoolColumn:
        """Return the rows whose filters accept another pod beside the pods that are nominated."""


class FitFailure(msgspec.Struct, frozen=True):
    """Why no node fits, for a plugin that frees capacity.

    `candidates` are the rows whose rejection evictions may lift. `pre_filter` is no success if the
    pod was rejected before any node was evaluated. `attempted` runs the filters again on changed
    rows. `nominated` are the pods whose capacity this pod must not use. `break_tie` picks one of
    equally good rows. With `wants_offers` extenders take part in the choice of victims: all
    candidates are needed, not only the best. `prefiltered_by` are the plugins whose pre-filter ran.
    """

    candidates: BoolColumn
    rejections: tuple[Rejection, ...]
    pre_filter: Status
    attempted: FilterRerun
    nominated: Nominated
    break_tie: Callable[[Rows], int]
    wants_offers: bool = False
    prefiltered_by: frozenset[str] = frozenset()


class PostFiltered(msgspec.Struct, frozen=True):
    """The result of a post-filter plugin.

    `nominated_node` None leaves the pod's nomination unchanged, '' clears it. `victims` are the
    pods to evict: those of the nominated node and the pods evicted with them. The framework sets
    `plugin`. `text` is appended to the pod's message if no candidate was found. `offers` are all
    candidates if extenders need them; `choose` receives the remaining ones (at least one; victims
    may have changed) and returns the result with the best node and all its victims. `calls` are
    sent in order, without waiting for their answers. `prevented_by` are the filter plugins that
    prevented a candidate: their events requeue the pod. `expected` has by uid the nodes where
    victims are expected to fit, `disruption` what the victims count for in metrics.
    """

    status: Status = SUCCESS
    nominated_node: str | None = None
    victims: tuple[Placed, ...] = ()
    plugin: str = ""
    text: str = ""
    offers: tuple[Offer, ...] = ()
    choose: "Callable[[tuple[Offer, ...]], PostFiltered] | None" = None
    calls: tuple[ApiCall, ...] = ()
    prevented_by: tuple[str, ...] = ()
    expected: Mapping[str, str] = {}
    disruption: Disruption = Disruption()
