"""Filtering on nodes as they would be: with nominated pods added, or with victims gone.

Called by the cycle (second pass for nominated pods) and by preemption. A local plugin answers for any
number of changed rows at once; any other is asked row by row, with its state brought up to date by
its own `add_pod`/`remove_pod` on a clone, or worked out anew on the changed view.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.base.errors import PluginError
from scheduler.framework.cycle import Cycle
from scheduler.framework.narrow import Narrow
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Profile
from scheduler.framework.runner import Rejection, Runner, States
from scheduler.framework.status import SUCCESS, Code, Reason, Rejected, Status, reject
from scheduler.state.podindex import Placed

Moves = Sequence[tuple[Placed, int]]


class Hypothetical:
    """Runs the filters of one attempt on changed rows."""

    def __init__(self, runner: Runner, cycle: Cycle, nodes: Nodes, states: States) -> None:
        self._runner = runner
        self._cycle = cycle
        self._nodes = nodes
        self._states = states
        self.is_local = _is_local(runner.profile, states)

    def filter(
        self, rows: Rows, *, removed: Moves = (), added: Moves = ()
    ) -> tuple[BoolColumn, list[Rejection]]:
        """Return which of `rows` would pass, and who rejects the others, as full columns.

        `removed` and `added` are pods with their rows; pods on rows outside `rows` are left alone.
        """
        passed = np.zeros(self._nodes.size, dtype=np.bool_)
        rejections: list[Rejection] = []
        groups = [rows] if self.is_local else [rows[i : i + 1] for i in range(len(rows))]
        for group in groups:
            wanted = set(group.tolist())
            gone = [move for move in removed if move[1] in wanted]
            more = [move for move in added if move[1] in wanted]
            view = self._nodes.hypothetical([placed for placed, _ in gone], more)
            states = self._states
            if not self.is_local:
                states, refusal = self._states_after(view, gone, more, group)
                if refusal is not None:
                    rejections.append(refusal)
                    continue
            few = view.only(group) if self.is_local else view
            among = few.exists if self.is_local else _mask(self._nodes.size, group)
            fits, rejected = self._runner.filter(self._cycle, few, states, among)
            if self.is_local:
                passed[group] = fits
                rejections += [_widen(r, group, self._nodes.size) for r in rejected]
            else:
                passed |= fits
                rejections += rejected
        return passed, rejections

    def _states_after(
        self, view: Nodes, gone: Moves, more: Moves, group: Rows
    ) -> tuple[States, Rejection | None]:
        """Return the states on the changed view, or who rejects the pod there altogether."""
        states = States()
        states.skipped = set(self._states.skipped)
        for name, state in self._states.by_plugin.items():
            plugin = self._runner.profile.plugins[name]
            if plugin.local:
                states.by_plugin[name] = state
            elif hasattr(plugin, "add_pod") and hasattr(plugin, "remove_pod"):
                states.by_plugin[name] = _moved(plugin, state, gone, more)
            else:
                status = _recompute(plugin, self._cycle, view, states)
                if not status.is_success:
                    rows = _mask(self._nodes.size, group)
                    final = status.code is not Code.UNSCHEDULABLE
                    rejected = reject(rows, status.message, final=final)
                    return states, Rejection(name, rows, rejected)
        return states, None


def _moved(plugin: Any, state: Any, gone: Moves, more: Moves) -> Any:
    # A plain container's own copy would share what it holds.
    own_copy = hasattr(state, "copy") and not isinstance(state, dict | list | set)
    clone = state.copy() if own_copy else deepcopy(state)
    for placed, row in gone:
        with _named(plugin, "RemovePod"):
            plugin.remove_pod(clone, placed, row)
    for placed, row in more:
        with _named(plugin, "AddPod"):
            plugin.add_pod(clone, placed, row)
    return clone


def _recompute(plugin: Any, cycle: Cycle, view: Nodes, states: States) -> Status:
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
    """Name plugin and point in whatever a plugin raises."""
    try:
        yield
    except Exception as error:
        raise PluginError(plugin.name, point, str(error)) from error


def _is_local(profile: Profile, states: States) -> bool:
    return all(b.plugin.local for b in profile.filter if b.name not in states.skipped)


def _mask(size: int, rows: Iterable[int]) -> BoolColumn:
    mask = np.zeros(size, dtype=np.bool_)
    mask[list(rows)] = True
    return mask


def _widen(rejection: Rejection, rows: Rows, size: int) -> Rejection:
    def full(few: BoolColumn) -> BoolColumn:
        column = np.zeros(size, dtype=np.bool_)
        column[rows] = few
        return column

    rejected = rejection.rejected
    return Rejection(
        rejection.plugin,
        full(rejection.rows),
        Rejected(
            full(rejected.rows),
            full(rejected.final),
            tuple(Reason(full(reason.rows), reason.text) for reason in rejected.reasons),
        ),
    )
