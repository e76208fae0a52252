"""Comparison of a plugin in a cluster with its slow reference, and of its hypotheticals with real
moves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from random import Random
from typing import Any, Protocol

import numpy as np
from hypothesis import strategies as st

from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.running.answers import States
from scheduler.framework.status import Code
from scheduler.objects.plain import read_pod
from scheduler.state.change import Change
from scheduler.state.counts import rowcounts
from scheduler.state.podindex import place
from scheduler.testing.evaluate import look
from tests.unit.plugins.smallclusters import FOUNDING, Manifest, Move, SmallCluster

seeds = st.integers(0, 2**32).map(Random)


@contextmanager
def many_rows_are(number: int) -> Iterator[None]:
    """Lower the limit of the code path for many rows; its clusters have five nodes."""
    before = rowcounts.DENSE
    rowcounts.DENSE = number
    try:
        yield
    finally:
        rowcounts.DENSE = before


class Slow(Protocol):
    """A reference."""

    def filter(self) -> dict[str, str] | None:
        """Return each rejected node's reason, None for Skip."""
        ...

    def score(self, feasible: Sequence[str]) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return raw and normalized scores, None for Skip."""
        ...


def assert_equal_results(
    cluster: SmallCluster, pod: Manifest, slow: Slow, feasible: Sequence[str]
) -> None:
    """Assert that the plugin equals the reference in filter, scores and skips."""
    scene = cluster.scene
    got = look(scene, scene.cycle(read_pod(pod)), feasible)
    wanted = slow.filter()

    assert (wanted is None) == (got.pre_filter.code is Code.SKIP)
    assert (wanted or {}) == {
        name: status.reasons[0] for name, status in got.filter.items() if not status.is_success
    }
    for status in got.filter.values():
        final = "missing required label" in status.message or "pod affinity" in status.message
        assert final == (status.code is Code.UNRESOLVABLE)
    scores = slow.score(feasible)

    assert (scores is None) == (got.pre_score.code is Code.SKIP)
    if scores is not None:
        assert scores == (got.raw, got.normalized)


def assert_equal_after_moves(
    cluster: SmallCluster,
    random: Random,
    pods: Sequence[Manifest],
    moves: Iterable[Move],
    slow: Callable[[Manifest], Slow],
) -> None:
    """Assert that filter and scores agree after every few changes, with counts kept in between."""
    with many_rows_are(random.choice([1, 3, 256])):
        for number, move in enumerate(moves):
            cluster.do(move)
            if number % 4 == 0:
                for raw in pods:
                    feasible = some_nodes(random, cluster)
                    assert_equal_results(cluster, raw, slow(raw), feasible)
    assert_trackers_follow(cluster)


def assert_trackers_follow(cluster: SmallCluster) -> None:
    """Assert that each tracker equals a tracker built afresh."""
    for key, tracker in cluster.scene.handle.trackers.items():
        anew = key.made()
        anew.rebuild(cluster.scene.cluster)
        expected, current = anew.columns(), tracker.columns()

        assert set(expected) == set(current)
        for name in expected:
            assert np.array_equal(expected[name], current[name]), name


def passing(cluster: SmallCluster, pod: Manifest) -> set[str]:
    """Return the nodes that a pod passes on."""
    got = look(cluster.scene, cluster.scene.cycle(read_pod(pod)))
    return {name for name, status in got.filter.items() if status.is_success}


def assert_hypotheticals_hold(cluster: SmallCluster, pod: Manifest, move: Move) -> None:
    """Assert that a hypothetical addition or removal of a pod is judged like the real one."""
    raw = cluster.pods[move.name] if move.raw is None else move.raw
    if raw["spec"]["nodeName"] not in cluster.nodes:
        return
    node_name = raw["spec"]["nodeName"]
    scene, nodes = cluster.scene, cluster.scene.nodes()
    cycle, states = scene.cycle(read_pod(pod)), States()
    status = scene.runner.pre_filter(cycle, nodes, states).status
    if not status.is_success or states.skipped:
        return
    one = read_pod(raw)
    row = scene.cluster.table.rows[node_name]
    moved = [(place(one, scene.cluster.shapes.of(one), node_name), row)]
    what_if = Attempted(scene.runner, cycle, nodes, states)
    passed, _ = what_if.filter(
        np.array([row]),
        removed=moved if move.raw is None else (),
        added=() if move.raw is None else moved,
    )
    view = nodes.hypothetical(
        [one for one, _ in moved] if move.raw is None else (),
        () if move.raw is None else moved,
    )
    anew = look(scene, cycle, nodes=view).filter[node_name].is_success
    cluster.do(move)

    assert bool(passed[row]) == anew == (node_name in passing(cluster, pod))


def assert_affects_what_it_closes(cluster: SmallCluster, pod: Manifest, move: Move) -> None:
    """A pod that closes nodes to another affects it, and `beside` closes the same nodes."""
    raw = move.raw
    if raw is None or raw["spec"]["nodeName"] not in cluster.nodes:
        cluster.do(move)
        return
    scene, one, waiting = cluster.scene, read_pod(raw), read_pod(pod)
    nodes, cycle, states = scene.nodes(), scene.cycle(waiting), States()
    before = passing(cluster, pod)
    if not scene.runner.pre_filter(cycle, nodes, states).status.is_success:
        return
    node_name = one.spec.node_name
    placed = place(one, scene.cluster.shapes.of(one), node_name)
    tried = Attempted(scene.runner, cycle, nodes, states)
    rows = scene.cluster.table.rows
    among = np.zeros(nodes.size, dtype=np.bool_)
    among[[rows[name] for name in before]] = True
    (bound,) = scene.runner.profile.filter
    near = {bound.name: [placed]} if bound.is_affected(waiting, one) else {}
    left, rejections = tried.beside(near, among)
    stay = set(nodes.names(left))
    assert all(np.array_equal(one.rows, one.rejected.final) for one in rejections)
    cluster.do(move)

    closed = before - passing(cluster, pod)
    assert stay == before - closed
    assert near or not closed


def assert_wakes(cluster: SmallCluster, pods: Sequence[Manifest], moves: Iterable[Move]) -> None:
    """Assert that each change that opens a node to a pod without one wakes the pod.

    The first moves fill the cluster.
    """
    moves = iter(moves)
    for move in islice(moves, FOUNDING):
        cluster.do(move)
    rejected = [pod for pod in pods if not passing(cluster, pod)]
    for move in moves:
        change = cluster.do(move)
        still = [pod for pod in pods if not passing(cluster, pod)]
        if change.kind in ("Node", "Pod", "Namespace"):
            for pod in rejected:
                assert pod in still or is_woken(cluster, pod, change)
        rejected = still


def is_woken(cluster: SmallCluster, pod: Manifest, change: Change) -> bool:
    """Return whether a change wakes a waiting pod."""
    plugin: Any = cluster.scene.plugin
    return bool(change.facts.intersection(plugin.reads)) and plugin.hint(change, read_pod(pod))


def some_nodes(random: Random, cluster: SmallCluster) -> list[str]:
    """Return some of the nodes of the cluster; at least one, if it has any."""
    names = sorted(cluster.nodes)
    return random.sample(names, random.randint(1, len(names))) if names else []
