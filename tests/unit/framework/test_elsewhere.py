"""Destinations of victims, each beside the victims before it."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from scheduler.framework.hypothetical.elsewhere import Elsewhere
from scheduler.state.podindex import Placed
from scheduler.state.podindex import place as record_of
from scheduler.state.shapes import Shapes
from tests.property.making import make_pod

NAMES = ("a", "b")


def attempt(cpu: int) -> Any:
    """Return an attempt in which every pod fits node b, which has `cpu` free cores."""
    free = {"cpu": cpu * 1000, "pods": 100}
    nodes = SimpleNamespace(
        size=2,
        name=NAMES.__getitem__,
        row=NAMES.index,
        allocatable=lambda name: np.array([0, free[name]]),
        requested=lambda _name: np.zeros(2, dtype=np.int64),
    )
    return SimpleNamespace(
        nodes=nodes,
        cycle=SimpleNamespace(pod=make_pod("preemptor")),
        accepting=lambda *_arguments: np.array([False, True]),
    )


def victims(*cpus: int) -> list[Placed]:
    """Return pods on node a with these requests."""
    shapes = Shapes()
    pods = [make_pod(f"v{at}", node="a", cpu=cpu) for at, cpu in enumerate(cpus)]
    return [record_of(pod, shapes.of(pod), "a") for pod in pods]


def test_victims_share_the_free_capacity_of_a_destination():
    """Two of three pods fit beside one another; a smaller one takes the rest."""
    elsewhere = Elsewhere(attempt(5), cast(Any, None))
    found = elsewhere.destinations(victims(2, 2, 2, 1))

    assert {"uid-v0": "b", "uid-v1": "b", "uid-v3": "b"} == found


def test_a_victim_is_judged_on_its_own_where_no_destination_is_sought():
    """Each of three pods fits; a victim of another profile fits nowhere."""
    assert 0 == Elsewhere(attempt(2), cast(Any, None)).stranded(victims(2, 2, 2))

    other = make_pod("other", node="a", scheduler="another")
    placed = record_of(other, Shapes().of(other), "a")
    assert 1 == Elsewhere(attempt(2), cast(Any, None)).stranded([placed])
