"""Lifecycles of groups: elastic ones, lost nodes, edits, deaths at any write, fail-over and foreign
evictions.

Events and invariants are in `grouplifecycles`; every lifecycle is chosen by its seed.
"""

from collections import Counter

import pytest

from tests.faults.grouplifecycles import Queued, SourcesLifecycles, live

# Lifecycles that once broke an invariant: the seed, and the number of members of which one requests
# more.
FOUND = {
    (105, 25): "a bind was sent again after the minimum had been raised",
    (859, 25): "a bind was sent again after the only one that was bound had gone",
    (539, 25): "the minimum was raised while the solver chose victims",
    (444, 25): "members in several racks were tried every ten seconds",
    (720, 25): "heterogeneous members evicted in another rack than that of a bound one",
    (239, 7): "an evicted member counted among those that a group goes on with",
    (385, 7): "a member's pod changed while the solver worked",
    (3773, 25): "a group that was whole under an older object was released",
    (3846, 25): "members tried out together counted as beyond the minimum",
    (12957, 25): "capacity stayed reserved for a pod that could not use it any more",
    (30931, 25): "a group was said to be bound while the bind of a member was in doubt",
    (40877, 7): "a node shrank on which capacity was reserved for a pod",
    (1482, 0): "a node joined while the solver worked",
    (
        110949,
        25,
    ): "a group was released that needs fewer members by an edit not received yet: valid",
    (401866, 25): "a member waited for one that was about to be deleted, and for ever after that",
    (112539, 25): "a pod was evicted just before an object described its group: valid",
    (1073, 25): "an edit lowered the minimum, and amounts were compared with the former one",
    (2540, 25): "a group waited in the queue for one whose bind was in doubt: turns without end",
    (2670, 25): "a member that the minimum needs was not tried again after the others were bound",
}

# A lifecycle in which a group shrinks, which is rare.
SHRINKS = 52

# The same with groups of Volcano and AppGroups.
FOUND_IN_OTHER_SOURCES = {
    90025: "members were not counted that are like a pod on its own but for an annotation",
    90099: "a phase that no scheduler had written was written again and again",
    90136: "a pod that was decided alone was bound after its application had become a gang",
    90210: "a gang that was whole was said to wait for one more, and to be whole, again and again",
}


def test_lifecycles_of_groups():
    """No pod is evicted without an event, no group starts or stays partial by our action, and the
    run settles. Groups become complete, wait, shrink and end, and members are lost. Processes die
    with and without a standby.
    """
    seen: Counter[str] = Counter()
    for seed in (*range(20), SHRINKS):
        seen += live(seed)
    wanted = ("whole", "at rest whole", "at rest waiting", "evicted", "ended", "shrunk", "lost")
    assert all(seen[what] for what in (*wanted, "begun anew", "taken over")), seen


@pytest.mark.parametrize(("seed", "differing"), FOUND)
def test_what_was_found_stays_mended(seed: int, differing: int):
    """The invariant holds in lifecycles that once broke it."""
    live(seed, differing)


@pytest.mark.parametrize("seed", [*range(0, 200, 20), *FOUND_IN_OTHER_SOURCES])
def test_lifecycles_of_groups_of_other_sources(seed: int):
    """The invariants hold for groups of Volcano and AppGroups that are gangs, beside groups of
    other sources.
    """
    live(seed, rig_of=SourcesLifecycles)


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_lifecycles_of_groups_of_kueue(seed: int):
    """The invariants hold for pod groups of Kueue, which only their pods describe."""
    live(seed, rig_of=Queued)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 50))
def test_many_lifecycles_of_groups(first: int):
    """The invariant holds in three thousand lifecycles."""
    for seed in range(first, first + 50):
        live(seed)
