"""Pods divided among equal parts, at most one pod of a leaf in a part."""

from collections import Counter
from random import Random

from scheduler.groups.solver.roles.colouring import dealt


def test_no_part_has_two_of_a_place_and_all_have_as_many():
    """The sizes of the parts differ by at most one, and so do the numbers of each kind of pod."""
    for number in range(300):
        rng = Random(f"dealt {number}")
        many = rng.randint(1, 7)
        pods = [
            (rng.randrange(3), place)
            for place in range(rng.randint(1, 9))
            for _ in range(rng.randint(0, many))
        ]
        pods.sort(key=lambda pod: pod[0])
        parts = dealt(pods, many)

        assert set(parts) <= set(range(many))
        placed = Counter((part, place) for part, (_, place) in zip(parts, pods, strict=True))
        assert 1 >= max(placed.values(), default=0)
        for kind in (None, 0, 1, 2):
            mine = (part for part, (its, _) in zip(parts, pods, strict=True) if kind in (None, its))
            sizes = Counter(mine)
            each = [sizes[part] for part in range(many)]
            assert 1 >= max(each) - min(each)
