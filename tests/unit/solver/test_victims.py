"""Victims: the order of harm, budgets, several resources, single pods, and no useless eviction."""

import itertools
from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.base.errors import InputError
from scheduler.groups.problem.instance import (
    Budget,
    Candidate,
    DomainRule,
    Instance,
    Leaf,
    Level,
    LevelRule,
    PreemptionInstance,
    SolveLimits,
)
from scheduler.groups.problem.roles import GroupAnswer, GroupPreemption, GroupProblem, Role
from scheduler.groups.solver import deadline, tree
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.solver.victims import freed, onerole, search, severalroles, stage
from scheduler.groups.solver.victims.bundles import Bundles
from scheduler.groups.solver.victims.model import StageTask
from scheduler.groups.solver.victims.tightening import OneRoleModel
from scheduler.groups.solver.victims.yields import Yields
from tests.property import groups


def problem(free, size, candidates, *, rule=None, budgets=(), forbid=False, need=(1,)):
    """Return a group of `size` on nodes a, b, … with free capacity, and the possible victims."""
    leaves = tuple(
        Leaf((chr(97 + at),), -1, have if isinstance(have, tuple) else (have,))
        for at, have in enumerate(free)
    )
    instance = Instance((Level("node", rule or LevelRule()),), leaves, size, need)
    return PreemptionInstance(instance, tuple(candidates), tuple(budgets), forbid)


def gang(name, priority, freed, **more):
    """Return a group that frees `freed` slots by node."""
    pods = sum(freed.values())
    return Candidate(name, priority, pods, {leaf: (n,) for leaf, n in freed.items()}, **more)


def names(asked, answer):
    """Return the victims, with the number for single pods."""
    return {asked.candidates[index].name: n for index, n in answer.evicted.items()}


def test_no_pod_is_evicted_when_the_group_fits():
    """No pod is evicted, and the placement is returned."""
    asked = problem([2, 2], 4, [gang("x", 0, {0: 2})])
    answer = onerole.solve(asked)

    assert ({}, "placed", (2, 2)) == (answer.evicted, answer.outcome, answer.placement.counts)
    assert answer.optimal


def test_no_pod_is_evicted_when_it_would_not_help():
    """A group that would not fit into the empty cluster evicts no pod."""
    answer = onerole.solve(problem([0, 0], 9, [gang("x", 0, {0: 4}), gang("y", 1, {1: 4})]))

    assert ("infeasible", {}) == (answer.outcome, answer.evicted)
    assert answer.optimal


def test_many_of_low_priority_go_before_few_of_high():
    """Pods are counted by priority from the highest down, not in all."""
    asked = problem([1, 0], 4, [gang("low", 0, {0: 6}), gang("high", 1, {1: 3})])
    answer = onerole.solve(asked)

    assert {"low": 1} == names(asked, answer)
    assert [("1", 0), ("0", 6), ("", 1)] == [(one.level, one.value) for one in answer.stages]


def test_of_equal_pods_fewer_groups_are_hit():
    """One group of four is evicted rather than two of two, or than four single pods."""
    asked = problem(
        [0, 0],
        4,
        [
            gang("two", 0, {0: 2}),
            gang("more", 0, {0: 2}),
            gang("four", 0, {1: 4}),
            gang("single", 0, {0: 1}, single=True, count=4),
        ],
    )

    assert {"four": 1} == names(asked, onerole.solve(asked))


def test_single_pods_go_one_by_one():
    """Of like single pods only the needed number is evicted."""
    asked = problem([1], 3, [gang("single", 0, {0: 1}, single=True, count=5)])
    answer = onerole.solve(asked)

    assert {"single": 2} == names(asked, answer)
    assert answer.optimal


def test_a_budget_is_spared_before_priorities_count():
    """Violations rank first: a higher priority is evicted rather than a protected pod."""
    candidates = [
        gang("protected", 0, {0: 2}, budgets={0: 2}),
        gang("higher", 1, {1: 2}),
    ]
    asked = problem([0, 0], 2, candidates, budgets=[Budget("b", 1)])
    answer = onerole.solve(asked)

    assert {"higher": 1} == names(asked, answer)
    assert ("violations", 0) == (answer.stages[0].measure, answer.stages[0].value)


def test_a_budget_with_headroom_protects_no_pod():
    """Pods may be evicted up to the disruptions that their budget allows."""
    asked = problem([0], 2, [gang("x", 0, {0: 2}, budgets={0: 2})], budgets=[Budget("b", 2)])

    assert {"x": 1} == names(asked, onerole.solve(asked))


@pytest.mark.parametrize(("forbid", "outcome"), [(True, "infeasible"), (False, "placed")])
def test_violations_are_counted_or_forbidden(forbid, outcome):
    """By the caller's choice a violated budget is the last resort, or forbidden."""
    candidates = [gang("x", 0, {0: 3}, budgets={0: 3})]
    asked = problem([0], 3, candidates, budgets=[Budget("b", 1)], forbid=forbid)
    answer = onerole.solve(asked)

    assert outcome == answer.outcome
    if outcome == "placed":
        assert 2 == answer.stages[0].value


def test_every_resource_has_to_be_freed():
    """Two halves of different resources make no place."""
    candidates = [
        Candidate("cpu", 0, 1, {0: (2, 0)}),
        Candidate("memory", 0, 1, {0: (0, 2)}),
        Candidate("both", 1, 1, {0: (2, 2)}),
    ]
    asked = problem([(0, 0)], 1, candidates, need=(2, 2))

    assert {"cpu": 1, "memory": 1} == names(asked, onerole.solve(asked))


def test_two_halves_of_one_resource_make_a_place():
    """The amounts that several evictions free on one node are added before the division."""
    asked = problem([1], 2, [gang("x", 0, {0: 1}), gang("y", 0, {0: 2})], need=(2,))

    assert {"x": 1, "y": 1} == names(asked, onerole.solve(asked))


def test_an_overcommitted_node_does_no_harm_elsewhere():
    """A negative free amount on one node is not subtracted from another."""
    asked = problem([-4, 1], 2, [gang("x", 0, {1: 1}), gang("y", 0, {0: 2})])

    assert {"x": 1} == names(asked, onerole.solve(asked))


def test_hard_rules_decide_who_goes():
    """All on one node: the larger group of the better node is evicted, not the two small ones."""
    asked = problem(
        [1, 1, 3],
        4,
        [gang("a", 0, {0: 3}), gang("b", 0, {1: 3}), gang("c", 1, {2: 1})],
        rule=LevelRule("pack", hard=True),
    )
    answer = onerole.solve(asked)

    assert {"a": 1} == names(asked, answer)
    assert (4, 0, 0) == answer.placement.counts


def test_fixed_members_and_rules_between_members_count():
    """A group that is being repaired keeps its pods; zones that are no level are respected."""
    leaves = (Leaf(("a",), -1, (0,), fixed=1), Leaf(("b",), -1, (0,)), Leaf(("c",), -1, (0,)))
    zones = DomainRule("zone", ((0, 1), (2,)), at_most=1)
    instance = Instance((Level("node"),), leaves, 2, (1,), (zones,))
    asked = PreemptionInstance(instance, (gang("x", 0, {1: 1}), gang("y", 1, {2: 2})))
    answer = onerole.solve(asked)

    assert {"y": 1} == names(asked, answer)
    assert (1, 0, 1) == answer.placement.counts


def test_nonsense_is_refused():
    """A candidate that frees amounts on no leaf, or has an unknown budget, raises an error."""
    for broken in (gang("x", 0, {7: 1}), gang("x", 0, {0: 1}, budgets={3: 1})):
        with pytest.raises(InputError):
            onerole.solve(problem([0], 1, [broken]))


def test_victims_survive_the_wire():
    """Problem and result are equal after a round trip through JSON."""
    asked = problem([0], 1, [gang("x", 0, {0: 1}, budgets={0: 1})], budgets=[Budget("b")])
    answer = onerole.solve(asked)

    assert asked == msgspec.json.decode(msgspec.json.encode(asked), type=PreemptionInstance)
    assert answer == msgspec.json.decode(msgspec.json.encode(answer), type=type(answer))


def test_like_single_pods_count_one_by_one_beside_groups():
    """The yield of one of several like pods together with a group is not the yield of all."""
    leaves = tuple(
        Leaf(path, -1, (free,))
        for path, free in {("r0", "a"): 1, ("r0", "b"): 0, ("r1", "c"): 1, ("r1", "d"): 0}.items()
    )
    rules = (Level("rack", LevelRule("spread")), Level("node", LevelRule("pack", hard=True)))
    group = Candidate("group", 1, 4, dict.fromkeys(range(4), (1,)))
    single = Candidate("single", 1, 1, {2: (1,)}, single=True, count=2)
    asked = PreemptionInstance(Instance(rules, leaves, 3, (2,)), (group, single))
    answer = onerole.solve(asked)

    assert {"group": 1, "single": 2} == names(asked, answer)
    assert ("placed", True) == (answer.outcome, answer.optimal)


@pytest.mark.parametrize(("used_up", "hit"), [(search.SEARCH, 2), (search.BEFORE_END, 2)])
def test_a_search_without_time_spares_whom_it_can(monkeypatch, used_up, hit):
    """Stages without time prove nothing; victims that are not needed are still not evicted."""
    times = iter([0.0])
    monkeypatch.setattr(deadline, "perf_s", lambda: next(times, used_up))
    others = [gang(f"g{at}", at % 2, {at: 2, (at + 1) % 6: 1}) for at in range(6)]
    asked = problem([0] * 6, 5, others)
    answer = onerole.solve(asked, SolveLimits(total_s=1.0))

    assert ("placed", False) == (answer.outcome, answer.optimal)
    assert hit == len(answer.evicted)
    assert freed.EvictionCapacity(asked).fits(answer.evicted)
    values = {(one.level, one.measure): one.value for one in answer.stages}
    assert {("1", "pods"): 0, ("0", "pods"): 3 * hit, ("", "groups"): hit} == values
    assert all(one.bound <= one.value for one in answer.stages)


def full_nodes(nodes, size, count, need, free=0):
    """Return a group whose members each need this amount of nodes full of equal single pods."""
    singles = [
        Candidate(f"n{at}", 0, 1, {at: (1,)}, single=True, count=count) for at in range(nodes)
    ]
    leaves = tuple(Leaf((f"n{at:03}",), -1, (free,)) for at in range(nodes))
    instance = Instance((Level("node"),), leaves, size, (need,))
    return PreemptionInstance(instance, tuple(singles))


@pytest.mark.parametrize("limit_s", [1e-9, 1e-3])
def test_without_time_no_more_pods_are_evicted_than_the_group_needs(limit_s):
    """A full cluster, a group of half its nodes: the other half keeps its pods, in any time."""
    asked = full_nodes(200, 100, 8, 8)
    answer = onerole.solve(asked, SolveLimits(stage_s=limit_s, total_s=limit_s))

    assert "placed" == answer.outcome
    assert 800 == sum(answer.evicted.values())


def test_without_time_only_one_rack_is_emptied():
    """The group has to be in one rack, the third of which is the first large enough."""
    racks = [("r0", 2), ("r1", 2), ("r2", 4), ("r3", 4)]
    leaves = tuple(Leaf((r, f"{r}-{n}"), -1, (0,)) for r, size in racks for n in range(size))
    singles = tuple(
        Candidate(f"p{at}", 0, 1, {at: (1,)}, single=True, count=2) for at in range(len(leaves))
    )
    levels = (Level("rack", LevelRule(hard=True)), Level("node"))
    asked = PreemptionInstance(Instance(levels, leaves, 3, (2,)), singles)
    answer = onerole.solve(asked, SolveLimits(stage_s=1e-9, total_s=1e-9))

    assert ("placed", 6) == (answer.outcome, sum(answer.evicted.values()))


def test_many_victims_for_one_member_are_proven_at_once():
    """Half of 200 nodes with 8 pods each: 800 evictions, proven, though 100 would do by amounts
    alone.
    """
    answer = onerole.solve(full_nodes(200, 100, 8, 8))

    assert 800 == sum(answer.evicted.values())
    assert {8} == set(answer.evicted.values())
    assert [(800, 800), (800, 800)] == [(one.value, one.bound) for one in answer.stages]


@pytest.mark.parametrize(
    ("count", "need", "free", "sizes"),
    [
        (8, 8, 0, [(8, 1)]),
        (8, 3, 1, [(2, 1), (3, 2)]),
        (8, 1, 0, [(1, 8)]),
        (2, 3, 0, []),  # together they free nothing for a member
    ],
)
def test_pods_are_bundled_to_what_frees_one_more_place(count, need, free, sizes):
    """Identical victims are bundled so that each bundle frees one more place. The parameters have
    the pods per bundle and the number of bundles; further pods are not evicted.
    """
    bundles = Bundles(full_nodes(1, 8, count, need, free))
    found = [(one.pods, one.count) for one in bundles.problem.candidates]

    assert sizes == found
    for number, (size, times) in enumerate(sizes):
        assert {0: size * times} == bundles.unpacked({number: times})


def test_later_places_that_take_fewer_evictions_are_not_bundled():
    """Two GPUs a pod and three a member: 2, 1, 2, 1 evictions for each further place."""
    asked = full_nodes(1, 4, 6, 3)
    double = msgspec.structs.replace(asked.candidates[0], freed={0: (2,)})
    asked = msgspec.structs.replace(asked, candidates=(double,))

    assert asked == Bundles(asked).problem


@pytest.mark.parametrize(("stranded", "stages"), [(0, []), (1, [("", "stranded", 0)])])
def test_candidates_that_free_nothing_have_stages_of_zero(stranded, stages):
    """Two evictions of one GPU each make no place for a member of three; one gang does.

    The answer has the priority of the useless ones, and that they fit no other node.
    """
    useless = Candidate("useless", 5, 1, {0: (1,)}, single=True, count=2, stranded=stranded)
    needed = Candidate("needed", 0, 1, {1: (3,)})
    asked = problem([0, 0], 1, [useless, needed], need=(3,))

    answer = onerole.solve(asked)

    assert {1: 1} == answer.evicted
    assert [("5", "pods", 0), ("0", "pods", 1), *stages, ("", "groups", 1)] == [
        (one.level, one.measure, one.value) for one in answer.stages
    ]
    assert answer.optimal


def test_victims_are_known_as_soon_as_one_model_was_solved(monkeypatch):
    """Its evictions free too little on single nodes; they are extended until they suffice.

    The time is over then: nothing is dropped, and no further model is solved.
    """
    asked = full_nodes(4, 2, 8, 8)
    capacity = freed.EvictionCapacity(asked)
    times = iter([0.0] * 3)
    monkeypatch.setattr(stage, "perf_s", lambda: next(times, 100.0))
    task = StageTask((0, 1, 2, 3), (), dict.fromkeys(range(4), 1))

    found = stage.minimise(capacity, task, SolveLimits(), 20.0)

    assert found.chosen is not None
    assert capacity.fits(found.chosen)
    assert not capacity.fits({0: 8})


def test_merged_leaves_are_exact_for_few_candidates_on_each():
    """The relaxed model merges the leaves of a rack, and still states what joint evictions free.

    Its victims suffice without a second model, and its bound is the optimum, as long as no leaf has
    more than three candidates.
    """
    compared = 0
    for number in range(60):
        plain = groups.preemption(Random(f"merged {number}"))
        levels = tuple(Level(level.name) for level in plain.instance.levels)
        instance = msgspec.structs.replace(plain.instance, levels=levels)
        asked = PreemptionInstance(instance, plain.candidates, plain.budgets)
        capacity = freed.EvictionCapacity(asked)
        all_of_them = {index: one.count for index, one in enumerate(asked.candidates)}
        if capacity.fits({}) or not capacity.fits(all_of_them):
            continue
        weights = {index: one.pods for index, one in enumerate(asked.candidates)}
        task, made = StageTask(tuple(all_of_them), (), weights), capacity.tree(all_of_them)
        yields = Yields(capacity, made, task.decided, ())
        if yields.inexact:
            continue
        found = OneRoleModel(capacity, task, made, yields, set()).solve(SolveLimits(), 20.0, None)

        every = itertools.product((0, 1), repeat=len(weights))
        fitting = [chosen for chosen in every if capacity.fits(dict(enumerate(chosen)))]
        least = min(sum(weights[at] * n for at, n in enumerate(chosen)) for chosen in fitting)
        assert found.chosen is not None
        assert capacity.fits(found.chosen), asked
        assert least == found.bound, asked
        compared += len(made.slots) > 1
    assert compared > 5


def test_a_leaf_holds_its_bound_pods_and_the_pods_that_fit_after_evictions():
    """For every choice of victims, whatever else is free: the capacity counts both.

    The terms of the model have the same sum, except on leaves that are listed as inexact.
    """
    bound = 0
    for number in range(30):
        rng = Random(f"bound {number}")
        plain = groups.preemption(rng)
        leaves = (
            msgspec.structs.replace(leaf, fixed=rng.choice((0, 0, 1)))
            for leaf in plain.instance.leaves
        )
        instance = msgspec.structs.replace(plain.instance, leaves=tuple(leaves))
        asked = msgspec.structs.replace(plain, instance=instance)
        capacity, candidates = freed.EvictionCapacity(asked), asked.candidates
        made = capacity.tree({index: one.count for index, one in enumerate(candidates)})
        yields = Yields(capacity, made, tuple(range(len(candidates))), ())
        allowed = tree.floors(made.rule(made.depth), made.size)
        for chosen in itertools.product(*(range(one.count + 1) for one in candidates)):
            evicted = dict(enumerate(chosen))
            held = allowed[np.minimum(capacity.after(evicted), made.size)]
            found = [yields.capacity_at(leaf, evicted) for leaf in range(len(held))]
            assert held.tolist() == found, asked
            made_of_them = {index: times for index, times in evicted.items() if times}
            for leaf in set(made.leaf.tolist()) - yields.inexact:
                assert yields.modelled_capacity(leaf, made_of_them) == found[leaf], asked
        bound += int(capacity.fixed.any())
    assert bound > 5


@pytest.mark.parametrize(
    ("hard", "searched"),
    [((), 0), ((0,), 1), ((0, 1), 2), ((1,), 0), ((0, 1, 2), 2)],
)
def test_victims_for_several_roles_are_searched_in_single_units(hard, searched):
    """Units of the lowest level down to which all levels require one unit; never single nodes."""
    names = enumerate(("zone", "rack", "node"))
    levels = tuple(Level(name, LevelRule(hard=at in hard)) for at, name in names)
    role = Role(1, (1,), (1,))

    assert searched == severalroles._levels_in_one_unit(
        GroupProblem((role, role), ((2,),), levels, (("z", "r", "n"),), 2)
    )


def full_racks(*pods):
    """Return two roles that need one rack, and a full node in each, with a gang of so many pods."""
    racks = range(len(pods))
    roles = tuple(Role(1, (need,), (1,) * len(pods)) for need in (1, 2))
    levels = (Level("rack", LevelRule(hard=True)), Level("node"))
    paths = tuple((f"r{at}", f"n{at}") for at in racks)
    group = GroupProblem(roles, ((0,),) * len(pods), levels, paths, 2)
    gangs = (Candidate(f"g{at}", 0, pods[at], {at: (3,)}) for at in racks)
    return GroupPreemption(group, tuple(gangs))


@pytest.mark.parametrize(
    ("pods", "evicted"), [((2, 3, 1), 2), ((1, 2, 3), 0), ((3, 1, 2), 1), ((2, 2, 2), 0)]
)
def test_all_racks_are_tried_for_the_least_harm(pods, evicted):
    """Racks after a worse one are tried too; of equally good ones the first is taken."""
    answer = severalroles.solve(full_racks(*pods), SolveLimits())

    assert ("placed", {evicted: 1}) == (answer.outcome, answer.evicted)
    assert answer.optimal


def test_a_rack_without_a_placement_in_time_does_not_end_the_search(monkeypatch):
    """The victims of the next rack are reported, without proof that they are the best."""
    solve, calls = heterogeneous.solve, []

    def too_late_once(*args):
        calls.append(args)
        return GroupAnswer("unknown") if len(calls) == 1 else solve(*args)

    monkeypatch.setattr(heterogeneous, "solve", too_late_once)
    answer = severalroles.solve(full_racks(1, 2, 3), SolveLimits())

    assert ("placed", {1: 1}) == (answer.outcome, answer.evicted)
    assert not answer.optimal
