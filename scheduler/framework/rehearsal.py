"""`Rehearsal`: what the filters say of rows that pods have left, and as they come back.

Made by `Hypothetical` for one attempt. Local plugins answer for all rows at once. Any other is asked
row by row. One that has `concerns(state, placed)` is asked only about rows where such a pod moved,
as a view of that row alone; for the other rows its answer is that for the rows as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.framework.answers import Rejection, States
from scheduler.framework.crowd import Crowd
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import Bound
from scheduler.framework.rowstates import RowStates, named, recompute
from scheduler.framework.runner import Runner
from scheduler.framework.status import SUCCESS, Code, Reason, Rejected, reject
from scheduler.framework.thinning import Thinning

_Verdict = tuple[BoolColumn, list[Rejection]]


class Attempted(msgspec.Struct, frozen=True):
    """The attempt whose filters are rehearsed; `nodes` is its view of all nodes."""

    runner: Runner
    cycle: Cycle
    nodes: Nodes
    states: States


class _Section(msgspec.Struct, frozen=True):
    """Local filters that run together (`plugin` None), or one other; `states` skips all else."""

    states: States
    plugin: Plugin[Any] | None


class Rehearsal:
    """The rows of `crowd` without its pods, at first; all columns have one entry per such row.

    `promised` are pods that nominations put on the same rows: a row passes if the pod fits both with
    and without them, or just with them if `always_promised`.
    """

    def __init__(
        self, attempted: Attempted, crowd: Crowd, promised: Crowd, *, always_promised: bool = False
    ) -> None:
        self._attempted = attempted
        self._thinning = Thinning(crowd, promised)
        self._thinning.counts_promised = always_promised
        self._always_promised = always_promised
        self._has_promised = promised.counts > 0
        self._view = attempted.nodes.with_differences(crowd.rows, self._thinning)
        self._row_states = RowStates(attempted.states, self._thinning)
        self._concerning: dict[str, tuple[BoolColumn, BoolColumn]] = {}
        skipped = attempted.states.skipped
        bounds = [b for b in attempted.runner.profile.filter if b.name not in skipped]
        self._all = list(self._sections(bounds))
        self._minding = list(self._sections([b for b in bounds if _minds_pods(b.plugin)]))

    def offer(self, step: int) -> None:
        """Let the pod number `step` of each row come back on trial."""
        self._row_states.moved(self._thinning.offer(step), back=True)

    def keep(self, rows: BoolColumn) -> None:
        """End the trial: pods on these rows stay, the others leave again."""
        self._row_states.moved(self._thinning.keep(rows), back=False)

    @property
    def gone(self) -> BoolColumn:
        """Return which pods of the crowd are gone now."""
        return self._thinning.gone

    def verdict(self, among: BoolColumn, *, again: bool = False) -> _Verdict:
        """Return which rows of `among` pass all filters, and who rejects the others.

        `again` says that these rows passed before and that only pods have moved since: filters that
        do not look at pods are not asked.
        """
        sections = self._minding if again else self._all
        rejections: list[Rejection] = []
        crowded = among & self._has_promised
        if not self._always_promised and np.count_nonzero(crowded):
            self._thinning.counts_promised = True
            fits, rejections = self._filter(crowded, sections)
            self._thinning.counts_promised = False
            among = among & (fits | ~crowded)
        fits, more = self._filter(among, sections)
        return fits, rejections + more

    def _filter(self, among: BoolColumn, sections: Sequence[_Section]) -> _Verdict:
        rejections: list[Rejection] = []
        for section in sections:
            if not np.count_nonzero(among):
                break
            if section.plugin is None:
                among, rejected = self._run(self._view, section.states, among)
            else:
                among, rejected = self._one_by_one(section.plugin, section.states, among)
            rejections += rejected
        return among, rejections

    def _run(self, view: Nodes, states: States, among: BoolColumn) -> _Verdict:
        return self._attempted.runner.filter(self._attempted.cycle, view, states, among)

    def _one_by_one(self, plugin: Plugin[Any], states: States, among: BoolColumn) -> _Verdict:
        """Ask a plugin whose verdict on a row depends on pods of other rows as well."""
        rejections: list[Rejection] = []
        passed = np.zeros_like(among)
        concerned = self._concerned(plugin)
        if np.count_nonzero(among & ~concerned):
            passed, rejections = self._run(self._view, states, among & ~concerned)
        for place in np.flatnonzero(among & concerned).tolist():
            passed[place], rejected = self._alone(plugin, states, place)
            rejections += rejected
        return passed, rejections

    def _alone(
        self, plugin: Plugin[Any], states: States, place: int
    ) -> tuple[bool, list[Rejection]]:
        """Ask a plugin about one row."""
        own = States()
        own.skipped = set(states.skipped)
        if self._row_states.follows(plugin):
            own.by_plugin[plugin.name] = self._row_states.clone(plugin, place)
            if hasattr(plugin, "concerns"):
                view = self._view.only(np.array([place], dtype=np.intp))
                fits, rejected = self._run(view, own, np.ones(1, dtype=np.bool_))
                return bool(fits[0]), self._spread(rejected, 0, place)
        thinning = self._thinning
        row = int(thinning.crowd.rows[place])
        more = [(placed, row) for placed in thinning.come(place)]
        away = [placed for placed, _ in thinning.away(place)]
        whole = self._attempted.nodes.hypothetical(away, more)
        here = np.zeros(whole.size, dtype=np.bool_)
        here[row] = True
        status = SUCCESS
        prepares = any(b.name == plugin.name for b in self._attempted.runner.profile.pre_filter)
        if prepares and plugin.takes_state and plugin.name not in own.by_plugin:
            status = recompute(plugin, self._attempted.cycle, whole, own)
        if not status.is_success:
            final = status.code is not Code.UNSCHEDULABLE
            rejection = Rejection(plugin.name, here, reject(here, status.message, final=final))
            return False, self._spread([rejection], row, place)
        fits, rejected = self._run(whole, own, here)
        return bool(fits[row]), self._spread(rejected, row, place)

    def _concerned(self, plugin: Any) -> BoolColumn:
        """Return the rows on which a pod moved that may concern the plugin."""
        thinning = self._thinning
        size = len(thinning.crowd.rows)
        if not hasattr(plugin, "concerns") or not self._row_states.follows(plugin):
            return np.ones(size, dtype=np.bool_)
        found = self._concerning.get(plugin.name)
        if found is None:
            found = (self._flags(plugin, thinning.crowd), self._flags(plugin, thinning.promised))
            self._concerning[plugin.name] = found
        rows = np.zeros(size, dtype=np.bool_)
        rows[thinning.crowd.index[found[0] & thinning.gone]] = True
        if thinning.counts_promised:
            rows[thinning.promised.index[found[1]]] = True
        return rows

    def _flags(self, plugin: Any, crowd: Crowd) -> BoolColumn:
        state = self._attempted.states.by_plugin[plugin.name]
        with named(plugin, "Concerns"):
            flags = (plugin.concerns(state, crowd.pod(pod)) for pod in range(len(crowd)))
            found = np.fromiter(flags, dtype=np.bool_, count=len(crowd))
            for pod in crowd.parties:
                found[pod] = any(plugin.concerns(state, one) for one, _ in crowd.moves(pod))
            return found

    def _sections(self, bounds: Sequence[Bound]) -> Iterator[_Section]:
        """Split filters, in order, into runs of local ones and single others."""
        names = {bound.name for bound in self._attempted.runner.profile.filter}
        for is_local, run in groupby(bounds, key=lambda bound: bound.plugin.local):
            for part in [list(run)] if is_local else [[bound] for bound in run]:
                states = States()
                states.by_plugin = self._attempted.states.by_plugin
                states.skipped = names - {bound.name for bound in part}
                yield _Section(states, None if is_local else part[0].plugin)

    def _spread(self, rejections: Sequence[Rejection], row: int, place: int) -> list[Rejection]:
        """Return rejections of one row as columns over the crowd's rows."""

        def column(flags: BoolColumn) -> BoolColumn:
            full = np.zeros(len(self._has_promised), dtype=np.bool_)
            full[place] = flags[row]
            return full

        return [by_column(each, column) for each in rejections]


def by_column(rejection: Rejection, column: Callable[[BoolColumn], BoolColumn]) -> Rejection:
    """Return a rejection with each of its columns turned into another."""
    rejected = rejection.rejected
    reasons = tuple(Reason(column(reason.rows), reason.text) for reason in rejected.reasons)
    turned = Rejected(column(rejected.rows), column(rejected.final), reasons)
    return Rejection(rejection.plugin, column(rejection.rows), turned)


def _minds_pods(plugin: Plugin[Any]) -> bool:
    """Whether a plugin looks at pods on nodes; one that declares nothing may look at anything."""
    return not plugin.reads or any(fact.startswith("pod.") for fact in plugin.reads)
