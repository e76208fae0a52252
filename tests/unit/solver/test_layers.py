"""Rules over sets of leaves as levels of the tree: fast, proven, and exact in the corners."""

from random import Random

import pytest

from scheduler.groups.problem.instance import (
    Candidate,
    DomainRule,
    Instance,
    Leaf,
    Level,
    LevelRule,
    PreemptionInstance,
)
from scheduler.groups.solver.exact import fold, layers
from scheduler.groups.solver.solve import solve
from scheduler.groups.solver.victims import onerole


def large(nodes, slots):
    """Return the leaves of a tree of zones, racks of 40 and nodes with random capacity."""
    rng = Random(nodes + slots)
    return tuple(
        Leaf((f"z{at * 5 // nodes}", f"r{at // 40:03}", f"n{at:05}"), rng.randint(0, slots))
        for at in range(nodes)
    )


def zones(nodes):
    """Return the rule to spread over the five zones."""
    sets = tuple(tuple(at for at in range(nodes) if at * 5 // nodes == z) for z in range(5))
    return DomainRule("spread by zone", sets, max_skew=1, existing=(0,) * 5, only=True)


def test_a_spread_over_zones_of_a_thousand_nodes_is_proven():
    """The exact program proves it in the default time, in a flat tree and below racks."""
    leaves = large(1000, 8)
    flat = tuple(Leaf(leaf.path[2:], leaf.slots) for leaf in leaves)
    racks = tuple(Leaf(leaf.path[1:], leaf.slots) for leaf in leaves)
    for levels, found in (
        ((Level("node"),), flat),
        ((Level("rack"), Level("node")), racks),
        ((Level("zone"), Level("rack"), Level("node")), leaves),
    ):
        answer = solve(Instance(levels, found, 64, domains=(zones(1000),)))

        assert answer.optimal
        assert "exact program" == answer.solver
        assert 10 == next(one.value for one in answer.stages[-2:] if one.measure == "units")


def test_equal_partitions_of_a_large_group_are_proven():
    """1,024 pods in four racks on 1,000 nodes with up to 64 slots: 256 in each."""
    levels = (Level("zone"), Level("rack", LevelRule("spread", partitions=4)), Level("node"))

    answer = solve(Instance(levels, large(1000, 64), 1024))

    assert answer.optimal
    assert 4 * 256**2 == answer.stages[2].value


def test_units_below_sets_count_together():
    """Two nodes for the whole rack, whose halves are in two zones: one in each of them."""
    leaves = tuple(Leaf((f"n{at}",), 2) for at in range(4))
    halves = DomainRule("zone", ((0, 1), (2, 3)), max_skew=1, existing=(0, 0), only=True)
    group = Instance((Level("node", LevelRule(partitions=2)),), leaves, 4, domains=(halves,))

    assert layers.of(group) is not None
    assert (2, 0, 2, 0) == solve(group, solver="Exact").counts


def test_sets_that_cut_across_units_are_not_covered():
    """Both racks have nodes in both zones, which no level can express."""
    leaves = tuple(Leaf((f"r{at // 2}", f"n{at}"), 2) for at in range(4))
    cross = DomainRule("zone", ((0, 2), (1, 3)), max_skew=1, existing=(0, 0))
    group = Instance((Level("rack"), Level("node")), leaves, 6, domains=(cross,))

    assert layers.of(group) is None
    answer = solve(group)
    assert answer.optimal
    assert "CP-SAT" == answer.solver


def test_zones_across_racks_are_proven_where_a_rack_takes_all():
    """Every rack has nodes of three zones; 64 pods fit into one rack, on nine nodes of it."""
    sets = tuple(tuple(at for at in range(1000) if at % 3 == zone) for zone in range(3))
    cross = DomainRule("spread by zone", sets, max_skew=1, existing=(0,) * 3, only=True)
    group = Instance(
        (Level("zone"), Level("rack"), Level("node")), large(1000, 8), 64, domains=(cross,)
    )

    answer = solve(group)

    assert answer.optimal
    assert [1, 1, 9] == [stage.value for stage in answer.stages if stage.measure == "units"]


def test_fixed_pods_keep_the_others_in_their_domain():
    """All in one domain, and one is bound in a full domain: there is no placement."""
    leaves = (Leaf(("a",), 2), Leaf(("b",), 1, fixed=1))
    near = DomainRule("near", ((0,), (1,)), single=True, only=True)

    answer = solve(Instance((Level("node"),), leaves, 2, domains=(near,)))

    assert "infeasible" == answer.outcome


@pytest.mark.parametrize(
    ("more", "kept"),
    [({}, 0), ({"at_most": 3}, 1), ({"max_skew": 1, "existing": (0, 0)}, 1)],
)
def test_one_problem_per_domain_has_no_rule_left_for_one_domain(more, kept):
    """A rule that also limits the pods of a domain is kept for that; its `single` is gone."""
    leaves = tuple(Leaf((f"n{at}",), 3) for at in range(4))
    near = DomainRule("near", ((0, 2), (1, 3)), single=True, only=True, **more)

    parts = fold.by_domain(Instance((Level("node"),), leaves, 2, domains=(near,)))

    assert parts is not None
    assert [kept, kept] == [len(part.domains) for part in parts]
    assert not any(rule.single for part in parts for rule in part.domains)


def test_more_victims_may_be_too_many():
    """Evicting also the pod counted in zone a would make zone b exceed the skew, so only the other
    pod is evicted.
    """
    leaves = (Leaf(("a",), 0, (0,)), Leaf(("b",), 1, (0,)))
    rule = DomainRule("spread", ((0,), (1,)), max_skew=1, existing=(1, 1), only=True)
    group = Instance((Level("node"),), leaves, 1, (1,), (rule,))
    counted = Candidate("counted", 0, 1, {0: (1,)}, counted={"spread": {0: 1}})
    plain = Candidate("plain", 1, 1, {1: (1,)})

    found = onerole.solve(PreemptionInstance(group, (counted, plain)))

    assert ("placed", {1: 1}) == (found.outcome, found.evicted)
    assert found.optimal
