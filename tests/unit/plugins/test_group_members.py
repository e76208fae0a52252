"""The index of groups: which changed since a reader's mark, and which are known."""

import itertools
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.groups.description import members as module
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.sources.coscheduling import LABEL
from scheduler.groups.sources.registry import group_of
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod


@given(st.integers(0, 10**9))
def test_every_reader_gets_every_group_that_changed_since_its_mark(seed: int):
    """Exactly these, unless the table was forgotten since: then all groups."""
    random, cluster, index = Random(seed), Cluster(), GroupMembers()
    cluster.put_node(make_node("n"))
    marks, changed = [0] * 4, [set[str]() for _ in range(4)]
    forgotten = [True] * 4
    for _ in range(30):
        name, group = f"p{random.randrange(6)}", random.choice("abc")
        uid = f"uid-{name}"
        if cluster.pods.get(uid) is not None:
            change = cluster.drop_pod(uid)
        else:
            change = cluster.put_pod(make_pod(name, node="n", labels={LABEL: group}))
        index.apply(change)
        placed = change.before or change.after
        assert placed is not None
        key = group_of(placed.pod)
        for each in changed:
            each.add(key)
        if random.random() < 0.1:
            index.rebuild(cluster)
            forgotten = [True] * 4
        reader = random.randrange(4)
        mark, keys, is_all = index.changed_since(marks[reader])
        there = {group_of(one.pod) for one in cluster.pods}
        assert is_all == forgotten[reader]
        assert (there if is_all else changed[reader]) == set(keys)
        assert {one for one in there if index.knows(one)} == there
        assert (mark, [], False) == index.changed_since(mark)
        marks[reader], changed[reader], forgotten[reader] = mark, set(), False


def test_a_group_is_known_by_any_trace_of_it():
    """A member on a node, a finished one, or an object each suffice."""
    cluster, pod = Cluster(), make_pod("p", node="n", labels={LABEL: "g"})
    key = group_of(pod)
    index = GroupMembers()
    assert not index.knows(key)
    index.apply(cluster.put_pod(pod))
    assert index.knows(key)
    index.apply(cluster.drop_pod("uid-p"))
    assert not index.knows(key)
    for old, new, is_known in ((None, pod, True), (pod, pod, True), (pod, None, False)):
        index._finish(old, new)
        assert is_known == index.knows(key)
        assert is_known == bool(index.finished(key))


def test_groups_around_a_group_end_at_the_root_or_at_the_limit():
    """A circle and a chain beyond the limit end, and no group is named twice."""
    index, most = GroupMembers(), module._MOST_ABOVE
    for length in (1, 2, most - 1, most, most + 1, 2 * most):
        names = [f"g{at}" for at in range(length)]
        index._around = dict(itertools.pairwise(names))
        assert names[:most] == index.above("g0")
        index._around[names[-1]] = "g0"
        assert names[:most] == index.above("g0")
