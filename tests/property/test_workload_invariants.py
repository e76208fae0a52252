"""Kubernetes' own PodGroups in random clusters, through `simulate`: no invariant broken, and every
gang that fits is placed.

Judged as the recorded cases are (tests.vectors.workloadinvariants), by rules that share no code
with the product.
"""

import pytest

from tests.property import workloadmaking
from tests.property.batches import batches
from tests.vectors.workloadinvariants import invariants
from tests.vectors.workloadphase import Phase
from tests.vectors.workloadphases import phases_of

BATCH = 10
# Each of these once broke an invariant: a group that was decided although its others had just been
# evicted, capacity that stayed nominated for a group that could not use it any more, an ordinary
# pod that overtook a group, bound members that differ from the waiting ones, which these rules do
# not cover.
ONCE_WRONG = (("life", 1645), ("life", 20957), ("crowd", 513), ("topology", 241), ("topology", 546))
# In these a pod was evicted in vain: members beyond a more important group's minimum took the
# capacity, alone or in one plan with the others; a group lost its nominations while other victims
# were terminating there as well.
IN_VAIN = (
    ("life", 22972), ("crowd", 53988), ("gang", 90098), ("preemption", 90074),
    ("preemption", 90058),
    ("preemption", 710425),
    ("preemption", 90118),
)  # fmt: skip


def broken(case):
    """Return the invariants that a case breaks, by phase."""
    found, before = {}, None
    for index, seen in enumerate(phases_of(case)):
        here = invariants(case, index, seen, before)
        if len(evictors(case, index, seen)) > 1:
            # Each of them evicts as few pods as possible; if one then uses capacity that the other
            # freed, one eviction may have been unnecessary.
            here.pop("needless", None)
        if waiting := in_vain(case, index, seen):
            here["vain"] = f"{waiting} have evicted others, and wait"
        if here:
            found[index] = here
        before = seen
    return found


def evictors(case, index, seen):
    """Return the groups and ordinary pods that have evicted pods in a phase."""
    phase = Phase(case, index, seen)
    return {phase.group_of(phase.pods[key]) or key for key in seen["evicted"]}


def in_vain(case, index, seen):
    """Return the preemptors of a phase that are not placed at its end (for a group: its
    minimum).
    """
    phase = Phase(case, index, seen)
    return [
        one
        for one in sorted(evictors(case, index, seen))
        if (
            len(phase.members(one).keys() & phase.at.keys()) < max(1, phase.least(one))
            if one in phase.groups
            else one not in phase.at
        )
    ]


@pytest.mark.parametrize("batch", batches(10, 1000, BATCH))
@pytest.mark.parametrize("family", workloadmaking.FAMILIES)
def test_no_invariant_is_broken_and_every_gang_that_fits_is_placed(family, batch):
    """The invariants hold in clusters with ordinary pods, evictions, changing members, and added
    nodes.

    Each preemptor is placed when nothing changes any more.
    """
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        case = workloadmaking.case(family, seed)
        assert not broken(case), case["id"]


@pytest.mark.parametrize(("family", "seed"), ONCE_WRONG + IN_VAIN)
def test_what_was_wrong_once_stays_right(family, seed):
    """The cases that have found a defect."""
    assert not broken(workloadmaking.case(family, seed))


@pytest.mark.parametrize("family", workloadmaking.FAMILIES)
def test_the_cases_are_worth_judging(family):
    """In every family some gangs are placed and some wait.

    Where it matters, pods are evicted.
    """
    placed = waiting = evicted = 0
    for seed in range(20):
        case = workloadmaking.case(family, seed)
        *_, seen = phases_of(case)
        phase = Phase(case, len(case["steps"]), seen)
        for group in phase.groups:
            bound = len(phase.members(group).keys() & phase.at.keys())
            placed += 0 < phase.least(group) <= bound
            waiting += bound == 0 and bool(phase.members(group))
        evicted += len(phase.missing)
    assert min(placed, waiting) >= 5
    assert evicted >= 10 or family != "preemption"
