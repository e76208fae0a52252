"""The conflict that `explain` names is the smallest, and its suggestions help: compared with brute
force.

Every statement is checked on manifests that are changed accordingly and simulated again.
"""

from functools import cache
from itertools import combinations
from random import Random

import pytest

from scheduler.explain.explain import explain
from scheduler.explain.why import grouped, grouptrials
from scheduler.explain.why.pending import conflict_of
from scheduler.explain.why.trials import PodTrial
from scheduler.simulate.records import Result
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, staged
from tests.property import groupsituations
from tests.property.situations import COMPARING, OBSTACLES, blocked, followed, reduced, situation
from tests.unit.simulate.asking import HEAD, default_setup, setup, snapshot

FEW, MANY = 15, 300
FEW_GROUPS, MANY_GROUPS = 8, 100


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch):
    """Remove the time limit of trials with groups: at a terminal it is a second, and a slow machine
    is no finding.
    """
    monkeypatch.setattr(grouptrials, "ALL_TRIALS_S", 600.0)
    monkeypatch.setattr(grouped, "CONFLICT_S", 600.0)
    monkeypatch.setattr(grouptrials, "SOLVER_S", 60.0)


OURS = ("LoadAwareScheduling", "NodeResourceTopologyMatch", "NetworkOverhead")


@cache
def without_filters(*disabled):
    """Return the setup with kube-scheduler's plugins and those of Trellis, except these (point,
    plugin).
    """
    ours = ", ".join(f"{{name: {name}}}" for name in OURS)
    plugins = [f"multiPoint: {{enabled: [{ours}]}}"]
    for point in sorted({point for point, _ in disabled}):
        names = ", ".join(f"{{name: {name}}}" for at, name in disabled if at == point)
        plugins.append(f"{point}: {{disabled: [{names}]}}")
    listed = ", ".join(plugins)
    return setup(config=f"{HEAD}profiles: [{{schedulerName: trellis, plugins: {{{listed}}}}}]\n")


def placed(at):
    """Return the node of a situation's pod, None without one."""
    found = simulate(snapshot(*at.all, at.pod), without_filters(*sorted(at.disabled)))
    return found.pods[0].node


def all_asked(at):
    """Return the fields of all requirements of the pod."""
    stage = staged(snapshot(*at.all, at.pod), without_filters(), AnswerOptions())
    asks, _ = conflict_of(PodTrial(stage.engine, stage.pending[0], stage.now), 0)
    return [ask.field for ask in asks]


def check(seed):
    """Check one random situation; return whether the pod was pending in it."""
    return check_situation(seed, *situation(Random(seed)))


def check_situation(seed, at, reported):
    """Check a situation; return whether the pod was pending in it."""
    got = explain(snapshot(*at.all, at.pod), without_filters(), "default/p").explanation
    if got.result is Result.SCHEDULED:
        assert placed(at) == got.node, reported
        return False
    why = got.why
    assert why is not None
    named = [one.field for one in why.conflict]
    asked = all_asked(at)
    assert len(set(asked)) == len(asked)
    assert named, (seed, reported)
    assert why.smallest, (seed, reported)
    assert placed(reduced(at, [one for one in asked if one not in named])) is None, (seed, reported)
    for size in range(len(named)):
        for kept in combinations(asked, size):
            rest = [one for one in asked if one not in kept]
            assert placed(reduced(at, rest)) is not None, (seed, reported, named, kept)
    assert why.suggestions, (seed, reported, named)
    for one in why.suggestions:
        assert placed(followed(at, one.changes)) == one.node, (seed, reported, one)
    return True


def check_many(number, first, check=check):
    """Check this many situations in which the pod is pending."""
    pending, seed = 0, first
    while pending < number:
        pending += check(seed)
        seed += 1


def group_placed(at):
    """Return the node of each member, None unless all are placed."""
    found = simulate(snapshot(*at.all), default_setup()).pods
    nodes = {one.name: one.node for one in found}
    return nodes if all(nodes.values()) else None


def keeps_without(at, fields):
    """Return whether the group fits without these."""
    return group_placed(groupsituations.reduced(at, fields)) is not None


def check_group(seed):
    """Check one situation of a group; return whether it was pending in it."""
    at = groupsituations.GroupSituation(Random(seed))
    got = explain(snapshot(*at.all), default_setup(), "default/g-0").explanation
    if got.result is Result.SCHEDULED:
        assert group_placed(at) is not None
        return False
    why = got.why
    assert why is not None
    named = [one.field for one in why.conflict]

    def keeps(fields):
        rest = [one for one in at.fields if one not in fields]
        return group_placed(groupsituations.reduced(at, rest))

    assert named, seed
    assert why.smallest, seed
    assert keeps(named) is None, (seed, named)
    for size in range(len(named)):
        for kept in combinations(at.fields, size):
            assert keeps(kept) is not None, (seed, named, kept)
    given_up = [one for one in at.fields if not one.startswith(("requests", "spec.resourceClaims"))]
    if any(keeps_without(at, [one]) for one in given_up):
        assert why.suggestions, (seed, named)
    for one in why.suggestions:
        nodes = group_placed(groupsituations.followed(at, one.changes))
        assert nodes is not None, (seed, one)
        assert nodes["g-0"] == one.node, (seed, one)
        assert "without their request" not in one.text
    return True


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda one: one.__name__)
def test_each_obstacle_alone(obstacle):
    """Before all nodes it keeps the pod pending, unless it compares nodes with each other."""
    is_pending = check_situation(0, *blocked(Random(0), [obstacle]))
    assert is_pending == (obstacle not in COMPARING)


@pytest.mark.long
def test_all_pairs_of_obstacles():
    """Two obstacles share the nodes; sometimes one of them does not reject the pod."""
    pairs = list(combinations(OBSTACLES, 2))
    pending = [
        check_situation(seed, *blocked(Random(seed), pair)) for seed, pair in enumerate(pairs)
    ]
    assert sum(pending) >= 0.8 * len(pairs)


def test_the_conflict_is_the_smallest_and_suggestions_help():
    """The test has a few random situations."""
    check_many(FEW, 0)


@pytest.mark.long
def test_the_conflict_is_the_smallest_and_suggestions_help_in_many_situations():
    """The invariant holds for many situations."""
    check_many(MANY, 10_000)


def test_the_conflict_of_a_group_is_the_smallest_and_suggestions_help():
    """A few random groups, and one whose trials would otherwise find devices that earlier trials
    used.
    """
    check_many(FEW_GROUPS, 0, check_group)
    assert check_group(10_018)


@pytest.mark.long
def test_the_conflict_of_a_group_is_the_smallest_in_many_situations():
    """The invariant holds for many groups."""
    check_many(MANY_GROUPS, 10_000, check_group)
