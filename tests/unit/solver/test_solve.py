"""The entry point of the solver: placements, proofs, and refusals."""

import subprocess
import sys

import msgspec
import numpy as np
import pytest

from scheduler.base.errors import InputError
from scheduler.groups.problem.answer import SolverAnswer
from scheduler.groups.problem.instance import (
    DomainRule,
    Instance,
    Leaf,
    Level,
    LevelRule,
    SolveLimits,
)
from scheduler.groups.solver import questions, tree
from scheduler.groups.solver.cpsat import onerole, run
from scheduler.groups.solver.solve import EXACT_PART, _in_one_unit, solve
from tests.unit.solver.making import KEP_A, group, leaves, placed

PACK, SPREAD = LevelRule("pack"), LevelRule("spread")


@pytest.mark.parametrize("solver", ["Auto", "CPSAT", "Exact"])
def test_user_story_a_is_placed_as_drawn(solver):
    """Eight pods in two equal partitions, each packed: four on one node, three and one on two."""
    instance = group(KEP_A, 8, rack=LevelRule("spread", partitions=2), node=PACK)
    answer = solve(instance, solver=solver)

    assert {"node-0": 4, "node-7": 1, "node-8": 3} == placed(instance, answer.counts)
    assert answer.optimal
    assert [("rack", "squares", 32), ("node", "units", 3), ("node", "large", -26)] == [
        (stage.level, stage.measure, stage.value) for stage in answer.stages
    ]


@pytest.mark.parametrize("solver", ["Auto", "CPSAT"])
def test_of_equal_answers_the_first_names_take_most(solver):
    """Ties are broken by name: the first unit gets the most pods, whatever the order of the
    leaves.
    """
    names = ("r2", "r1", "r3")
    tree_of = {rack: {f"{rack}-n{n}": 2 for n in (3, 1, 2)} for rack in names}
    instance = group(tree_of, 5, rack=PACK, node=SPREAD)

    answer = solve(instance, solver=solver)

    assert {"r1-n1": 2, "r1-n2": 2, "r1-n3": 1} == placed(instance, answer.counts)


def test_two_racks_of_one_name_are_two_racks():
    """Units are identified by their path, so racks of one name in two zones are distinct."""
    instance = group(
        {"z0": {"rack": {"a": 2}}, "z1": {"rack": {"b": 2}}}, 4, zone=PACK, rack=PACK, node=PACK
    )
    values = {(stage.level, stage.measure): stage.value for stage in solve(instance).stages}

    assert 2 == values["zone", "units"] == values["rack", "units"]


@pytest.mark.parametrize("solver", ["Auto", "Exact"])
def test_fixed_pods_leave_other_racks_in_name_order(solver):
    """With fixed pods in one rack, ties between the other racks are broken by name as well."""
    rows = (*leaves({"r0": {"b": 2, "a": 2, "c": 2}}), Leaf(("r1", "d"), 8, fixed=1))
    instance = Instance((Level("rack", PACK), Level("node", PACK)), rows, 11)

    assert {"a": 2, "b": 1, "d": 8} == placed(instance, solve(instance, solver=solver).counts)


def test_a_leaf_high_up_takes_pods_too():
    """A node directly below the root is in a rack of its own."""
    instance = group({"r0": {"a": 4}, "b": 4}, 6, rack=PACK, node=PACK)
    answer = solve(instance)

    assert {"a": 2, "b": 4} == placed(instance, answer.counts)


def test_the_scarcest_resource_decides():
    """Capacity is counted in all resources; resources without request do not count."""
    level = (Level("node", PACK),)
    rows = (Leaf(("a",), -1, (10, 3, 0)), Leaf(("b",), -1, (4, 9, 0)), Leaf(("c",), -1, (-5, 9, 0)))
    instance = Instance(level, rows, 5, (2, 1, 0))

    assert {"a": 3, "b": 2} == placed(instance, solve(instance).counts)
    smaller = msgspec.structs.replace(instance, size=6)
    assert "infeasible" == solve(smaller).outcome


def test_fixed_pods_stay_and_count():
    """A replacement is placed in the unit of the bound pods; rules apply to fixed and new pods
    together.
    """
    rows = (
        Leaf(("r0", "a"), 3, fixed=1),
        Leaf(("r0", "b"), 3, fixed=2),
        Leaf(("r1", "c"), 9),
    )
    instance = Instance((Level("rack", PACK), Level("node", LevelRule(max=2))), rows, 4)

    assert {"a": 2, "b": 2} == placed(instance, solve(instance).counts)
    assert "infeasible" == solve(msgspec.structs.replace(instance, size=9)).outcome


def test_more_fixed_pods_than_a_rule_allows_fit_nowhere():
    """Bound pods cannot be moved by a placement."""
    rows = (Leaf(("a",), 5, fixed=3), Leaf(("b",), 5))
    instance = Instance((Level("node", LevelRule(max=2)),), rows, 4)

    for solver in ("Exact", "CPSAT"):
        assert "infeasible" == solve(instance, solver=solver).outcome


@pytest.mark.parametrize(
    ("between", "wanted"),
    [
        (DomainRule("zone", ((0, 1), (2, 3)), at_most=2), [2, 2]),
        (DomainRule("zone", ((0, 1), (2, 3)), single=True), [4, 0]),
        (DomainRule("zone", ((0, 1), (2, 3)), max_skew=1, existing=(2, 0)), [1, 3]),
        (DomainRule("zone", ((2, 3),), only=True), [0, 4]),
    ],
)
def test_rules_between_members_hold(between, wanted):
    """Anti-affinity, affinity, and topology spread over zones that are not a level of the tree."""
    instance = Instance(
        (Level("node", SPREAD),), leaves(dict.fromkeys("abcd", 4)), 4, (), (between,)
    )
    answer = solve(instance)

    assert answer.optimal
    assert wanted == [sum(answer.counts[:2]), sum(answer.counts[2:])]


@pytest.mark.parametrize(
    "between",
    [
        DomainRule("host", ((0,), (1,), (2,), (3,)), at_most=1),
        DomainRule("rack", ((0, 1), (2, 3)), at_most=2),
        DomainRule("rack", ((0, 1), (2, 3)), single=True, only=True),
        DomainRule("rack", ((0, 2), (1, 3)), single=True, only=True),
        DomainRule("some", ((0, 1, 2),), only=True),
    ],
)
def test_what_the_tree_can_carry_needs_no_cpsat(between):
    """The exact program solves these rules without CP-SAT: one member per host, a limit per unit,
    one domain for all.
    """
    rows = leaves({"r0": {"a": 2, "b": 2}, "r1": {"c": 2, "d": 2}})
    plain = (Level("rack", PACK), Level("node", SPREAD))
    answer = solve(Instance(plain, rows, 3, (), (between,)))

    assert ("placed", "exact program") == (answer.outcome, answer.solver)


def test_a_greedy_result_is_never_called_optimal():
    """The greedy search, used for comparison, returns no proof and fails where placements exist."""
    uneven = group({"a": 4, "b": 4}, 5, node=LevelRule(min=2, max=4))

    assert "unknown" == solve(uneven, solver="Greedy").outcome
    assert [3, 2] == sorted(solve(uneven).counts, reverse=True)
    easy = solve(group({"a": 4, "b": 4}, 5, node=PACK), solver="Greedy")
    assert "placed" == easy.outcome
    assert not easy.optimal


def test_two_runs_say_the_same():
    """The same instance has the same result, also from CP-SAT and in another process."""
    instance = group(
        {f"r{r}": {f"n{r}{n}": (r + n) % 4 for n in range(6)} for r in range(5)},
        13,
        rack=SPREAD,
        node=PACK,
    )
    runs = [solve(instance, solver="CPSAT") for _ in range(3)]

    assert 1 == len({run.counts for run in runs})
    assert 1 == len({run.stages for run in runs})


def test_without_time_the_bound_is_reported():
    """A stage that was not started reports the known bound; only proven values are called
    optimal.
    """
    instance = group(
        {f"r{r:02}": {f"n{r}-{n}": 3 + (r * n) % 5 for n in range(8)} for r in range(12)},
        60,
        rack=SPREAD,
        node=PACK,
    )
    made = tree.build(instance)
    times = iter([5.0, 5.0, 5.0])
    found = onerole.program(instance, made, SolveLimits(), lambda: next(times, 0.0))

    assert found.counts is not None
    assert 60 == int(found.counts.sum())
    assert any(not stage.proven for stage in found.stages)
    assert all(stage.bound <= stage.value and stage.gap >= 0 for stage in found.stages)


def test_a_time_limit_of_nothing_is_unknown_or_right():
    """With any time limit, the answer is either unknown or correct."""
    instance = group(KEP_A, 8, rack=SPREAD, node=PACK)
    for solver in ("Auto", "CPSAT", "Exact"):
        answer = solve(instance, SolveLimits(stage_s=0.0, total_s=0.0), solver)
        assert answer.outcome in ("unknown", "placed")


@pytest.mark.parametrize(
    "instance",
    [
        Instance((), (Leaf(("a",), 1),), 1),
        Instance((Level("node"),), (Leaf(("a",), 1),), 0),
        Instance((Level("node"),), (Leaf(("a",), 1), Leaf(("a",), 2)), 1),
        Instance((Level("node"),), (Leaf(("a", "b"), 1),), 1),
        Instance((Level("node"),), (Leaf((), 1),), 1),
        Instance((Level("node"),), (Leaf(("a",)),), 1),
        Instance((Level("node"),), (Leaf(("a",), 5, fixed=2),), 1),
    ],
)
def test_contradictions_are_the_callers_fault(instance):
    """Each invalid instance raises an error: no level, no size, a leaf twice, too deep or unnamed,
    no capacity, more fixed pods than the size.
    """
    with pytest.raises(InputError):
        solve(instance)


def test_an_empty_tree_has_no_capacity():
    """In an empty tree no group fits."""
    for solver in ("Auto", "CPSAT", "Exact"):
        answer = solve(Instance((Level("rack"), Level("node")), (), 2), solver=solver)
        assert "infeasible" == answer.outcome


def test_records_survive_the_wire():
    """Instances and results are equal after encoding to JSON and decoding."""
    instance = group(KEP_A, 8, rack=LevelRule("spread", partitions=2), node=LevelRule(factor=2))
    question = questions.Place(instance, SolveLimits(stage_s=1.5), "CPSAT")
    answer = solve(instance)

    assert question == questions.read(msgspec.json.encode(question))
    assert answer == msgspec.json.decode(msgspec.json.encode(answer), type=SolverAnswer)


def test_ortools_is_loaded_only_to_solve():
    """The daemon may import the records and the entry point without CP-SAT in memory."""
    code = (
        "import sys, scheduler.groups.solver.solve, scheduler.groups.solver.victims.search, "
        "scheduler.groups.solver.explain; "
        "sys.exit('ortools' in sys.modules)"
    )

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


@pytest.mark.parametrize("total_s", [0.5, 10.0])
@pytest.mark.parametrize(("over", "outcome"), [(0.01, "placed"), (-0.01, "unknown")])
def test_cpsat_keeps_its_share_of_the_time(total_s, over, outcome):
    """The search in single units ends when the exact program's share of the time is used."""
    rows = leaves({"r0": {"a": 2, "b": 2}, "r1": {"c": 2, "d": 2}})
    instance = Instance((Level("rack", PACK), Level("node", SPREAD)), rows, 3)
    left_s = (1 - EXACT_PART + over) * total_s

    found = _in_one_unit(instance, SolveLimits(total_s=total_s), lambda: left_s)

    assert outcome == found.outcome


@pytest.mark.parametrize(
    ("known", "found", "taken"),
    [
        ((1, 2, 3), (1, 2, 9), True),
        ((1, 2, 3), (1, 1, 9), True),
        ((1, 2, 3), (1, 3, 0), False),
        ((1, 2, 3), (2, 1, 0), False),
    ],
)
def test_a_new_result_is_taken_unless_an_earlier_stage_is_worse(known, found, taken):
    """Results are compared by the stages up to the one that was minimised, not by later ones."""
    results = {0: known, 1: found}

    def values(counts):
        return [("node", "units", value) for value in results[int(counts[0])]]

    old, new = np.array([0]), np.array([1])
    kept = (new, values(new)) if taken else (old, values(old))
    assert run._better(values, old, values(old), new, 1) == kept
    assert run._better(values, None, [], new, 1) == (new, values(new))
