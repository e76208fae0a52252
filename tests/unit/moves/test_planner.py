"""The planner against enumeration: the same cost, the same impossibility, and parallel safety."""

from __future__ import annotations

from itertools import combinations

import pytest

from scheduler.moves.solver.answer import Answer, Shortage, Verdict
from scheduler.moves.solver.planner import SearchLimits, expanded, plan
from scheduler.moves.solver.problem import (
    Claim,
    Fit,
    Free,
    Node,
    Pod,
    Problem,
    Repair,
    Role,
    Unit,
)
from tests.unit.moves.clusters import (
    TooLargeError,
    all_sources_run,
    enumerated,
    random_problem,
)

MOST = 50_000  # plans that one enumeration evaluates


def enumerate_and_compare(seed: int, most_pods: int) -> Verdict | None:
    """Compare one random cluster; return the verdict, None if the enumeration is too large."""
    problem = expanded(random_problem(seed, most_pods))
    answer = plan(problem, SearchLimits(60))
    for size in range(min(6, len(answer.moves)) + 1):
        for some in combinations(answer.moves, size):
            assert all_sources_run(problem, some), f"seed {seed}"
    try:
        compare(problem, answer)
    except TooLargeError:
        return None
    except AssertionError as error:
        raise AssertionError(f"seed {seed}") from error
    return answer.verdict


def compare(problem: Problem, answer: Answer) -> None:
    """Feasible exactly if enumeration finds a plan; the same values, all proven."""
    cost = enumerated(problem, most=MOST)
    if cost is not None:
        assert answer.verdict in (Verdict.REACHED, Verdict.PLANNED)
        assert tuple(stage.value for stage in answer.stages) == cost
        assert all(stage.proven for stage in answer.stages)
        return
    assert answer.verdict in (Verdict.IMPOSSIBLE, Verdict.CHAINED)
    chained = enumerated(problem, parallel=False, most=MOST) is not None
    assert (answer.verdict is Verdict.CHAINED) == chained


@pytest.mark.parametrize("part", range(4))
def test_small_clusters_equal_enumeration(part):
    """The planner finds a plan exactly if enumeration does, at the same cost."""
    seen = {enumerate_and_compare(seed, 6) for seed in range(10 * part, 10 * part + 10)}
    assert len(seen) > 1


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_clusters_equal_enumeration(part):
    """The planner finds a plan exactly if enumeration does, at the same cost, in 1,000 clusters of
    up to 14 pods; few are too large to enumerate.
    """
    seen = [enumerate_and_compare(seed, 14) for seed in range(1000 + 100 * part, 1100 + 100 * part)]
    assert seen.count(None) <= 25
    assert Verdict.PLANNED in seen


def gangs(nodes: int, copies: int, running: int = 3) -> Problem:
    """Return nodes of 8 GPUs with pods of 1, and gangs of 10 pods of 6 that wait."""
    pods = tuple(Pod(f"p{n}-{i}", n, (1,), 0) for n in range(nodes) for i in range(running))
    units = tuple(Unit(pod.name, (at,)) for at, pod in enumerate(pods))
    claim = Claim("gang", (Role((6,), 10, 0),), copies=copies)
    free = tuple(Node(f"n{n}", (8 - running,)) for n in range(nodes))
    return Problem(("gpu",), free, pods, units, (frozenset(range(nodes)),), Fit((claim,)))


def test_gangs_on_almost_full_nodes_need_one_move_each():
    """Each node that takes a pod of 6 loses one pod: 40 moves, proven without all patterns."""
    answer = plan(gangs(50, 4))

    assert (answer.verdict, len(answer.moves), answer.proven) == (Verdict.PLANNED, 40, True)


def test_a_plan_that_equals_the_bound_needs_no_search():
    """The simple order finds 40 moves, which the bound proves; no time is left for a model."""
    answer = plan(gangs(50, 4), SearchLimits(0.0))

    assert (answer.verdict, len(answer.moves), answer.proven) == (Verdict.PLANNED, 40, True)


def test_conservation_answers_before_any_search():
    """Moves inside the cluster free nothing: 60 GPUs are needed, 50 are free."""
    answer = plan(gangs(10, 1))

    assert answer.verdict is Verdict.IMPOSSIBLE
    assert answer.shortage == Shortage(0, 60, 50, 50)


def test_moves_that_wait_for_one_another_are_named():
    """Two full nodes that exchange pods of 2 and 3: only a chain, which no plan contains."""
    nodes = (Node("n0", (1,)), Node("n1", (0,)))
    pods = (Pod("a", 0, (2,), 0), Pod("b", 1, (3,), 1))
    units = (Unit("a", (0,)), Unit("b", (1,)))
    destination_sets = (frozenset({1}), frozenset({0}))
    problem = Problem(("gpu",), nodes, pods, units, destination_sets, Repair((frozenset({1}),)))

    assert plan(problem).verdict is Verdict.CHAINED


def test_a_prefix_of_a_plan_frees_whole_nodes():
    """The moves of one node are consecutive, the node with the fewest pods first."""
    problem = gangs(12, 1, running=2)._replace(goal=Free(3, -1, tuple(range(12))))
    sources = [move.source for move in plan(problem).moves]

    assert sources == sorted(sources, key=sources.index)
    assert len(sources) == 6
