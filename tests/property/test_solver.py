"""The solver compared with slower references: the exact program, full enumeration, every set of
victims.

The default suite checks some; `make long` as many as the acceptance requires.
"""

import itertools
from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.groups.problem import checker
from scheduler.groups.problem.answer import NOTHING, SolvedStage, SolverAnswer
from scheduler.groups.problem.instance import Instance, Level, LevelRule, SolveLimits
from scheduler.groups.problem.rules import rules_of, uncovered, under
from scheduler.groups.solver import tree
from scheduler.groups.solver.cpsat import cells, stages
from scheduler.groups.solver.cpsat.model import GroupModel
from scheduler.groups.solver.cpsat.onerole import program
from scheduler.groups.solver.exact import fold, layers
from scheduler.groups.solver.explain import explain
from scheduler.groups.solver.solve import _better, at_once, solve
from scheduler.groups.solver.victims import onerole
from tests.property import groups
from tests.unit.solver import making

SPREAD = LevelRule("spread")
PATIENT = SolveLimits(stage_s=60.0, total_s=600.0)
BATCH = 25


def batches(default, full, kept=()):
    """Return parameters for numbered batches.

    Those beyond the default ones, except `kept`, are long.
    """
    return [
        pytest.param(n, marks=() if n < default // BATCH or n in kept else pytest.mark.long)
        for n in range(full // BATCH)
    ]


def sources(batch):
    """Yield the random sources of a batch."""
    return (Random(f"{batch}/{n}") for n in range(BATCH))


def cpsat_alone(instance: Instance):
    """Return CP-SAT's counts and stages without any hint.

    Counts None if there is no placement.
    """
    made = tree.build(instance)
    found = program(instance, made, PATIENT, lambda: PATIENT.total_s)
    if found.counts is None:
        assert found.is_proven
        return None, []
    return tuple(found.counts.tolist()), found.stages


@pytest.mark.parametrize("batch", batches(25, 2000))
def test_cpsat_finds_what_the_exact_program_finds(batch):
    """On random trees both give the same value in every stage, and CP-SAT proves it.

    The greedy algorithm is never better in the order of the stages.
    """
    for rng in sources(batch):
        instance = groups.instance(rng)
        exact = solve(instance, solver="Exact")
        counts, stages = cpsat_alone(instance)

        assert (exact.outcome == "infeasible") == (counts is None)
        if counts is None:
            continue
        values = [stage.value for stage in exact.stages]
        assert values == [value for _, _, value in checker.objective(instance, counts)]
        assert values == [stage.value for stage in stages] == [stage.bound for stage in stages]
        assert [] == checker.problems(instance, counts)
        greedy = solve(instance, solver="Greedy")
        if greedy.outcome == "placed":
            assert values <= [stage.value for stage in greedy.stages]


def test_tangents_on_demand_give_the_same_optimum(monkeypatch):
    """Squares are bounded by few tangents first, and by those at each placement that is found.

    With a limit of 0 rows this holds for every group, with the usual limit only for large ones.
    """
    proven = 0
    for number in range(20):
        instance = groups.instance(Random(f"tangents {number}"))
        instance = msgspec.structs.replace(
            instance, levels=tuple(Level(one.name, SPREAD) for one in instance.levels)
        )
        exact = solve(instance, solver="Exact")
        with monkeypatch.context() as few:
            few.setattr(stages, "MANY_ROWS", 0)
            counts, found = cpsat_alone(instance)

        assert (exact.outcome == "infeasible") == (counts is None)
        if counts is not None:
            assert [one.value for one in exact.stages] == [one.value for one in found], instance
            assert all(one.bound <= one.value for one in found)
            proven += all(one.proven for one in found)
    assert proven > 15


@pytest.mark.parametrize("limit", [0, stages.MANY_ROWS])
def test_squares_far_from_an_even_share_are_proven(monkeypatch, limit):
    """One rack takes twelve of fourteen pods: the tangents around an even share do not suffice."""
    monkeypatch.setattr(stages, "MANY_ROWS", limit)
    racks = {"r0": {"a": 1}, "r1": {"b": 1}, "r2": {"c": 12}}
    counts, found = cpsat_alone(making.group(racks, 14, rack=SPREAD, node=LevelRule()))

    assert (1, 1, 12) == counts
    assert [(146, 146)] == [(one.value, one.bound) for one in found if one.measure == "squares"]


def test_a_stage_is_refined_only_if_its_first_tangents_are_few(monkeypatch):
    """A stage is refined only if its tangents exceed MANY_ROWS; otherwise all tangents are added at
    first.
    """
    racks = {rack: {f"{rack}{node}": 3 for node in "ab"} for rack in "xy"}
    instance = making.group(racks, 6, rack=SPREAD, node=LevelRule())
    made = tree.build(instance)
    model = GroupModel(cells.one_role(instance, made))
    terms, stage = stages.Terms(model), stages.Stage(1, "squares")
    counts = np.ones((1, len(instance.leaves)), dtype=np.int64)

    assert not terms.refine(stage, counts)
    terms.expression(stage)
    assert not terms.refine(stage, counts)
    monkeypatch.setattr(stages, "MANY_ROWS", 0)
    assert terms.refine(stage, counts)
    assert not terms.refine(stages.Stage(1, "units"), counts)


@pytest.mark.parametrize("batch", batches(25, 500))
def test_no_placement_is_better_than_the_exact_program_says(batch):
    """On tiny trees every placement is tried."""
    for rng in sources(batch):
        instance = groups.instance(rng, tiny=True)
        answer = solve(instance, solver="Exact")
        best = groups.best_placement(instance)

        assert (best is None) == (answer.outcome == "infeasible")
        assert (best or []) == [stage.value for stage in answer.stages]


def drawn(rng, *, rules=True):
    """Return a tiny instance, with rules between members or an open size or both or neither."""
    instance = groups.instance(rng, tiny=True)
    if rules and rng.random() < 0.7:
        instance = groups.with_domains(rng, instance)
    return groups.elastic(rng, instance) if rng.random() < 0.5 else instance


@pytest.mark.parametrize("batch", batches(25, 10_000))
def test_every_program_finds_the_best_of_all_and_says_so(batch):
    """With rules over sets of leaves and elastic sizes, by the exact program and by CP-SAT alone.

    Optimum, infeasibility and every bound agree with enumeration. The exact program covers all
    rules that the tree can express: CP-SAT never answers for it.
    """
    for rng in sources(batch):
        instance = drawn(rng)
        best = groups.best_placement(instance)
        for solver in ("Auto", "CPSAT"):
            answer = solve(instance, PATIENT, solver)

            assert answer.optimal
            assert (best is None) == (answer.outcome == "infeasible"), instance
            assert (best or []) == [stage.value for stage in answer.stages], instance
        if layers.of(fold.folded(instance)) is not None:
            assert "exact program" == solve(instance, PATIENT).solver
        counts, stages = cpsat_alone(instance)
        assert (best is None) == (counts is None), instance
        assert (best or []) == [stage.value for stage in stages], instance
        assert (best or []) == [stage.bound for stage in stages], instance


@pytest.mark.parametrize("batch", batches(25, 10_000))
def test_immediate_results_equal_those_of_the_full_solve(batch):
    """Equal to the last pod; infeasible problems are left to the full solve, which can give
    advice.
    """
    answered = 0
    for rng in sources(batch):
        instance = drawn(rng)
        quick, slow = at_once(instance, PATIENT), solve(instance, PATIENT)
        if quick is not None:
            assert msgspec.structs.replace(slow, seconds=0.0) == msgspec.structs.replace(
                quick, seconds=0.0
            )
            answered += 1
        elif slow.outcome == "placed":
            folded = fold.folded(instance)
            assert fold.by_domain(folded) is not None or layers.of(folded) is None, instance
    assert answered


# In these the descent found a placement in the whole tree, but none in the parts that it was folded
# into.
@pytest.mark.parametrize("batch", batches(25, 10_000, kept=(167, 207)))
def test_a_better_answer_in_hand_is_never_thrown_away(batch):
    """Under any time limit, the answer is no worse than the greedy one, and no bound is wrong.

    A bound states that no placement is better in its stage that is as good in all stages before.
    """
    for n, rng in enumerate(sources(batch)):
        instance = drawn(rng)
        limits = SolveLimits(stage_s=60.0, total_s=(1e-9, 1e-4, 1e-3, 5e-3)[n % 4])
        greedy = solve(instance, solver="Greedy")
        answer = solve(instance, limits)
        best = groups.best_placement(instance)

        assert not (answer.outcome == "infeasible" and best)
        if answer.outcome != "placed":
            assert greedy.outcome != "placed", instance
            continue
        assert best is not None
        values = [stage.value for stage in answer.stages]
        assert values >= best
        _check_bounds(answer, best, instance)
        if greedy.outcome == "placed":
            assert values <= [stage.value for stage in greedy.stages], instance
            _check_bounds(greedy, best, instance)


def _check_bounds(answer, best, instance):
    """No bound is above the optimum, and an answer called optimal is optimal."""
    values = [stage.value for stage in answer.stages]
    for at, stage in enumerate(answer.stages):
        if values[:at] == best[:at]:
            assert stage.bound <= best[at], instance
    assert answer.optimal <= (values == best)


@pytest.mark.parametrize("first", [0, pytest.param(2500, marks=pytest.mark.long)])
def test_a_bound_is_true_for_every_solver(first):
    """If one program's answer is combined with another one's proofs, no placement contradicts a
    bound.

    A bound of a stage states: of all placements that are as good in each stage before, none is
    better in this one. Any two placements represent the two programs, enumeration the proofs of the
    first. Claiming all bounds for the better answer (`at <= first` left out of `_better`) fails
    this test, in one of some 700 instances; hence their number.
    """
    for number in range(first, 10_000 if first else 2500):
        rng = Random(f"bounds {number}")
        instance = drawn(rng)
        every = list(groups.placements(instance))
        if not every:
            continue
        (counts, stages), (others, measured) = rng.choice(every), rng.choice(every)
        values = [value for _, _, value in stages]
        proven = tuple(
            SolvedStage(level, measure, value, _least(every, values, at), "CP-SAT")
            for at, (level, measure, value) in enumerate(stages)
        )
        unproven = tuple(
            SolvedStage(level, measure, value, NOTHING, "") for level, measure, value in measured
        )
        answer = _better(
            SolverAnswer("placed", counts, proven, "CP-SAT"),
            SolverAnswer("placed", others, unproven, "greedy"),
        )

        taken = [stage.value for stage in answer.stages]
        assert taken == min(values, [value for _, _, value in measured])
        for at, stage in enumerate(answer.stages):
            assert stage.bound <= _least(every, taken, at), (instance, values, taken, at)


def test_what_the_exact_program_proves_stays_proven_when_cpsat_has_no_time():
    """The joint answer has the proof of each stage that either program proves."""
    placed = 0
    for number in range(60):
        instance = drawn(Random(f"no time {number}"))
        exact = solve(instance, SolveLimits(), "Exact")
        if exact.outcome != "placed" or not exact.optimal:
            continue
        placed += 1
        found = solve(instance, SolveLimits(stage_s=0.0), "CPSAT")

        assert found.optimal, instance
        assert [one.value for one in exact.stages] == [one.value for one in found.stages]
    assert placed > 20


def _least(every, values, at):
    """Return the best value of a stage over all placements as good in each stage before."""
    found = [[value for _, _, value in stages] for _, stages in every]
    return min(
        one[at] for one in found if all(a <= b for a, b in zip(one[:at], values[:at], strict=True))
    )


@pytest.mark.parametrize("batch", batches(25, 10_000))
def test_sizes_that_fit_are_those_that_enumeration_finds(batch):
    """The sizes that fit, and the nearest ones in the advice, agree with enumeration, with rules
    between members and bound pods.
    """
    for rng in sources(batch):
        instance = groups.instance(rng, tiny=True)
        if rng.random() < 0.7:
            instance = groups.with_domains(rng, instance)
        fixed = sum(leaf.fixed for leaf in instance.leaves)
        most = sum(leaf.slots for leaf in instance.leaves)
        fitting = [
            size
            for size in range(max(1, fixed), most + 1)
            if groups.best_placement(instance.with_size(size)) is not None
        ]
        advice = explain(instance, PATIENT)

        assert (instance.size in fitting) == (not advice.conflict), instance
        if not advice.conflict:
            continue
        below = max((size for size in fitting if size < instance.size), default=0)
        above = min((size for size in fitting if size > instance.size), default=0)
        if layers.of(fold.folded(instance)) is not None:
            assert (below, above) == (advice.smaller, advice.larger), instance
        assert advice.smaller in (0, below)
        assert advice.larger in (0, above)
        _check_given_up(instance, advice)


def _check_given_up(instance, advice):
    """Without the rules that the advice names there is a placement, by enumeration."""
    rules = frozenset(rules_of(instance))
    choices = [[one] for one in advice.conflict if one.fits_without]
    for choice in [*choices, [*advice.give_up]]:
        bare = frozenset(msgspec.structs.replace(one, fits_without=False) for one in choice)
        if bare and advice.conflict[0].rule != "size":
            without = under(instance, rules - bare)
            assert groups.best_placement(without) is not None, (instance, choice)


@pytest.mark.parametrize("batch", batches(25, 1000, kept=(12, 31)))
def test_victims_are_the_exact_minimum(batch):
    """On nearly full clusters no set of victims does less harm, and the group fits afterwards."""
    for rng in sources(batch):
        problem = groups.preemption(rng)
        answer = onerole.solve(problem, PATIENT)
        best = groups.best_victims(problem)

        assert (best is None) == (answer.outcome == "infeasible")
        if best is None:
            assert {} == answer.evicted
            continue
        assert best == groups.harm(problem, answer.evicted)
        assert answer.optimal
        assert list(best)[0 if problem.budgets else 1 :] == [each.value for each in answer.stages]
        assert answer.placement.optimal


@pytest.mark.parametrize("batch", batches(25, 10_000))
def test_victims_are_the_exact_minimum_with_rules_between_members(batch):
    """The victims are the minimum also if rules count pods that may be evicted, so that more
    evictions are not always better.
    """
    for rng in sources(batch):
        problem = groups.preemption(rng, tiny=True)
        answer = onerole.solve(problem, PATIENT)
        best = groups.best_victims(problem)

        assert (best is None) == (answer.outcome == "infeasible"), problem
        if best is not None:
            assert best == groups.harm(problem, answer.evicted), problem
            assert answer.optimal
            afterwards = groups.after(problem, answer.evicted)
            assert [] == checker.problems(afterwards, answer.placement.counts), problem
            placed = groups.best_placement(afterwards)
            assert placed == [stage.value for stage in answer.placement.stages], problem
            assert list(best)[0 if problem.budgets else 1 :] == [
                each.value for each in answer.stages
            ]


def evicts_least(problem) -> bool:
    """Return whether the victims of the answer are those of the best answer, and not none."""
    answer, best = onerole.solve(problem, PATIENT), groups.best_victims(problem)
    assert (best is None) == (answer.outcome == "infeasible"), problem
    if best is None:
        return False
    assert best == groups.harm(problem, answer.evicted), problem
    return any(best)


def overcommitted(rng, problem):
    """Return the problem with less free capacity, so that some free amounts are negative."""
    leaves = (
        msgspec.structs.replace(leaf, free=tuple(n - rng.choice((0, 0, 1, 2)) for n in leaf.free))
        for leaf in problem.instance.leaves
    )
    group = msgspec.structs.replace(problem.instance, leaves=tuple(leaves))
    return msgspec.structs.replace(problem, instance=group)


def test_victims_in_two_units_of_a_deep_tree_are_the_exact_minimum():
    """The bound of each pair of units concerns the units of the top level alone."""
    evicting = 0
    for number in range(100):
        plain = groups.preemption(Random(f"three levels {number}"))
        names = [level.name for level in plain.instance.levels]
        if len(names) < 3:
            continue
        levels = (Level(names[0], LevelRule(partitions=2)), *map(Level, names[1:]))
        group = msgspec.structs.replace(plain.instance, levels=levels)
        problem = msgspec.structs.replace(plain, instance=group)
        evicting += evicts_least(problem)
    assert evicting


def test_victims_beside_bound_members_and_slot_limits_are_the_exact_minimum():
    """A node takes no more pods than its slots, however much is evicted there."""
    evicting = 0
    for number in range(60):
        rng = Random(f"limited {number}")
        problem = limited(rng, groups.preemption(rng))
        evicting += evicts_least(problem)
    assert evicting > 5


def limited(rng, problem):
    """Return the problem with bound members, and with limits of the slots of some leaves."""
    left, leaves = problem.instance.size - 1, []
    for leaf in problem.instance.leaves:
        fixed = min(left, rng.choice((0, 0, 1)))
        left -= fixed
        slots = fixed + rng.randint(0, 2) if rng.random() < 0.7 else -1
        leaves.append(msgspec.structs.replace(leaf, slots=slots, fixed=fixed))
    group = msgspec.structs.replace(problem.instance, leaves=tuple(leaves))
    return msgspec.structs.replace(problem, instance=group)


def test_victims_on_overcommitted_nodes_are_the_exact_minimum():
    """The first evictions from a node with a negative free amount free nothing for the group."""
    evicting = 0
    for number in range(40):
        rng = Random(f"overcommitted {number}")
        problem = overcommitted(rng, groups.preemption(rng, tiny=True))
        evicting += evicts_least(problem)
    assert evicting > 5


@pytest.mark.parametrize("batch", batches(25, 500))
def test_conflicts_are_smallest_and_advice_helps(batch):
    """No smaller set of rules conflicts, the sizes fit, and so does the group without the rules to
    give up.
    """
    for rng in sources(batch):
        instance = groups.instance(rng)
        advice = explain(instance)
        is_infeasible = solve(instance, solver="Exact").outcome == "infeasible"

        assert is_infeasible == bool(advice.conflict)
        if advice.conflict:
            _check_advice(instance, advice)


def _check_advice(instance, advice):
    rules = frozenset(rules_of(instance))
    for size in filter(None, (advice.smaller, advice.larger)):
        assert fits(msgspec.structs.replace(instance, size=size))
    if advice.conflict[0].rule == "size":
        assert sum(leaf.slots for leaf in instance.leaves) < instance.size
        return
    bare = frozenset(msgspec.structs.replace(one, fits_without=False) for one in advice.conflict)
    assert not fits(under(instance, bare))
    for number in range(len(bare)):
        for some in itertools.combinations(sorted(rules, key=str), number):
            assert fits(under(instance, frozenset(some)))
    for one in advice.conflict:
        without = rules - {msgspec.structs.replace(one, fits_without=False)}
        is_enough = fits(under(instance, without)) and not uncovered(instance, (one,))
        assert one.fits_without == is_enough
    assert advice.give_up
    assert fits(under(instance, rules - frozenset(advice.give_up)))


def fits(instance):
    """Return whether the group can be placed."""
    return solve(instance, solver="Exact").outcome == "placed"


def test_tangents_around_an_even_share_prove_it_at_once(monkeypatch):
    """Twelve pods on three equal racks: no tangent has to be added."""
    monkeypatch.setattr(stages, "MANY_ROWS", 0)
    monkeypatch.setattr(stages.Terms, "refine", lambda *_: False)
    zone = {rack: {rack.upper(): 12} for rack in "abc"}
    group = making.group({"z": zone}, 12, zone=LevelRule(), rack=SPREAD, node=LevelRule())
    counts, found = cpsat_alone(group)

    assert (4, 4, 4) == counts
    assert [(48, 48)] == [(one.value, one.bound) for one in found if one.measure == "squares"]
