"""`evaluate` and `less`: the verdict of one plugin on one pod, from plain manifests.

For tests of plugins, in this repository and in others. The plugin runs through the scheduler's own
`Runner`, alone, over all nodes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import InputError, PluginError
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.args import Args
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.running.answers import PreFiltered, States
from scheduler.framework.status import SKIP, SUCCESS, Code, Rejection, Status
from scheduler.objects.plain import read_pod
from scheduler.testing.scene import PluginClass, Scene


class Evaluation(msgspec.Struct, frozen=True):
    """The verdict of a plugin on a pod.

    `node_names` are the existing nodes that pre-filter narrowed the search down to, None if it did
    not. `filter` has every node, each evaluated in isolation (not narrowed). `raw` and `normalized`
    have the nodes that were scored: empty when pre-filter rejected the pod, when pre-score skipped
    or failed, and for a plugin that does not score. `pre_score` has an error of pre-score even when
    pre-filter rejected the pod.
    """

    pre_filter: Status
    node_names: frozenset[str] | None
    filter: dict[str, Status]
    pre_score: Status
    raw: dict[str, int]
    normalized: dict[str, int]


def evaluate(
    plugin: str | PluginClass,
    *,
    args: Mapping[str, Any] | Args | None = None,
    nodes: Iterable[Any],
    objects: Iterable[Any] = (),
    existing_pods: Iterable[Any] = (),
    namespaces: Iterable[Any] = (),
    pod: Any,
    now: float | str | None = None,
    feature_gates: Mapping[str, bool] | None = None,
    feasible_nodes: Iterable[str] | None = None,
    kubernetes: str = "",
) -> Evaluation:
    """Run pre-filter, filter, pre-score and score of one plugin.

    `plugin` is a registered name or a class; objects are plain manifests; `now` is in seconds since
    the epoch, or RFC 3339; `kubernetes` is a release such as 1.37, by default 1.36. Scores cover
    all nodes, or the `feasible_nodes`. Raises ObjectError for a bad object, ConfigError for bad
    arguments, PluginError when the plugin raises.
    """
    scene = Scene(plugin, args, feature_gates, kubernetes)
    scene.fill(nodes, existing_pods, namespaces, objects)
    return look(scene, scene.cycle(read_pod(pod), _seconds(now)), feasible_nodes)


def look(
    scene: Scene,
    cycle: Cycle,
    feasible_nodes: Iterable[str] | None = None,
    nodes: Nodes | None = None,
) -> Evaluation:
    """Evaluate as `evaluate` does on an existing scene."""
    nodes = scene.nodes() if nodes is None else nodes
    states = States()
    pre_filter = scene.runner.pre_filter(cycle, nodes, states)
    status = SKIP if states.skipped else pre_filter.status
    rejections: list[Rejection] = []
    if not status.is_rejected and status.code is not Code.ERROR:
        _, rejections = scene.runner.filter(cycle, nodes, states, nodes.exists)
        mask = _mask(nodes, feasible_nodes)
        pre_score, raw, normalized = _score(scene, cycle, nodes.among(mask), states)
    else:
        pre_score, raw, normalized = _fault_of_scoring(scene, cycle, nodes, states), {}, {}
    return Evaluation(
        pre_filter=status,
        node_names=_names(nodes, pre_filter),
        filter=_statuses(nodes, pre_filter.status, rejections),
        pre_score=pre_score,
        raw=raw,
        normalized=normalized,
    )


def less(
    plugin: str | PluginClass,
    first: Any,
    second: Any,
    *,
    args: Mapping[str, Any] | Args | None = None,
    objects: Iterable[Any] = (),
    queued_at: tuple[float, float] = (0.0, 0.0),
) -> bool:
    """Return whether a queue-sort plugin puts `first` before `second` (pod manifests).

    `queued_at` are the times they entered the queue, in seconds; `first` entered it first.
    """
    scene = Scene(plugin, args)
    scene.fill(objects=objects)
    pods = (read_pod(first), read_pod(second))
    queued = [QueuedPod(pod, number, queued_at[number]) for number, pod in enumerate(pods)]
    _line_up(scene.plugin, queued)
    for bound in scene.profile.less:
        return bool(bound.call(*queued))
    raise InputError(f"plugin {scene.plugin.name} does not sort the queue")


def _line_up(plugin: Any, queued: Iterable[QueuedPod]) -> None:
    """Report the waiting pods to a plugin that keeps groups together, as the queue does."""
    for one in queued if plugin.serves("enter") else ():
        plugin.enter(one)


def _seconds(now: float | str | None) -> float | None:
    found = parse_rfc3339(now) if isinstance(now, str) else now
    if now is not None and found is None:
        raise InputError(f'"{now}" is not a time like 2026-01-31T12:00:00Z', where="now")
    return found


def _score(
    scene: Scene, cycle: Cycle, nodes: Nodes, states: States
) -> tuple[Status, dict[str, int], dict[str, int]]:
    try:
        _, scores = scene.runner.score(cycle, nodes, states)
    except PluginError as error:
        if error.__cause__ is not None:
            raise  # the plugin raised; only a status of code Error is a result
        return Status(Code.ERROR, (error.message,), error.plugin), {}, {}
    if states.skipped_scoring:
        return SKIP, {}, {}
    for scored in scores:
        rows = np.flatnonzero(nodes.feasible).tolist()
        raw = {nodes.name(row): int(scored.raw[row]) for row in rows}
        return SUCCESS, raw, {nodes.name(row): int(scored.normalized[row]) for row in rows}
    return SUCCESS, {}, {}


def _fault_of_scoring(scene: Scene, cycle: Cycle, nodes: Nodes, states: States) -> Status:
    """Return the error of a pre-score that needs no state of pre-filter."""
    try:
        pre_score, _, _ = _score(scene, cycle, nodes, states)
    except PluginError:
        return SUCCESS  # it needs the missing state of pre-filter
    return pre_score if pre_score.code is Code.ERROR else SUCCESS


def _mask(nodes: Nodes, names: Iterable[str] | None) -> BoolColumn:
    if names is None:
        return nodes.exists
    wanted = tuple(names)
    unknown = [name for name in wanted if nodes.row(name) is None]
    if unknown:
        raise InputError(f"feasible_nodes names {unknown[0]}, which is none of the nodes")
    return nodes.rows_named(wanted)


def _names(nodes: Nodes, pre_filter: PreFiltered) -> frozenset[str] | None:
    if pre_filter.rows is None:
        return None
    return frozenset(nodes.name(row) for row in np.flatnonzero(pre_filter.rows).tolist())


def _statuses(nodes: Nodes, status: Status, rejections: list[Rejection]) -> dict[str, Status]:
    found = {nodes.name(row): status for row in np.flatnonzero(nodes.exists).tolist()}
    for rejection in rejections:
        for row in np.flatnonzero(rejection.rows).tolist():
            found[nodes.name(row)] = rejection.rejected.status(row, rejection.plugin)
    return found
