"""Sakkara's vectors: placements and victims through `simulate`, and once more through CP-SAT
alone.
"""

import json
from collections import Counter
from functools import cache

import pytest

from scheduler.framework.registry import Registry
from scheduler.groups.description import spec as groups
from scheduler.groups.planning.planning import rule
from scheduler.groups.problem import checker
from scheduler.groups.problem.instance import Instance, Leaf, Level
from scheduler.groups.solver.solve import solve
from scheduler.groups.sources import configmap
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.vectors import sakkaramodel as model
from tests.vectors.frame import deviation

FOLDER = "sakkara"
PLACEMENT_KEYS = {
    "name",
    "levels",
    "tree",
    "group",
    "expect",
    "expect_reference",
    "verified",
    "note",
}
PREEMPTION_KEYS = PLACEMENT_KEYS - {"expect_reference"} | {"running", "fixed"}
NUMBERS = {"min", "max", "partitions", "factor"}


@cache
def batch():
    """Return a batch that handles one line after the other; configurations are read once."""
    return Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")


def simulated(case):
    """Return the simulation of a case."""
    line = {"id": case["name"], "objects": model.objects(case), "pending": model.members(case)}
    answer = json.loads(batch().answer(json.dumps(line).encode()))

    assert "error" not in answer, answer.get("error")
    return answer["simulation"]


def counts_of(simulation, name):
    """Return the members of a group per node; {} when none is placed, never only some."""
    mine = [pod for pod in simulation["pods"] if pod["name"].startswith(f"{name}-m")]
    placed = Counter(pod["node"] for pod in mine if pod["result"] == "Scheduled")

    assert sum(placed.values()) in (0, len(mine)), "a group is placed whole or not at all"
    return dict(placed)


def report_of(simulation, name):
    """Return the report of a group in the simulation."""
    (report,) = [one for one in simulation["groups"] if one["name"] == name]
    return report


def run_placement(vector):
    """A placement has every figure of the case, and CP-SAT alone finds one that is as good."""
    case, expect = vector.case, vector.case["expect"]
    assert set(case) <= PLACEMENT_KEYS, "unknown key"
    simulation = simulated(case)
    placed = counts_of(simulation, "group")
    report = report_of(simulation, "group")
    instance = instance_of(case)
    proven = solve(instance, solver="CPSAT")
    if expect["feasible"] and not placed and has_soft_numbers(case):
        deviation("D19")
        assert report["conflict"]
        assert {one.split()[1] for one in report["conflict"]} <= NUMBERS
        assert "infeasible" == proven.outcome
        return
    assert expect["feasible"] == bool(placed)
    assert ("placed" if expect["feasible"] else "infeasible") == proven.outcome
    assert proven.optimal
    assert report["optimal"]
    if not placed:
        assert report["conflict"], "a group that fits nowhere has a reason"
        return
    by_cpsat = {
        leaf.path[-1]: n for leaf, n in zip(instance.leaves, proven.counts, strict=True) if n
    }
    for counts in (placed, by_cpsat):
        check_figures(case, counts, expect)
        check_figures(case, counts, case.get("expect_reference", {}))
    best = checker.objective(instance, proven.counts)
    assert [value for _, _, value in best] == report["objective"] == report["bound"]


def has_soft_numbers(case):
    """Return whether numbers without `hard` are given: preferences in the text, mandatory here."""
    rules = case["group"].get("constraints", {}).values()
    return any(NUMBERS & set(each) and not each.get("hard") for each in rules)


def instance_of(case):
    """Return the instance of the case's documents as the plugin makes it."""
    data = model.group(case["group"], "group")["data"]
    spec = configmap.from_config_map("default", data, "the case")
    groups.check_levels(spec, tuple(case["levels"]))
    levels = tuple(Level(name, rule(spec.constraints.get(name))) for name in case["levels"])
    slots = model.leaves(case["tree"])
    found = tuple(Leaf(path, slots[name]) for name, path in model.paths(case["tree"]).items())
    return Instance(levels, found, spec.size)


def check_figures(case, placed, expect):
    """Compare every figure that the case states; an unknown one fails."""
    paths = model.paths(case["tree"])
    by_level = {}
    for depth, level in enumerate(case["levels"], start=1):
        used: Counter[tuple[str, ...]] = Counter()
        for leaf, number in placed.items():
            used[paths[leaf][:depth]] += number
        by_level[level] = used
    for key, value in expect.items():
        if key == "feasible":
            continue
        if key == "placement":
            assert value == placed
            continue
        for level, wanted in value.items():
            FIGURES[key](by_level, case["levels"], level, wanted)


def _units_used(by_level, _levels, level, wanted):
    assert wanted == len(by_level[level])


def _max_per_unit(by_level, _levels, level, wanted):
    assert wanted == max(by_level[level].values())


def _spread(by_level, _levels, level, wanted):
    counts = by_level[level].values()
    assert wanted == max(counts) - min(counts)


def _counts(by_level, _levels, level, wanted):
    assert wanted == sorted(by_level[level].values(), reverse=True)


def _range(by_level, _levels, level, wanted):
    least, most = wanted
    assert all(least <= number <= most for number in by_level[level].values())


def _factor(by_level, _levels, level, wanted):
    assert all(number % wanted == 0 for number in by_level[level].values())


def _partitions(by_level, levels, level, wanted):
    at = levels.index(level)
    parents = by_level[levels[at - 1]] if at else {(): 0}
    for parent in parents:
        below = [number for path, number in by_level[level].items() if path[:-1] == parent]
        assert wanted["count_per_used_parent"] == len(below)
        if "max_diff" in wanted:
            assert max(below) - min(below) <= wanted["max_diff"]


def _objective(by_level, _levels, level, wanted):
    found = {
        "units_used": len(by_level[level]),
        "sum_squares": sum(number**2 for number in by_level[level].values()),
    }
    assert wanted == {key: found[key] for key in wanted}


FIGURES = {
    "units_used": _units_used,
    "max_per_unit": _max_per_unit,
    "used_max_minus_min": _spread,
    "counts": _counts,
    "range": _range,
    "factor": _factor,
    "partitions": _partitions,
    "objective": _objective,
}


def run_preemption(vector):
    """The victims are a best set, all of their pods go, and the newcomer is placed whole."""
    case, expect = vector.case, vector.case["expect"]
    known = {"feasible", "victims", "victims_any_of", "evicted_pods", "evicted_pods_by_priority"}
    assert set(case) <= PREEMPTION_KEYS, "unknown key"
    assert set(expect) <= known | {"same_under_total_pods_first"}, "unknown expectation"
    name = case["group"].get("name", "group")
    simulation = simulated(case)
    placed = counts_of(simulation, name)
    report = report_of(simulation, name)
    running = {each["name"]: each for each in case["running"]}
    evicted = Counter(victim["name"].rpartition("-")[0] for victim in report["victims"])

    assert expect["feasible"] == bool(placed)
    assert set(evicted) <= set(running), "who is in no group stays"
    for victim, number in evicted.items():
        assert sum(running[victim]["placement"].values()) == number, "a group goes whole"
    best = expect.get("victims_any_of", [expect.get("victims", [])])
    assert sorted(evicted) in [sorted(each) for each in best]
    assert expect.get("evicted_pods", 0) == sum(evicted.values())
    by_priority: Counter[str] = Counter()
    for victim, number in evicted.items():
        by_priority[str(running[victim]["priority"])] += number
    for priority, number in expect.get("evicted_pods_by_priority", {}).items():
        assert number == by_priority[priority]
    if placed:
        assert report["optimal"]


RUNNERS = {"cases.json": run_placement, "preemption.json": run_preemption}


def test_case(vector):
    """Run one case and compare its expectation."""
    if vector.file not in RUNNERS:
        pytest.fail(f"no runner for {vector.path}")
    RUNNERS[vector.file](vector)
