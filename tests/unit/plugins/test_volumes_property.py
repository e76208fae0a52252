"""The volume plugins against slow references, on storage that changes all the time."""

import numpy as np
import pytest
from hypothesis import given, settings

from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.running.answers import States
from scheduler.plugins.volumes import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from scheduler.testing.evaluate import look
from tests.unit.plugins import storagereference as slow
from tests.unit.plugins.randomstorage import PODS, PROBES, START, Move, do, moves, scene_of

REFERENCES = {
    VolumeRestrictions: slow.restrictions,
    NodeVolumeLimits: slow.limits,
    VolumeZone: slow.zone,
    VolumeBinding: slow.binding,
}


def verdict(scene, pod):
    """Return the verdict of a plugin on a pod in the form of the references."""
    got = look(scene, scene.cycle(pod))
    if got.pre_filter.code == "Skip":
        return None
    if not got.pre_filter.is_success:
        return got.pre_filter.message
    return {name: status.reasons for name, status in got.filter.items()}


@pytest.mark.parametrize("plugin", REFERENCES)
@settings(max_examples=60, deadline=None)
@given(steps=moves)
def test_they_say_what_the_slow_reference_says(plugin, steps):
    """For every pod and node, after any sequence of changes and questions."""
    scene = scene_of(plugin, START)
    for number, step in enumerate(steps):
        do(scene, step)
        if number % 3 and number != len(steps) - 1:
            continue
        cluster = slow.SimulatedCluster(scene)
        for pod in PROBES:
            assert REFERENCES[plugin](cluster, pod) == verdict(scene, pod), pod.key


@pytest.mark.parametrize("plugin", [VolumeRestrictions, NodeVolumeLimits, VolumeBinding])
@settings(max_examples=60, deadline=None)
@given(steps=moves)
def test_trackers_hold_what_fresh_ones_hold(plugin, steps):
    """Invariant of trackers: incremental equals rebuilt, after each single change."""
    scene = scene_of(plugin, START)
    ((key, tracker),) = scene.handle.trackers.items()
    for step in steps:
        do(scene, step)
        fresh = key.made()
        fresh.rebuild(scene.cluster)
        expected, kept = fresh.columns(), tracker.columns()

        assert set(expected) == set(kept)
        for name, column in expected.items():
            assert np.array_equal(column, kept[name]), name


@pytest.mark.parametrize("plugin", [VolumeRestrictions, NodeVolumeLimits])
@settings(max_examples=60, deadline=None)
@given(steps=moves)
def test_without_its_pods_a_node_is_judged_as_if_they_had_never_been(plugin, steps):
    """The question of preemption: each node without these pods, and again with one of them
    restored.
    """
    scene = scene_of(plugin, START, steps)
    nodes = scene.nodes()
    for row in np.flatnonzero(nodes.exists).tolist():
        name = nodes.name(row)
        away = [p for p in scene.cluster.pods.on(name).values() if p.pod.metadata.name in PODS]
        gone = [Move("Pod", placed.pod.key) for placed in away]
        without = scene_of(plugin, START, steps, gone)
        for pod in PROBES:
            cycle, states = scene.cycle(pod), States()
            if not scene.runner.pre_filter(cycle, nodes, states).status.is_success:
                continue
            if states.skipped:
                continue
            what_if = Attempted(scene.runner, cycle, nodes, states)
            rows = np.array([row], dtype=np.intp)
            passed, _ = what_if.filter(rows, removed=[(placed, row) for placed in away])
            after = look(without, without.cycle(pod))
            fits = after.pre_filter.code == "Skip" or after.filter[name].is_success

            assert fits == bool(passed[row]), (pod.key, name)
