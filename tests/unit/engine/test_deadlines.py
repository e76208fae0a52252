"""Deadlines beside a plain dict that is scanned."""

from random import Random

import pytest

from scheduler.engine.deadlines import Deadlines


@pytest.mark.parametrize("seed", range(50))
def test_the_first_moment_and_those_that_are_due_are_found_whatever_was_set_before(seed: int):
    random, deadlines, plain, now = Random(seed), Deadlines(), {}, 0.0
    for _ in range(500):
        key, when = random.choice("abcdefgh"), now + random.randint(0, 30)
        match random.randrange(6):
            case 0 | 1:
                deadlines.set(key, when)
                plain[key] = when
            case 2:
                deadlines.set_earlier(key, when)
                plain[key] = min(when, plain.get(key, when))
            case 3:
                deadlines.drop(key)
                plain.pop(key, None)
            case _:
                now += random.randint(0, 5)
                due = sorted((when, key) for key, when in plain.items() if when <= now)
                assert deadlines.take(now) == [key for _, key in due]
                plain = {key: when for key, when in plain.items() if when > now}
        assert deadlines.next() == min(plain.values(), default=None)
        assert (len(deadlines), key in deadlines) == (len(plain), key in plain)


def test_a_deadline_set_repeatedly_takes_no_more_memory():
    deadlines = Deadlines()
    deadlines.set("slow", 1000.0)
    for when in range(10_000):
        deadlines.set("quick", 2000.0 + when)
    entries = sum(len(table) for table in vars(deadlines).values())
    assert (deadlines.next(), entries < 100) == (1000.0, True)
