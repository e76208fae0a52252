"""Run the filters of an attempt again for rows from which pods are removed or to which pods are
added.

`Attempted.filter` moves given pods, `with_nominated` adds pods nominated by other attempts, and
`dry_run` restores victims of preemption step by step. Local plugins answer for all rows at once,
other plugins row by row; a plugin with `concerns(state, placed)` is called only where a relevant
pod moved. A plugin with `add_pod` and `remove_pod` updates a copy of its state; for any other the
state is recomputed. The attempt's own states stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import groupby
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.base.errors import PluginError
from scheduler.framework.cycle import Cycle
from scheduler.framework.hypothetical.overlay import Overlay
from scheduler.framework.hypothetical.rowpods import Nominated, RowPods, row_pods
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.postfilter import Moves, Verdict
from scheduler.framework.profile import Bound
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import (
    SUCCESS,
    Code,
    Narrow,
    Reason,
    Rejected,
    Rejection,
    Status,
    reject,
)
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed
from scheduler.state.shapes import Shape


class Attempted(msgspec.Struct, frozen=True):
    """An attempt whose filters can run again; `nodes` is its view of all nodes."""

    runner: Runner
    cycle: Cycle
    nodes: Nodes
    states: States

    @property
    def filters(self) -> list[Bound]:
        """Return the filters that apply to the pod."""
        skipped = self.states.skipped
        return [bound for bound in self.runner.profile.filter if bound.name not in skipped]

    @property
    def is_by_row(self) -> bool:
        """Return whether the verdict of every filter on a row changes only with that row."""
        kinds = [self.states.kinds.get(bound.name) for bound in self.filters]
        return all(kind is not None and kind.keeper.is_by_row for kind in kinds)

    def state(self, plugin: str) -> Any:
        """Return what a plugin's pre-filter returned; None if it did not run or skipped the pod."""
        return self.states.by_plugin.get(plugin)

    def filter(self, rows: Rows, *, removed: Moves = (), added: Moves = ()) -> Verdict:
        """Return the rows of `rows` that pass and the rejections of the others, as full columns.

        `removed` and `added` are pods with their rows; pods outside `rows` are ignored.
        """
        return self._verdict(Overlay(row_pods(rows, removed), row_pods(rows, added)))

    def with_nominated(self, pods: RowPods) -> Verdict:
        """Return the verdict of `filter` with nominated pods added."""
        return self._verdict(Overlay(row_pods(pods.rows), pods))

    def beside(self, pods: Mapping[str, Sequence[Placed]], among: BoolColumn) -> Verdict:
        """Return the rows of `among` that pass with all of these pods on their nodes at once.

        `pods` are by the filter that evaluates them; without these pods the filter may not apply to
        the pod. No eviction helps on the rejected rows.
        """
        cycle, names = self.cycle, {bound.name for bound in self.runner.profile.filter}
        rejections: list[Rejection] = []
        for bound in self.runner.profile.filter:
            if bound.name not in pods:
                continue
            rows = [(one, self.nodes.row(one.node)) for one in pods[bound.name]]
            added = [(one, row) for one, row in rows if row is not None]
            whole, states = self.nodes.hypothetical(added=added), States()
            states.skipped = names - {bound.name}
            if bound.plugin.takes_state:
                status = recompute(bound.plugin, cycle, whole, states)
                if not status.is_success:
                    rejected = reject(among, status.message, final=True)
                    rejections.append(Rejection(bound.name, among, rejected))
                    return np.zeros_like(among), rejections
            among, found = self.runner.filter(cycle, whole, states, among)
            for one in found:
                verdict = msgspec.structs.replace(one.rejected, final=one.rows)
                rejections.append(msgspec.structs.replace(one, rejected=verdict))
        return among, rejections

    def dry_run(self, victims: RowPods, nominated: Nominated) -> DryRun:
        """Return a dry run of the rows of `victims` with the victims removed; it can restore them
        step by step.

        A row passes if the pod fits both with and without the pods that are nominated to it.
        """
        coming = nominated.on(victims.rows)
        return DryRun(self, Overlay(victims, coming, is_coming=False), both=coming.counts > 0)

    def accepting(self, pod: Pod, shape: Shape, nominated: Nominated) -> BoolColumn:
        """Return the rows whose filters accept another pod beside the pods that are nominated."""
        of, nodes, states = self.cycle, self.nodes, States()
        cycle = Cycle(pod, shape, of.now, of.random, of.profile)
        pre = self.runner.pre_filter(cycle, nodes, states)
        if not pre.status.is_success:
            return np.zeros(nodes.size, dtype=np.bool_)
        among = nodes.exists if pre.rows is None else nodes.exists & pre.rows
        accepting, _ = self.runner.filter(cycle, nodes, states, among)
        rows = nominated.rows
        rows = rows[accepting[rows]]
        if len(rows):
            again = Attempted(self.runner, cycle, nodes, states)
            passed, _ = again.with_nominated(nominated.on(rows))
            accepting[rows] &= passed[rows]
        return accepting

    def _verdict(self, overlay: Overlay) -> Verdict:
        nodes, rows = self.nodes, overlay.rows
        few, rejections = DryRun(self, overlay).verdict(nodes.exists[rows])
        passed = np.zeros(nodes.size, dtype=np.bool_)
        passed[rows] = few
        return passed, _moved(rejections, slice(None), rows, nodes.size)


class _Section(msgspec.Struct, frozen=True):
    """Consecutive local filters (`plugin` None), or one other filter; `states` skips all others."""

    states: States
    plugin: Plugin[Any] | None


class DryRun:
    """Run filters on the rows of an overlay; all columns have one entry per such row.

    `both` marks rows that must also pass without the added pods; None means that the added pods
    always count.
    """

    def __init__(
        self, attempted: Attempted, overlay: Overlay, *, both: BoolColumn | None = None
    ) -> None:
        self._attempted = attempted
        self._overlay = overlay
        self._both = both
        self._view = attempted.nodes.over(overlay)
        self._offered: Rows = np.zeros(0, dtype=np.intp)
        # Copies of the states of plugins with `add_pod`, by row and by whether added pods count.
        self._copies: dict[tuple[int, bool], dict[str, tuple[Any, Any]]] = {}
        self._concerning: dict[str, tuple[BoolColumn, BoolColumn]] = {}
        self._all = list(self._sections(attempted.filters))
        self._minding = list(self._sections(b for b in attempted.filters if _minds_pods(b.plugin)))

    @property
    def gone(self) -> BoolColumn:
        """Return which of the removed pods are currently removed."""
        return self._overlay.gone

    def offer(self, step: int) -> None:
        """Restore the victim number `step` of each row on trial."""
        victims = self._overlay.leaving
        self._offered = victims.starts[np.flatnonzero(victims.counts > step)] + step
        self._overlay.bring_back(self._offered)
        self._follow(self._offered, back=True)

    def keep(self, rows: BoolColumn) -> None:
        """End the trial: victims on these rows stay, the others are removed again."""
        leaving = self._offered[~rows[self._overlay.leaving.index[self._offered]]]
        self._overlay.take_away(leaving)
        self._follow(leaving, back=False)

    def verdict(self, among: BoolColumn, *, again: bool = False) -> Verdict:
        """Return which rows of `among` pass all filters, and the rejections of the others.

        Set `again` for rows that passed before if only pods have moved since: filters that do not
        read pods are skipped.
        """
        sections = self._minding if again else self._all
        rejections: list[Rejection] = []
        if self._both is not None and np.count_nonzero(among & self._both):
            self._overlay.is_coming = True
            fits, rejections = self._filter(among & self._both, sections)
            self._overlay.is_coming = False
            among = among & (fits | ~self._both)
        fits, more = self._filter(among, sections)
        return fits, rejections + more

    def _filter(self, among: BoolColumn, sections: Sequence[_Section]) -> Verdict:
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

    def _run(self, view: Nodes, states: States, among: BoolColumn) -> Verdict:
        return self._attempted.runner.filter(self._attempted.cycle, view, states, among)

    def _one_by_one(self, plugin: Plugin[Any], states: States, among: BoolColumn) -> Verdict:
        """Call a plugin whose verdict on a row also depends on pods of other rows."""
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
        """Call a plugin for one row."""
        own = States()
        own.skipped = set(states.skipped)
        if self._follows(plugin):
            own.by_plugin[plugin.name] = self._copy(plugin, place)
            if plugin.serves("concerns"):
                view = self._view.only(np.array([place], dtype=np.intp))
                fits, rejected = self._run(view, own, np.ones(1, dtype=np.bool_))
                return bool(fits[0]), _moved(rejected, 0, place, len(self._overlay.rows))
        row = int(self._overlay.rows[place])
        away = [placed for placed, _ in self._overlay.away(place)]
        come = [(placed, row) for placed in self._overlay.come(place)]
        whole = self._attempted.nodes.hypothetical(away, come)
        here = np.zeros(whole.size, dtype=np.bool_)
        here[row] = True
        status = SUCCESS
        prepares = any(b.name == plugin.name for b in self._attempted.runner.profile.pre_filter)
        if prepares and plugin.takes_state and plugin.name not in own.by_plugin:
            status = recompute(plugin, self._attempted.cycle, whole, own)
        if not status.is_success:
            final = status.code is not Code.UNSCHEDULABLE
            rejection = Rejection(plugin.name, here, reject(here, status.message, final=final))
            return False, _moved([rejection], row, place, len(self._overlay.rows))
        fits, rejected = self._run(whole, own, here)
        return bool(fits[row]), _moved(rejected, row, place, len(self._overlay.rows))

    def _concerned(self, plugin: Any) -> BoolColumn:
        """Return the rows with a removed or added pod that is relevant to the plugin."""
        overlay = self._overlay
        if not plugin.serves("concerns") or not self._follows(plugin):
            return np.ones(len(overlay.rows), dtype=np.bool_)
        found = self._concerning.get(plugin.name)
        if found is None:
            found = (self._flags(plugin, overlay.leaving), self._flags(plugin, overlay.coming))
            self._concerning[plugin.name] = found
        rows = np.zeros(len(overlay.rows), dtype=np.bool_)
        rows[overlay.leaving.index[found[0] & overlay.gone]] = True
        if overlay.is_coming:
            rows[overlay.coming.index[found[1]]] = True
        return rows

    def _flags(self, plugin: Any, pods: RowPods) -> BoolColumn:
        state = self._attempted.states.by_plugin[plugin.name]
        with _named(plugin, "Concerns"):
            flags = (plugin.concerns(state, pods.pod(pod)) for pod in range(len(pods)))
            found = np.fromiter(flags, dtype=np.bool_, count=len(pods))
            for pod in pods.companions:
                found[pod] = any(plugin.concerns(state, one) for one, _ in pods.moves(pod))
            return found

    def _sections(self, bounds: Iterable[Bound]) -> Iterator[_Section]:
        """Split filters, in order, into runs of local ones and single others."""
        names = {bound.name for bound in self._attempted.runner.profile.filter}
        for is_local, run in groupby(bounds, key=lambda bound: bound.plugin.local):
            for part in [list(run)] if is_local else [[bound] for bound in run]:
                states = States()
                states.by_plugin = self._attempted.states.by_plugin
                states.skipped = names - {bound.name for bound in part}
                yield _Section(states, None if is_local else part[0].plugin)

    # States of plugins that follow pods.

    def _follows(self, plugin: Any) -> bool:
        return (
            plugin.serves("add_pod")
            and plugin.serves("remove_pod")
            and plugin.name in self._attempted.states.by_plugin
        )

    def _copy(self, plugin: Any, place: int) -> Any:
        """Return a copy of a plugin's state that is updated for the pods currently removed from, or
        added to, the row at `place`.
        """
        overlay = self._overlay
        copies = self._copies.setdefault((place, overlay.is_coming), {})
        if plugin.name not in copies:
            state = _copied(self._attempted.states.by_plugin[plugin.name])
            with _named(plugin, "RemovePod"):
                for placed, row in overlay.away(place):
                    plugin.remove_pod(state, placed, row)
            with _named(plugin, "AddPod"):
                for placed in overlay.come(place):
                    plugin.add_pod(state, placed, int(overlay.rows[place]))
            copies[plugin.name] = (plugin, state)
        return copies[plugin.name][1]

    def _follow(self, numbers: Rows, *, back: bool) -> None:
        """Update the copies for victims that were restored, or removed again."""
        victims = self._overlay.leaving
        for number in numbers.tolist() if self._copies else ():
            for is_coming in (False, True):
                copies = self._copies.get((int(victims.index[number]), is_coming), {})
                for plugin, state in copies.values():
                    with _named(plugin, "AddPod" if back else "RemovePod"):
                        move = plugin.add_pod if back else plugin.remove_pod
                        for placed, row in victims.moves(number):
                            move(state, placed, row)


def recompute(plugin: Any, cycle: Cycle, view: Nodes, states: States) -> Status:
    """Run a plugin's pre-filter on a changed view and store its state in `states`."""
    with _named(plugin, "PreFilter"):
        answer = plugin.pre_filter(cycle, view)
    if not isinstance(answer, Status):
        states.by_plugin[plugin.name] = answer.state if isinstance(answer, Narrow) else answer
        return SUCCESS
    if answer.code is Code.ERROR:
        raise PluginError(plugin.name, "PreFilter", answer.message)
    if answer.code is Code.SKIP:
        states.skipped.add(plugin.name)
        return SUCCESS
    return answer


@contextmanager
def _named(plugin: Any, point: str) -> Iterator[None]:
    """Add the plugin's name and the point to any exception of a plugin."""
    try:
        yield
    except Exception as error:  # a plugin may raise anything
        raise PluginError(plugin.name, point, str(error)) from error


def _copied(state: Any) -> Any:
    # A plain container's own copy would share its elements.
    own_copy = hasattr(state, "copy") and not isinstance(state, dict | list | set)
    return state.copy() if own_copy else deepcopy(state)


def _moved(
    rejections: Sequence[Rejection], places: int | slice, to: int | Rows, size: int
) -> list[Rejection]:
    """Return rejections with columns of `size` rows, with the values at `places` moved to `to`."""

    def column(flags: BoolColumn) -> BoolColumn:
        full = np.zeros(size, dtype=np.bool_)
        full[to] = flags[places]
        return full

    def moved(verdict: Rejected) -> Rejected:
        reasons = tuple(Reason(column(one.rows), one.text) for one in verdict.reasons)
        return Rejected(column(verdict.rows), column(verdict.final), reasons)

    return [Rejection(one.plugin, column(one.rows), moved(one.rejected)) for one in rejections]


def _minds_pods(plugin: Plugin[Any]) -> bool:
    """Return whether a plugin's verdict depends on pods on nodes; True for a plugin without
    `reads`.
    """
    return not plugin.reads or any(fact.startswith("pod.") for fact in plugin.reads)
