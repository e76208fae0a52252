"""The order of an application's workloads: every algorithm, against networkx, through rings and
typos.
"""

import subprocess
import sys
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.groups.appgroup import Dependency, Workload, WorkloadRef
from scheduler.objects.groups.grouporder import ALGORITHMS, Order, graph_of, order_of

NAMES = [f"w{number}" for number in range(8)]

graphs = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4), max_size=8
)


def workloads(graph, *, by_name=False):
    """Return workloads whose names differ from their selectors; dependencies use either of
    the two.
    """

    def dependency(label):
        named = WorkloadRef(name=f"{label}-deployment")
        return Dependency(named if by_name else WorkloadRef(selector=label))

    return [
        Workload(
            WorkloadRef(name=f"{label}-deployment", selector=label), tuple(map(dependency, on))
        )
        for label, on in graph.items()
    ]


def straightened(algorithm, labels):
    """Return the order without the modification that the algorithm's name describes (reverse,
    alternate).
    """
    if algorithm.startswith("Reverse"):
        return labels[::-1]
    if algorithm.startswith("Alternate"):
        return labels[::2] + labels[1::2][::-1]
    return labels


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "Khan", ""])
@given(graph=graphs, by_name=st.booleans())
def test_every_workload_comes_before_its_dependencies(algorithm, graph, by_name):
    """A cycle is valid; in any case every workload has exactly one position."""
    listed = workloads(graph, by_name=by_name)
    found = order_of(listed, algorithm)
    known = nx.DiGraph(graph_of(listed))

    assert sorted(graph) == sorted(found.labels)
    assert nx.is_directed_acyclic_graph(known) == (not found.cycle)
    if found.cycle:
        assert list(graph) == list(found.labels)
        ring = [*found.cycle, found.cycle[0]]
        assert all(known.has_edge(*pair) for pair in pairwise(ring))
        return
    place = {label: n for n, label in enumerate(straightened(algorithm, list(found.labels)))}
    assert all(place[one] < place[other] for one, other in known.edges)


def test_an_unknown_name_means_kahn():
    """An unknown or absent algorithm name selects KahnSort."""
    listed = workloads({"w0": ["w1", "w2"], "w1": ["w3"], "w2": [], "w3": []})

    assert order_of(listed, "KahnSort") == order_of(listed, "Khan") == order_of(listed, "")


def test_kahn_takes_the_last_listed_sibling_first_and_roots_as_listed():
    """The order equals that of scheduler-plugins where theirs is deterministic; otherwise the
    listed order decides.
    """
    listed = workloads({"w0": ["w2", "w3"], "w1": [], "w2": [], "w3": []})

    assert ("w0", "w3", "w2", "w1") == order_of(listed, "KahnSort").labels
    assert ("w1", "w0", "w3", "w2") == order_of(listed, "TarjanSort").labels


def test_workloads_listed_twice_are_one_and_unlisted_ones_have_no_place():
    """The dependencies of a workload that is listed twice are joined; workloads that the group does
    not list are left out of the order.
    """
    twice = [
        *workloads({"w0": ["w1"]}),
        *workloads({"w0": ["w2", "elsewhere"], "w1": [], "w2": []}),
    ]

    assert {"w0": ("w1", "w2"), "w1": (), "w2": ()} == graph_of(twice)


def test_a_workload_may_depend_on_itself():
    """The workload's replicas have traffic among each other; that is no cycle."""
    assert Order(("w0", "w1")) == order_of(workloads({"w0": ["w0", "w1"], "w1": []}), "KahnSort")


def test_a_thousand_workloads_in_a_row_are_no_depth_too_deep():
    """A chain of a thousand workloads exceeds neither the recursion limit nor the time."""
    chain = {f"w{n}": [f"w{n + 1}"] for n in range(5000)} | {"w5000": []}

    for algorithm in ("KahnSort", "TarjanSort"):
        assert list(chain) == list(order_of(workloads(chain), algorithm).labels)
    assert 5000 == len(order_of(workloads(chain | {"w5000": ["w1"]}), "KahnSort").cycle)


def test_the_hash_seed_does_not_matter():
    """The order is equal under another PYTHONHASHSEED."""
    code = (
        "from tests.unit.operators.test_appgroup_order import *;"
        "print([order_of(workloads({n: [] for n in NAMES} | {'w3': ['w1', 'w5']}), a).labels"
        " for a in ALGORITHMS])"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert 1 == len(answers)
