"""RowCache: an update of a few rows equals a full computation."""

from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.nodes import Nodes
from scheduler.framework.rowcache import RowCache
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod


def _columns(factor, nodes):
    free = nodes.allocatable("cpu") - nodes.requested("cpu")
    return free * factor, free > 0


def _check(cache, cluster, keys=(1, 7)):
    nodes = Nodes(cluster.table, cluster.pods)
    for key in keys:
        for got, expected in zip(cache.columns(key, nodes), _columns(key, nodes), strict=True):
            assert np.array_equal(expected, got)


_steps = st.lists(
    st.tuples(st.sampled_from(["pods", "node", "drop", "new"]), st.integers(0, 99)), max_size=12
)


def test_what_was_handed_out_stays_as_it_was():
    """Columns, and parts of them, are read-only, and the cache works on copies."""
    cluster, cache = Cluster(), RowCache(_columns)
    for number in range(8):
        cluster.put_node(make_node(f"n{number}"))
    nodes = Nodes(cluster.table, cluster.pods)
    kept, flags = cache.columns(1, nodes)
    part = kept[:2]
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 1
    cluster.put_pod(make_pod("a", node="n0"))
    fresh, _ = cache.columns(1, nodes)

    assert [4000] * 8 == kept.tolist()
    assert [4000, 4000] == part.tolist()
    assert [3000, *[4000] * 7] == fresh.tolist()
    assert flags.all()
    assert cache.columns(1, nodes)[0] is fresh

    cluster.put_node(make_node("n8"))
    assert [3000, *[4000] * 7] == fresh.tolist()
    assert 9 == len(cache.columns(1, Nodes(cluster.table, cluster.pods))[0])


@given(steps=_steps)
def test_after_any_changes_it_equals_a_fresh_look(steps):
    """The cache equals a new calculation for few rows, many rows, new rows and freed rows."""
    cluster, cache = Cluster(), RowCache(_columns)
    for number in range(80):
        cluster.put_node(make_node(f"n{number}"))
    _check(cache, cluster)
    for step, (kind, number) in enumerate(steps):
        if kind == "pods":
            for i in range(number % 40):
                cluster.put_pod(make_pod(f"p{step}-{i}", node=f"n{(number + i) % 80}"))
        elif kind == "node":
            cluster.put_node(make_node(f"n{number}", cpu=number))
        elif kind == "drop":
            cluster.drop_node(f"n{number}")
        else:
            for i in range(number % 5):
                cluster.put_node(make_node(f"new{step}-{i}"))
        _check(cache, cluster)


def test_another_table_and_parts_of_it_are_worked_out_anew():
    """Results cached for one table are not used for another."""
    cluster, cache = Cluster(), RowCache(_columns)
    for number in range(4):
        cluster.put_node(make_node(f"n{number}"))
    _check(cache, cluster)
    live = Nodes(cluster.table, cluster.pods)
    copied = Nodes(deepcopy(cluster.table), cluster.pods)
    cluster.put_pod(make_pod("p", node="n0"))

    assert cache.columns(1, copied)[0][0] == 4000
    assert cache.columns(1, live)[0][0] == 3000
    assert [3000, 4000] == cache.columns(1, live.only(np.array([0, 2])))[0].tolist()


def test_the_oldest_key_is_forgotten_first():
    """A cache keeps a bounded number of keys, and one that returns is recomputed."""
    cluster = Cluster()
    cluster.put_node(make_node("n"))
    asked = []

    def columns(key, nodes):
        asked.append(key)
        return _columns(key, nodes)

    cache = RowCache(columns, most=2)
    for key in (1, 2, 1, 3, 1, 2):
        _check(cache, cluster, (key,))

    assert [1, 2, 3, 2] == asked


def test_a_resource_that_becomes_known_later_is_seen():
    """A column that did not exist at first is not read from the earlier empty one."""
    cluster = Cluster()
    cluster.put_node(make_node("n"))

    cache: RowCache[str, Nodes] = RowCache(lambda name, nodes: (nodes.allocatable(name).copy(),))
    for offer in (None, 3, 5):
        if offer:
            cluster.put_node(make_node("n", allocatable={"example.com/gpu": offer}))
        (column,) = cache.columns("example.com/gpu", Nodes(cluster.table, cluster.pods))

        assert (offer or 0) == column[0]
