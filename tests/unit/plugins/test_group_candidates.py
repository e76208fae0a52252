"""Candidates for eviction: all of them together are all pods that may be evicted."""

from collections import Counter
from random import Random

import pytest

from scheduler.groups.planning.eviction import EvictionUnit, Freed, candidates_of, chosen
from scheduler.objects.meta import LabelSelector, ObjectMeta
from scheduler.objects.plain import read_pod
from scheduler.objects.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from scheduler.state.podindex import place
from scheduler.state.resources import PODS
from scheduler.state.shapes import Shapes
from scheduler.testing import pod

NODES = {"n0": 0, "n1": 1, "elsewhere": -1}
LEAVES = {name: leaf for name, leaf in NODES.items() if leaf >= 0}
RESOURCES = ("cpu", PODS)
SIZE = 5  # of the group that the pods are evicted for


def situation(rng):
    """Return units for eviction, the leaves that each pod blocks, and the sets that count it."""
    shapes, number, units = Shapes(), 0, []
    blocks, counted = {}, {}
    for at in range(rng.randint(1, 6)):
        key = rng.choice(("", f"default/g{at}"))
        pods = []
        for _ in range(rng.randint(1, 4) if key else 1):
            labels = {"app": rng.choice("xy")}
            manifest = pod(f"p{number}", labels=labels, requests={"cpu": rng.choice("12")})
            made = read_pod(manifest | {"metadata": manifest["metadata"] | {"uid": f"u{number}"}})
            pods.append(place(made, shapes.of(made), rng.choice(list(NODES))))
            if rng.random() < 0.2:
                blocks[f"u{number}"] = tuple(rng.sample(range(2), rng.randint(1, 2)))
            if rng.random() < 0.4:
                counted[f"u{number}"] = {rng.choice(("zone", "host")): rng.randrange(3)}
            number += 1
        stranded = frozenset(one.pod.metadata.uid for one in pods if rng.random() < 0.3)
        surplus = rng.randint(0, len(pods) - 1) if key else 0
        units.append(EvictionUnit(key, rng.randrange(2), tuple(pods), surplus, stranded))
    return units, blocks, counted


@pytest.mark.parametrize("batch", range(4))
def test_all_candidates_free_and_count_what_all_pods_do(batch):
    """Amounts, budgets, rules between members and stranded pods add up to those of the pods.

    Pods that free nothing for the group and count in no rule are no candidates.
    """
    budget = PodDisruptionBudget(
        ObjectMeta(name="b", namespace="default"),
        PodDisruptionBudgetSpec(LabelSelector(match_labels={"app": "x"})),
    )
    for number in range(50):
        units, blocks, counted = situation(Random(f"candidates {batch}/{number}"))
        made, pods, elastic = candidates_of(
            units, Freed(LEAVES, RESOURCES, blocks, SIZE, counted), [budget]
        )
        freed, sets = Counter[tuple[int, int]](), Counter[tuple[str, int]]()
        for one in made:
            for leaf, amounts in one.freed.items():
                freed.update({(leaf, at): one.count * n for at, n in enumerate(amounts)})
            for rule, numbers in one.counted.items():
                sets.update({(rule, at): one.count * n for at, n in numbers.items()})

        useful = [
            (unit, one)
            for unit in units
            for one in unit.pods
            if any(is_useful(each, blocks, counted) for each in unit.pods)
        ]
        uids = [one.pod.metadata.uid for _, one in useful]
        all_of_them = chosen(made, pods, {at: one.count for at, one in enumerate(made)})
        assert sorted(uids) == sorted(one.pod.metadata.uid for one in all_of_them)
        assert len(uids) == sum(one.count * one.pods for one in made)
        assert sum(unit.stranded >= {one.pod.metadata.uid} for unit, one in useful) == sum(
            one.count * one.stranded for one in made
        )
        assert sum(one.pod.metadata.labels["app"] == "x" for _, one in useful) == sum(
            one.count * one.budgets.get(0, 0) for one in made
        )
        assert +freed == by_hand([one for _, one in useful], blocks)
        assert sets == Counter(
            (rule, at) for uid in uids for rule, at in counted.get(uid, {}).items()
        )
        surplus = {unit.key: unit.surplus for unit in units if unit.surplus}
        assert all(made[index].single for group in elastic for index in group.candidates)
        assert sorted(group.surplus for group in elastic) == sorted(
            surplus[key] for key in surplus.keys() & {unit.key for unit, _ in useful}
        )


def is_useful(one, blocks, counted):
    """Return whether a pod frees something on a leaf or counts in a rule between members."""
    uid = one.pod.metadata.uid
    return one.node in LEAVES or uid in blocks or uid in counted


def by_hand(pods, blocks):
    """Return the amounts that the pods free, by (leaf, resource); the last resource stands for
    blocked leaves.
    """
    found = Counter[tuple[int, int]]()
    for one in pods:
        if one.node in LEAVES:
            found[LEAVES[one.node], 0] += one.requests["cpu"]
            found[LEAVES[one.node], 1] += 1
        for leaf in blocks.get(one.pod.metadata.uid, ()):
            found[leaf, 2] += SIZE
    return found
