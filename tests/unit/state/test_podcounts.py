"""PodCounts: counts that follow every change equal a count from scratch."""

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.meta import LabelSelectorRequirement
from scheduler.objects.plain import read_node, read_pod
from scheduler.state.cluster import Cluster
from scheduler.state.counts import podcounts
from scheduler.state.counts.podcounts import PodCounts
from scheduler.state.counts.rowcounts import DENSE, RowCounts
from scheduler.state.domains import domains_of
from scheduler.state.selection import Selection, SelectionIndex, canonical, pair
from scheduler.testing import node, pod

NAMESPACES = ("red", "blue")
NODES = ("n0", "n1", "n2")


def selection(random):
    """Return a selection of some namespaces, by some expressions."""
    named = [frozenset(("red",)), frozenset(NAMESPACES), None]
    expressions = [
        pair("app", random.choice("xy")),
        LabelSelectorRequirement("app", "In", ("x", "y")),
        LabelSelectorRequirement("tier", random.choice(["Exists", "DoesNotExist"])),
        LabelSelectorRequirement("app", "NotIn", ("x",)),
    ]
    chosen = random.sample(expressions, random.randint(0, 2))
    return Selection(random.choice(named), canonical(chosen), random.random() < 0.5)


def change(random, cluster):
    """Put or drop a node or a pod."""
    name = random.choice(NODES)
    kind = random.randrange(8)
    if kind == 0:
        return cluster.drop_node(name)
    if kind == 1:
        return cluster.put_node(read_node(node(name)))
    which = random.randrange(6)
    namespace = NAMESPACES[which % 2]
    if kind == 2:
        return cluster.drop_pod(f"Pod/{namespace}/p{which}")
    labels = {"app": random.choice("xy"), "tier": "t"}
    kept = {key: value for key, value in labels.items() if random.random() < 0.7}
    raw = pod(f"p{which}", namespace=namespace, node_name=name, labels=kept)
    if random.random() < 0.3:
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return cluster.put_pod(read_pod(raw))


def counted(cluster, wanted):
    """Return the counts by a loop over the pods."""
    column = np.zeros(cluster.table.size, dtype=np.int64)
    for placed in cluster.pods:
        meta, row = placed.pod.metadata, cluster.table.rows.get(placed.node)
        if row is not None and wanted.matches(
            meta.namespace, meta.labels, is_terminating=placed.pod.is_terminating
        ):
            column[row] += 1
    return column


@pytest.mark.parametrize("most", [3, 1000])
@given(seed=st.integers(0, 2**32))
def test_counts_follow_every_change(most, seed):
    """For any selections, queried again and again while some of them are dropped in between."""
    random = Random(seed)
    cluster, tracker = Cluster(), PodCounts()
    tracker.rebuild(cluster)
    selections = [selection(random) for _ in range(5)]
    before, podcounts.MOST_SELECTIONS = podcounts.MOST_SELECTIONS, most
    try:
        for _ in range(25):
            tracker.apply(change(random, cluster))
            for wanted in random.sample(selections, 2):
                counts = tracker.count(wanted)

                assert np.array_equal(counted(cluster, wanted), counts.column(cluster.table.size))
    finally:
        podcounts.MOST_SELECTIONS = before
    anew = PodCounts()
    anew.rebuild(cluster)

    assert {name: c.tolist() for name, c in anew.columns().items()} == {
        name: c.tolist() for name, c in tracker.columns().items()
    }


def test_an_assumed_pod_counts_until_it_is_forgotten():
    """A decision of the scheduler counts at once."""
    cluster, tracker = Cluster(), PodCounts()
    cluster.put_node(read_node(node("n0")))
    tracker.rebuild(cluster)
    counts = tracker.count(Selection(None, (pair("app", "x"),)))
    one = read_pod(pod("a", labels={"app": "x"}))
    tracker.apply(cluster.assume(one, "n0"))
    assumed = counts.column(1).tolist()
    tracker.apply(cluster.forget(one.metadata.uid))

    assert ([1], [0]) == (assumed, counts.column(1).tolist())


@given(st.integers(0, 2**32))
def test_the_index_leads_to_every_selection_that_means_a_pod(seed):
    """Candidates are all that match, each once, and no removed one."""
    random = Random(seed)
    index: SelectionIndex[Selection] = SelectionIndex()
    selections = list(dict.fromkeys(selection(random) for _ in range(12)))
    for one in selections:
        index.add(one, one)
    gone = random.sample(selections, 3)
    for one in gone:
        index.remove(one, one)
    labels = {"app": random.choice("xy")} if random.random() < 0.8 else {}
    namespace = random.choice(NAMESPACES)
    found = index.candidates(namespace, labels)

    assert len(set(found)) == len(found)
    assert {one for one in selections if one not in gone and one.matches(namespace, labels)} <= set(
        found
    )
    assert not set(gone) & set(found)


@given(st.integers(0, 2**32))
def test_two_selections_together_select_the_pods_of_both(seed):
    """Each pod is in the combined selection if and only if both select it."""
    random = Random(seed)
    one, other = selection(random), selection(random)
    both = one.and_also(other)
    for namespace, app, tier, is_terminating in product(
        NAMESPACES, ({}, {"app": "x"}, {"app": "y"}), ({}, {"tier": "t"}), (False, True)
    ):
        found = [
            each.matches(namespace, app | tier, is_terminating=is_terminating)
            for each in (one, other, both)
        ]
        assert all(found[:2]) == found[2]


def test_row_counts_change_their_form_without_changing_their_numbers():
    """Few rows, many rows and few again: columns and sums per domain stay right."""
    size = 4 * DENSE
    ids = np.arange(size, dtype=np.int32) % 7 - 1
    domains, rows = (
        domains_of("zone", ids, 6),
        domains_of("host", np.arange(size, dtype=np.int32), size),
    )
    counts, column = RowCounts(), np.zeros(size, dtype=np.int64)
    steps = [(row, 1 + row % 3) for row in range(0, size, 2)]
    for number, (row, amount) in enumerate([*steps, *((r, -a) for r, a in steps)]):
        counts.add(row, amount)
        column[row] += amount
        if number % 50 == 0 or number > 2 * len(steps) - 3:
            assert np.array_equal(column, counts.column(size))
            for one in (domains, rows):
                expected = np.bincount(one.slots, weights=column, minlength=one.size)
                assert np.array_equal(expected, counts.sums(one))
    assert not counts
