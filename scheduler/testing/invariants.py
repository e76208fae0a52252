"""The invariants of every plugin, one function each: they yield violations.

`check_plugin` runs them all. Requeueing of rejected pods and the correctness of results cached per
key have modules of their own (`waking`, `keys`).
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from scheduler.base.errors import PluginError
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.nodes import Nodes
from scheduler.framework.running.answers import States
from scheduler.framework.status import Narrow, Rejected
from scheduler.objects.pod import Pod
from scheduler.testing.evaluate import Evaluation, look
from scheduler.testing.scene import Scene
from scheduler.testing.trial import Trial


def constructs(trial: Trial) -> Iterator[str]:
    """The plugin's default arguments are valid, and it serves some extension point."""
    for field, message in trial.cls.args_type().validate():
        yield f"default arguments are refused: {field}: {message}"
    if not trial.cls.points():
        yield "it serves no extension point"


def runs(trial: Trial) -> Iterator[str]:
    """Check that no sample makes the plugin raise, and that normalised scores are in 0..100."""
    scene = trial.scene()
    for pod in trial.pods():
        try:
            look(scene, scene.cycle(pod))
        except PluginError as error:
            yield f"pod {pod.key}: {error}"


def returns_columns(trial: Trial) -> Iterator[str]:
    """Check that results of filter and pre-filter have one entry per row, and each rejected row a
    reason.
    """
    scene = trial.scene()
    nodes = scene.nodes()
    for pod, _ in trial.looks(scene):
        states = States()
        cycle = scene.cycle(pod)
        if trial.cls.serves("pre_filter"):
            answer = scene.plugin.pre_filter(cycle, nodes)
            if isinstance(answer, Narrow) and not _is_mask(answer.rows, nodes):
                yield f"pod {pod.key}: pre_filter narrows to something that is no column of bools"
                continue
            if not scene.runner.pre_filter(cycle, nodes, states).status.is_success:
                continue
        if trial.cls.serves("filter") and not states.skipped:
            state = (
                (states.by_plugin.get(trial.cls.name),) if trial.cls.serves("pre_filter") else ()
            )
            for problem in _rejection_faults(scene.plugin.filter(cycle, nodes, *state), nodes):
                yield f"pod {pod.key}: {problem}"


def writes_nothing(trial: Trial) -> Iterator[str]:
    """The plugin does not write to the columns that it receives."""
    scene = trial.scene()
    before = _snapshot(scene)
    for _ in trial.looks(scene):
        pass
    for name, column in _snapshot(scene).items():
        if not np.array_equal(before[name], column):
            yield f"it changed the column {name}"


def repeats_itself(trial: Trial) -> Iterator[str]:
    """Yield differences between two calls of the plugin on one scene."""
    scene = trial.scene()
    yield from differences(trial.looks(scene), trial.looks(scene), "the second time")


def ignores_row_order(trial: Trial) -> Iterator[str]:
    """The plugin's result for a node does not depend on the node's row."""
    backwards = trial.scene(trial.samples.nodes[::-1])
    yield from differences(trial.looks(), trial.looks(backwards), "with rows in another order")


def is_local(trial: Trial) -> Iterator[str]:
    """A plugin with `local` evaluates a row by that row and the pod alone."""
    if not trial.cls.local or not trial.cls.serves("filter"):
        return
    together = {pod.key: evaluation.filter for pod, evaluation in trial.looks()}
    for raw in trial.samples.nodes:
        name = raw["metadata"]["name"]
        for pod, alone in trial.looks(trial.scene([raw])):
            if pod.key in together and together[pod.key][name] != alone.filter[name]:
                yield f"pod {pod.key}: node {name} alone is judged differently than among others"
    yield from _keeps_no_rows(trial)


def _keeps_no_rows(trial: Trial) -> Iterator[str]:
    """Check that the state of a local plugin's pre-filter is valid for views of a few rows as
    well.
    """
    scene = trial.scene()
    nodes = scene.nodes()
    rows = np.flatnonzero(nodes.exists)[::2]
    for pod, whole in trial.looks(scene):
        states = States()
        cycle = scene.cycle(pod)
        if not scene.runner.pre_filter(cycle, nodes, states).status.is_success:
            continue  # without its state it runs on no node
        few = nodes.only(rows)
        try:
            fits, _ = scene.runner.filter(cycle, few, states, few.exists)
        except PluginError as error:
            yield f"pod {pod.key}: on a few rows with the state of all: {error}"
            continue
        expected = [whole.filter[few.name(row)].is_success for row in range(few.size)]
        if expected != fits.tolist():
            yield f"pod {pod.key}: a few rows with the state of all are judged differently"


def gives_back(trial: Trial) -> Iterator[str]:
    """Check that reserve and unreserve leave no trace, and that unreserve without reserve does
    nothing.
    """
    if not trial.cls.serves("reserve"):
        return
    if not trial.cls.serves("unreserve"):
        yield "it has reserve but no unreserve"
        return
    scene = trial.scene()
    before = list(trial.looks(scene))
    nodes = scene.nodes()
    node = nodes.name(int(np.argmax(nodes.exists)))
    for pod in trial.pods():
        cycle, states = scene.cycle(pod), States()
        try:
            scene.runner.pre_filter(cycle, nodes, states)
            scene.runner.unreserve(cycle, node, states)
            scene.runner.reserve(cycle, node, states)
            scene.runner.unreserve(cycle, node, states)
        except PluginError as error:
            yield f"pod {pod.key}: {error}"
    yield from differences(before, trial.looks(scene), "after reserve and unreserve")


def tracks(trial: Trial) -> Iterator[str]:
    """Check that a tracker that applied every change equals one that was rebuilt."""
    scene = trial.scene()
    for _ in trial.looks(scene):
        pass  # some plugins request their tracker late
    for placed in list(scene.cluster.pods)[::2]:
        scene.follow(scene.cluster.drop_pod(placed.pod.metadata.uid))
    for key, tracker in scene.handle.trackers.items():
        anew = key.made()
        anew.rebuild(scene.cluster)
        expected, actual = anew.columns(), tracker.columns()
        for column in sorted({*expected, *actual}):
            both = column in expected and column in actual
            if not both or not np.array_equal(expected[column], actual[column]):
                yield f"tracker {key}: {column} differs from one built afresh"


def sorts_strictly(trial: Trial) -> Iterator[str]:
    """`less` is a strict weak order, and `sort_key` orders the same way."""
    if not trial.cls.serves("less"):
        return
    plugin: Any = trial.scene().plugin
    queued = [QueuedPod(pod, number, float(number % 3)) for number, pod in enumerate(trial.pods())]
    for one in queued if plugin.serves("enter") else ():
        plugin.enter(one)  # a sort that keeps groups together needs the active pods
    for first, second in product(queued, repeat=2):
        both = f"{first.pod.key} and {second.pod.key}"
        if plugin.less(first, second) and plugin.less(second, first):
            yield f"{both} are each less than the other"
        if plugin.serves("sort_key"):
            by_key = plugin.sort_key(first) < plugin.sort_key(second)
            if bool(by_key) != bool(plugin.less(first, second)):
                yield f"less and sort_key disagree on {both}"
    for one, two, three in product(queued, repeat=3):
        if plugin.less(one, two) and plugin.less(two, three) and not plugin.less(one, three):
            yield f"{one.pod.key} < {two.pod.key} < {three.pod.key}, but not the first < the last"


def differences(
    first: Iterator[tuple[Pod, Evaluation]] | Sequence[tuple[Pod, Evaluation]],
    second: Iterator[tuple[Pod, Evaluation]],
    when: str,
) -> Iterator[str]:
    seen = {pod.key: evaluation for pod, evaluation in first}
    for pod, evaluation in second:
        before = seen.get(pod.key)
        if before is None or before == evaluation:
            continue
        parts = [
            f for f in evaluation.__struct_fields__ if getattr(before, f) != getattr(evaluation, f)
        ]
        yield f"pod {pod.key}: it says something else {when} ({', '.join(parts)})"


def _rejection_faults(rejected: Any, nodes: Nodes) -> Iterator[str]:
    if rejected is None:
        return
    if not isinstance(rejected, Rejected):
        yield f"filter returned {type(rejected).__name__}, not Rejected or None"
        return
    columns = [rejected.rows, rejected.final, *(reason.rows for reason in rejected.reasons)]
    if not all(_is_mask(column, nodes) for column in columns):
        yield f"filter rejects by columns that are no bools of {nodes.size} rows"
        return
    if (rejected.final & ~rejected.rows).any():
        yield "filter calls rows final that it does not reject"
    with_reason = np.zeros(nodes.size, dtype=np.bool_)
    for reason in rejected.reasons:
        if not reason.text:
            yield "filter gives an empty reason"
        with_reason |= reason.rows
    if (rejected.rows & nodes.exists & ~with_reason).any():
        yield "filter rejects a row without a reason"


def _is_mask(column: Any, nodes: Nodes) -> bool:
    return (
        isinstance(column, np.ndarray)
        and column.dtype == np.bool_
        and column.shape == (nodes.size,)
    )


def _snapshot(scene: Scene) -> dict[str, Any]:
    table = scene.cluster.table
    columns: dict[str, Any] = {
        "exists": table.exists,
        "unschedulable": table.unschedulable,
        "name_hash": table.name_hash,
        "taints": table.taints.ids,
        "scored cpu": table.scored("cpu"),
        "scored memory": table.scored("memory"),
    }
    for resource in table.resources:
        columns[f"allocatable {resource}"] = table.allocatable(resource)
        columns[f"requested {resource}"] = table.requested(resource)
    for key in sorted({k for node in table.nodes if node for k in node.metadata.labels}):
        columns[f"label {key}"] = table.labels.column(key).ids
    return {name: column.copy() for name, column in columns.items()}
