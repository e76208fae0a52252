"""The invariant of keys: pods with equal keys get equal results, and cached results stay correct.

A plugin with a `key` guarantees that its verdict follows from the key, the row and the facts in
`reads`, and that its hint is equal for pods of one key and priority. Its samples are evaluated
while pods are deleted and nodes change; a runner with cached results must agree with a new one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from scheduler.base.errors import PluginError
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import EACH_POD
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.objects.plain import read_node
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.testing.evaluate import look
from scheduler.testing.invariants import differences
from scheduler.testing.scene import Scene
from scheduler.testing.trial import Trial


def keeps_its_key(trial: Trial) -> Iterator[str]:
    """Check that pods with one key get equal results, those without are skipped, and cached results
    stay correct.
    """
    if not trial.cls.has_key:
        return
    scene = trial.scene()
    nodes = scene.nodes()
    rows = np.flatnonzero(nodes.exists).tolist()
    known: dict[Any, tuple[str, list[tuple[bool, int]]]] = {}
    for pod in trial.pods():
        key = scene.plugin.key(pod)
        if key is None:
            yield from _faults_without_key(scene, pod, nodes)
        if key is None or key is EACH_POD:
            continue
        try:
            evaluation = look(scene, scene.cycle(pod))
        except PluginError:
            continue  # the invariant "runs" reports it
        verdict = [
            (evaluation.filter[nodes.name(row)].is_success, evaluation.raw.get(nodes.name(row), -1))
            for row in rows
        ]
        yield from _faults_of_cells(scene, pod, nodes, evaluation.raw)
        other, before = known.setdefault(key, (pod.key, verdict))
        if before != verdict:
            yield f"pods {other} and {pod.key}: one key, but they are treated differently"
    yield from _faults_of_cache(trial, scene)


def _faults_without_key(scene: Scene, pod: Pod, nodes: Nodes) -> Iterator[str]:
    """Yield the extension points that do not return Skip for a pod without a key."""
    cycle, plugin = scene.cycle(pod), scene.plugin
    if plugin.serves("pre_filter"):
        answer = plugin.pre_filter(cycle, nodes)
        if not (isinstance(answer, Status) and answer.code is Code.SKIP):
            yield f"pod {pod.key}: it has no key, but pre_filter does not skip it"
    elif plugin.serves("filter") and plugin.filter(cycle, nodes) is not None:
        yield f"pod {pod.key}: it has no key, but filter rejects nodes"


def _faults_of_cells(scene: Scene, pod: Pod, nodes: Nodes, raw: Mapping[str, int]) -> Iterator[str]:
    """Yield cells that differ from the raw scores of feasible nodes by column."""
    states, plugin, name = States(), scene.plugin, scene.plugin.name
    cycle = scene.cycle(pod)
    asked = scene.runner.pre_filter(cycle, nodes, states).status.is_success
    if plugin.serves("score_cells") and asked and raw:
        scene.runner.score(cycle, nodes, states)
        state = (states.for_score(name),) if plugin.takes_score_state else ()
        cells = plugin.score_cells(cycle, nodes, *state)
        if {name: cells(nodes.row(name) or 0) for name in raw} != raw:
            yield f"pod {pod.key}: score_cells and score differ"


def _faults_of_hints(trial: Trial, scene: Scene, change: Change) -> Iterator[str]:
    """Yield pods with equal keys and priorities whose hints differ."""
    plugin = scene.plugin
    if not plugin.serves("hint") or change.facts.isdisjoint(plugin.reads):
        return
    known: dict[Any, tuple[str, bool]] = {}
    for pod in trial.pods():
        key = plugin.key(pod)
        if key is None or key is EACH_POD:
            continue
        verdict = bool(plugin.hint(change, pod))
        other, before = known.setdefault((pod.priority, key), (pod.key, verdict))
        if before != verdict:
            yield f"pods {other} and {pod.key}: one key, but different hints"


def _faults_of_cache(trial: Trial, scene: Scene) -> Iterator[str]:
    """Change the cluster step by step.

    Cached results must equal those of a runner without a cache.
    """
    manifests = list(trial.samples.nodes)
    scene.runner = Runner(scene.profile)
    for number, placed in enumerate(list(scene.cluster.pods)):
        change = scene.cluster.drop_pod(placed.pod.metadata.uid)
        scene.follow(change)
        yield from _faults_of_hints(trial, scene, change)
        if number < len(manifests):
            twin = read_node(manifests[number])
            name = manifests[number - 1]["metadata"]["name"]
            meta = replace(twin.metadata, name=name)
            change = scene.cluster.put_node(replace(twin, metadata=meta))
            scene.follow(change)
            yield from _faults_of_hints(trial, scene, change)
        kept = list(trial.looks(scene))
        runner, scene.runner = scene.runner, Runner(scene.profile)
        yield from differences(kept, trial.looks(scene), "to a runner that kept nothing")
        scene.runner = runner
