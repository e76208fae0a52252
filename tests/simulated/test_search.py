"""Scripts, the choice of the next one, and the shortening of one with a violation."""

from random import Random

from tests.simulated.alone import again, alone
from tests.simulated.runs import Length
from tests.simulated.search import Script, Search, Step
from tests.simulated.shrink import shrunk


def test_a_run_is_the_same_by_its_script():
    """The printed text of the script gives the same run."""
    first = alone(3, Length(4))
    second = again(Script.read(str(first.script)), Length())
    assert first.actions is not None
    assert second.actions is not None
    assert 4 == len(first.script.steps)
    assert first.script.steps == second.script.steps
    assert first.virtual_s == second.virtual_s


def test_the_next_run_is_a_mutation_of_one_with_new_states():
    """A run without new states is not kept.

    Each next run usually keeps a part of one that has some.
    """
    search = Search(Random(1), ("plain", "kill"))
    assert () == search.next().steps
    script = Script(7, tuple(Step("burst", number) for number in range(10)))
    assert 1 == search.learn(script, {("a",)})
    assert 0 == search.learn(Script(8, (Step("end_faults", 0),)), {("a",)})
    found = [search.next() for _ in range(40)]
    changed = [one for one in found if one.steps]
    assert len(changed) > 20
    assert all("end_faults" not in {step.move for step in one.steps} for one in changed)
    assert all(set(script.steps) & set(one.steps) for one in changed)
    assert all(one.steps != script.steps for one in changed)


def test_a_run_is_shortened():
    """Of twenty steps two are needed; with few trials some steps are still removed."""

    def is_broken(steps: tuple[int, ...]) -> bool:
        return {3, 17} <= set(steps)

    assert [3, 17] == shrunk(range(20), is_broken, 200)
    assert len(shrunk(range(20), is_broken, 8)) < 20
