"""`RowStates`: the states of plugins that are not local, as they would be after pods moved on one row.

A plugin with `add_pod` and `remove_pod` brings a clone of its state up to date, pod by pod; any other
has its state worked out anew on the changed view. `Rehearsal` asks; the attempt's own states stay as
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from scheduler.base.arrays import Rows
from scheduler.base.errors import PluginError
from scheduler.framework.answers import States
from scheduler.framework.cycle import Cycle
from scheduler.framework.narrow import Narrow
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.framework.thinning import Thinning


class RowStates:
    """Clones of plugins' states, per row of a thinning."""

    def __init__(self, states: States, thinning: Thinning) -> None:
        self._states = states
        self._thinning = thinning
        self._clones: dict[tuple[int, bool], dict[str, tuple[Any, Any]]] = {}

    def follows(self, plugin: Any) -> bool:
        """Whether a plugin follows pods by itself."""
        return (
            hasattr(plugin, "add_pod")
            and hasattr(plugin, "remove_pod")
            and plugin.name in self._states.by_plugin
        )

    def clone(self, plugin: Any, place: int) -> Any:
        """Return the state of a plugin that follows pods, as it is now on the row at `place`."""
        thinning = self._thinning
        clones = self._clones.setdefault((place, thinning.counts_promised), {})
        if plugin.name not in clones:
            state = _copied(self._states.by_plugin[plugin.name])
            row = int(thinning.crowd.rows[place])
            with named(plugin, "RemovePod"):
                for placed, left in thinning.away(place):
                    plugin.remove_pod(state, placed, left)
            with named(plugin, "AddPod"):
                for placed in thinning.come(place):
                    plugin.add_pod(state, placed, row)
            clones[plugin.name] = (plugin, state)
        return clones[plugin.name][1]

    def moved(self, pods: Rows, *, back: bool) -> None:
        """Bring the clones up to date with pods of the crowd that came back, or left again."""
        if not self._clones:
            return
        crowd = self._thinning.crowd
        for pod in pods.tolist():
            place = int(crowd.index[pod])
            for promised in (False, True):
                for plugin, state in self._clones.get((place, promised), {}).values():
                    with named(plugin, "AddPod" if back else "RemovePod"):
                        move = plugin.add_pod if back else plugin.remove_pod
                        for placed, row in crowd.moves(pod):
                            move(state, placed, row)


def recompute(plugin: Any, cycle: Cycle, view: Nodes, states: States) -> Status:
    """Run a plugin's pre-filter on a changed view and keep its state in `states`."""
    with named(plugin, "PreFilter"):
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
def named(plugin: Any, point: str) -> Iterator[None]:
    """Name plugin and point in whatever a plugin raises."""
    try:
        yield
    except Exception as error:
        raise PluginError(plugin.name, point, str(error)) from error


def _copied(state: Any) -> Any:
    # A plain container's own copy would share what it holds.
    own_copy = hasattr(state, "copy") and not isinstance(state, dict | list | set)
    return state.copy() if own_copy else deepcopy(state)
