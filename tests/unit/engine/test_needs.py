"""The needs of kinds of waiting pods, in columns: compared with the free amounts all at once."""

from random import Random

from scheduler.engine.queue import hints
from scheduler.engine.queue.hints import UNBOUNDED, Needs


def test_it_finds_whom_asking_each_would_find():
    """Kinds are added and dropped, with amounts of few and of many names and their own
    priorities.
    """
    random, table = Random(7), Needs()
    kinds: dict[str, tuple[int, dict[str, int]]] = {}
    found = 0
    for step in range(600):
        if kinds and random.random() < 0.4:
            kind = random.choice(sorted(kinds))
            del kinds[kind]
            table.drop(kind)
        else:
            names = random.sample(["cpu", "memory", "gpu", "pods"], random.randint(0, 4))
            kinds[f"k{step}"] = random.choice([0, 5]), {n: random.choice([0, 1, 3]) for n in names}
            priority, needed = kinds[f"k{step}"]
            table.add(f"k{step}", priority, needed.items())
        chances = [
            (random.choice([-9, 1, 9]), {n: random.choice([-1, 0, 2, 9]) for n in table.names})
            for _ in range(random.randint(0, 2))
        ]
        expected = {
            kind
            for kind, (priority, needed) in kinds.items()
            for least, most in chances
            if priority >= least
            and all(needed.get(name, 0) <= most.get(name, 0) for name in table.names)
        }
        assert expected == set(table.within(chances)), step
        found += len(expected)
    assert found > 1000


def test_endless_names_are_not_stored():
    """Beyond the first few nothing is compared: kinds that need only such names are always
    returned.
    """
    table = Needs()
    for number in range(1000):
        table.add(number, 0, [(f"example.com/{number}", 1)])
    assert hints.MOST_NAMES == len(list(table.names))
    assert list(range(hints.MOST_NAMES, 1000)) == table.within([(0, {})])


def test_amounts_past_what_a_column_holds_are_never_there():
    """Amounts beyond the range of a column are clamped, not wrapped around."""
    table = Needs()
    table.add("absurd", 0, [("cpu", 10**30)])
    assert [] == table.within([(0, {"cpu": 10**18})])
    assert ["absurd"] == table.within([(0, {"cpu": UNBOUNDED})])
