"""Equal placements are turned into one: leaves with the first names take the most pods."""

import dataclasses
import itertools
from random import Random

import msgspec
import numpy as np

from scheduler.groups.solver import tree
from scheduler.groups.solver.exact import decode
from tests.property import groups


def first_take_most(slots, counts, starts):
    """Return the largest sequence of each parent's counts that its leaves can take, by trying."""
    found: list[int] = []
    for first, last in itertools.pairwise(starts):
        orders = set(itertools.permutations(counts[first:last]))
        within = slots[first:last]
        found += max(
            order
            for order in orders
            if all(pods <= most for pods, most in zip(order, within, strict=True))
        )
    return found


def test_the_first_leaves_take_the_most_that_fits_the_others():
    """Counts are exchanged between leaves of one parent only, and never where pods are bound."""
    moved = 0
    for number in range(120):
        rng = Random(f"canonical {number}")
        plain = groups.instance(rng, tiny=True)
        leaves = tuple(msgspec.structs.replace(leaf, fixed=0) for leaf in plain.leaves)
        made = tree.build(msgspec.structs.replace(plain, leaves=leaves, size=99))
        if not len(made.slots):
            continue
        slots, starts = made.slots.tolist(), made.starts[made.depth - 1].tolist()
        counts = [rng.randint(0, most) for most in slots]

        found = decode.canonical(made, np.array(counts)).tolist()

        assert first_take_most(slots, counts, starts) == found
        moved += found != counts
        bound = dataclasses.replace(made, fixed=np.minimum(np.array(counts), 1))
        assert counts == decode.canonical(bound, np.array(counts)).tolist()
    assert moved > 10
