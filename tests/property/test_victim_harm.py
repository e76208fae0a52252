"""The harm of evictions equals counting them one by one, for candidates and for bundles.

The search for victims and the oracle of its tests compare sets of victims by these counts.
"""

from collections.abc import Mapping
from random import Random

import msgspec
import pytest

from scheduler.groups.problem.instance import Candidate, PreemptionInstance
from scheduler.groups.solver.victims import freed
from scheduler.groups.solver.victims.bundles import Bundles
from tests.property import groups
from tests.property.batches import batches
from tests.property.test_certificates import BATCH

CHOICES = 10


def one_by_one(problem: PreemptionInstance, evicted: Mapping[int, int]) -> dict[str, int]:
    """Return the harm of evictions, adding one eviction after the other."""
    left = [one.allowed for one in problem.budgets]
    found = {"violations": 0, "stranded": 0, "groups": 0}
    elastic = {at: number for number, one in enumerate(problem.elastic) for at in one.candidates}
    surplus = [one.surplus for one in problem.elastic]
    for at in (at for at, times in evicted.items() for _ in range(times)):
        one = problem.candidates[at]
        found[f"pods {one.priority}"] = found.get(f"pods {one.priority}", 0) + one.pods
        found["stranded"] += one.stranded
        for budget in (number for number, pods in one.budgets.items() for _ in range(pods)):
            found["violations"] += left[budget] <= 0
            left[budget] -= 1
        if at not in elastic:
            found["groups"] += one.groups
            continue
        found["groups"] += surplus[elastic[at]] == 0
        surplus[elastic[at]] -= 1
    return found


def counted(problem: PreemptionInstance, evicted: Mapping[int, int]) -> dict[str, int]:
    """Return the harm of evictions as the search counts it; priorities without pods are absent."""
    priorities = {one.priority for one in problem.candidates}
    pods = {f"pods {each}": freed.pods(problem, evicted, each) for each in priorities}
    return {
        "violations": freed.violations(problem, evicted),
        "stranded": freed.stranded(problem, evicted),
        "groups": freed.groups(problem, evicted),
        **{name: number for name, number in pods.items() if number},
    }


def several_at_once(rng: Random, asked: PreemptionInstance) -> PreemptionInstance:
    """Return a problem with candidates of several groups, or with a place per several evictions."""
    if rng.random() < 0.5:
        groups_of = (one.groups if one.single else rng.randint(1, 3) for one in asked.candidates)
        candidates = (
            msgspec.structs.replace(one, groups=number)
            for one, number in zip(asked.candidates, groups_of, strict=True)
        )
        return msgspec.structs.replace(asked, candidates=tuple(candidates))
    by_leaf = {leaf: one for one in asked.candidates for leaf in one.freed if len(one.freed) == 1}
    candidates = (
        msgspec.structs.replace(
            one, single=True, count=rng.randint(2, 6), groups=rng.choice((1, 1, 2))
        )
        for one in by_leaf.values()
    )
    request = tuple(rng.randint(2, 5) for _ in asked.instance.request)
    instance = msgspec.structs.replace(asked.instance, request=request)
    return msgspec.structs.replace(
        asked, instance=instance, candidates=tuple(candidates), elastic=()
    )


def evictions(rng: Random, candidates: tuple[Candidate, ...]) -> dict[int, int]:
    """Return a random number of evictions of each candidate."""
    return {at: rng.randint(0, one.count) for at, one in enumerate(candidates)}


@pytest.mark.parametrize("batch", batches(50, 2_000))
def test_harm_is_counted_eviction_by_eviction(batch):
    """Violated budgets, pods of each priority, stranded pods and groups, of candidates and bundles.

    The harm of bundles is that of the evictions that they stand for.
    """
    bundled = 0
    for number in range(BATCH):
        rng = Random(f"harm {batch}/{number}")
        asked = several_at_once(rng, groups.preemption(rng))
        made = Bundles(asked)
        bundled += any(one.pods > 1 for one in made.problem.candidates if one.single)
        for _ in range(CHOICES):
            evicted = evictions(rng, asked.candidates)

            assert one_by_one(asked, evicted) == counted(asked, evicted), (asked, evicted)

            some = evictions(rng, made.problem.candidates)
            harm = one_by_one(asked, made.unpacked(some))

            assert harm == counted(made.problem, some), (asked, some)
    assert bundled > 0
