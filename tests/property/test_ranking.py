"""Orders of members by index: the crossings are the fewest of all orders, level by level from the
top.
"""

from collections import Counter
from itertools import permutations
from random import Random

import pytest

from scheduler.base.clock import perf_s
from scheduler.groups.problem.ranking import Position, _lower_bound, crossings_of, ranked


def tree(random):
    """Return the paths of up to five leaves in up to three levels."""
    depth = random.choice((1, 2, 3))
    paths = set()
    for number in range(random.randint(1, 5)):
        inner = [f"u{random.randrange(2)}" for _ in range(depth - 1)]
        paths.add((*inner, f"n{number}"))
    found = list(paths)
    random.shuffle(found)
    return found


def case(seed):
    """Return a small case: positions, some of them bound, and free places."""
    random = Random(seed)
    paths = tree(random)
    positions: list[Position] = []
    free: Counter[tuple[int, int]] = Counter()
    roles = random.choice((1, 1, 2, 3))
    in_rows = random.random() < 0.5
    size = random.randint(1, 6)
    names = [random.randrange(roles) for _ in range(size)]
    for role in sorted(names) if in_rows else names:
        leaf = random.randrange(len(paths))
        if random.random() < random.choice((0, 0, 0.5)):
            positions.append(Position(role, leaf))
        else:
            positions.append(Position(role))
            free[leaf, role] += 1
    return positions, free, paths


def crossings_of_all(positions, free, paths):
    """Yield the crossings of every assignment of places to members."""
    places: dict[int, list[int]] = {}
    for (leaf, role), number in free.items():
        places.setdefault(role, []).extend([leaf] * number)
    roles = sorted(places)

    def orders(number):
        if number == len(roles):
            yield {}
            return
        for rest in orders(number + 1):
            for one in set(permutations(places[roles[number]])):
                yield {roles[number]: one, **rest}

    for order in orders(0):
        given = {role: iter(leaves) for role, leaves in order.items()}
        found = [one.leaf if one.leaf is not None else next(given[one.role]) for one in positions]
        yield crossings_of(found, paths)


def check(seed):
    """The order takes all places, keeps bound members, and has the fewest crossings."""
    positions, free, paths = case(seed)
    found = ranked(positions, free, paths)
    taken = Counter(
        (leaf, one.role)
        for one, leaf in zip(positions, found.leaves, strict=True)
        if one.leaf is None
    )

    assert taken == Counter(free)
    assert all(one.leaf in (None, leaf) for one, leaf in zip(positions, found.leaves, strict=True))
    assert (
        found.crossings
        == crossings_of(found.leaves, paths)
        == min(crossings_of_all(positions, free, paths))
    )
    assert found.is_proven


def test_no_order_has_fewer_crossings_of_a_level_than_its_bound():
    """The bound holds with and without bound members."""
    for seed in range(200):
        positions, free, paths = case(seed)
        every = list(crossings_of_all(positions, free, paths))
        bound = _lower_bound(positions, free, paths)

        assert all(least <= min(level) for least, *level in zip(bound, *every, strict=True)), seed


def test_small_cases_have_the_fewest_crossings():
    """The order of a few dozen cases has the fewest crossings; `long` runs hundreds."""
    for seed in range(60):
        check(seed)


@pytest.mark.long
def test_many_small_cases_have_the_fewest_crossings():
    """The results equal those of enumeration."""
    for seed in range(1000, 1500):
        check(seed)


def racks(nodes):
    """Return paths of nodes in racks of 20, in blocks of 10 racks."""
    return [(f"b{n // 200}", f"r{n // 20}", f"n{n}") for n in range(nodes)]


def large(roles, bound):
    """Return 512 members on 5,000 nodes; `roles` in rows, the last `bound` members are bound."""
    random = Random(1)
    paths = racks(5000)
    positions: list[Position] = []
    free: Counter[tuple[int, int]] = Counter()
    for number in range(512):
        leaf = random.randrange(5000)
        role = number * roles // 512
        if number >= 512 - bound:
            positions.append(Position(role, leaf))
        else:
            positions.append(Position(role))
            free[leaf, role] += 1
    return positions, free, paths


@pytest.mark.parametrize(
    ("roles", "bound", "proven"), [(1, 0, True), (3, 0, False), (1, 100, False)]
)
def test_a_large_group_is_ordered_at_once(roles, bound, proven):
    """512 members on 5,000 nodes take at most half a second, with a proof for one role."""
    positions, free, paths = large(roles, bound)
    began = perf_s()
    found = ranked(positions, free, paths)

    assert perf_s() - began < 0.5
    assert found.is_proven or not proven
    assert all(have >= least for have, least in zip(found.crossings, found.bound, strict=True))


def test_leader_and_workers_begin_and_end_side_by_side():
    """A leader of another role is next to its first worker, whichever node is first by name."""
    paths = [("r0", "a"), ("r0", "b"), ("r1", "c")]
    positions = [Position(0), *[Position(1)] * 4]
    found = ranked(positions, {(2, 0): 1, (0, 1): 1, (1, 1): 1, (2, 1): 2}, paths)

    assert (1, 2) == found.crossings
    assert [2, 2, 2] == list(found.leaves[:3])
    assert found.is_proven


def test_a_replacement_goes_between_its_neighbours():
    """The members that are bound stay; each gap gets the nearer place."""
    paths = [("r0", "a"), ("r1", "b")]
    positions = [Position(0, 0), Position(0), Position(0, 0), Position(0), Position(0, 1)]
    found = ranked(positions, {(0, 0): 1, (1, 0): 1}, paths)

    assert ((0, 0, 0, 1, 1), (1, 1)) == (found.leaves, found.crossings)
