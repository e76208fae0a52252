"""Invariants of a group's plan when its members change while the solver works."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.effects import Bind, Effects, Solve, Watched
from tests.property.making import make_pod, with_meta
from tests.unit.engine.test_groups import LABELS, Floor

SIZE = 4
LABELLED, LEAVES = "labelled", "leaves the group"


def changed(random: Random, floor: Floor, name: str) -> str:
    """Change one member as another client may; return the kind of change."""
    pod = make_pod(name, labels=LABELS)
    what = random.choice(("terminating", "deleted", LEAVES, LABELLED))
    match what:
        case "terminating":
            verb, pod = "MODIFIED", with_meta(pod, deletion_timestamp="2026-01-01T00:00:00Z")
        case "deleted":
            verb = "DELETED"
        case _ if what == LEAVES:
            verb, pod = "MODIFIED", make_pod(name)
        case _:
            verb, pod = "MODIFIED", make_pod(name, labels={**LABELS, "touched": "yes"})
    floor.handle(Watched("Pod", verb, pod))
    return what


def answered(random: Random, floor: Floor) -> tuple[set[str], dict[str, str]]:
    """Answer every solve, after some members changed. Return the bound pods and the changes."""
    changes: dict[str, str] = {}
    effects: list[Effects] = []
    sent = floor.run()
    while sent:
        effects += sent
        for solve in (one for one in sent if isinstance(one, Solve)):
            for name in (f"g-{number}" for number in range(SIZE)):
                if changes.get(name, LABELLED) == LABELLED and random.random() < 0.15:
                    changes[name] = changed(random, floor, name)
            floor.solve(solve)
        sent = floor.run()
    return {one.name for one in effects if isinstance(one, Bind)}, changes


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_member_that_left_while_its_group_was_planned_is_bound(seed: int):
    """A deleted, terminating or relabelled member is not bound, and no group is bound in part."""
    random = Random(seed)
    floor = Floor(nodes=random.randint(1, 3), size=SIZE)
    bound, changes = answered(random, floor)
    left = {name for name, what in changes.items() if what != LABELLED}
    alone = {name for name, what in changes.items() if what == LEAVES}

    assert not bound & (left - alone)
    assert len(bound - alone) in (0, SIZE)
