"""What pods that were put off keep of the nodes, by their place in the queue."""

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from scheduler.groups.cycle.planned import _Deferred
from scheduler.state.shapes import Shapes
from tests.property.making import make_pod


@pytest.mark.parametrize("seed", range(20))
def test_only_pods_that_precede_a_place_count(seed: int):
    """For each place, the requests and rows of exactly the deferred pods before it are summed."""
    random, shapes, deferred, rows = Random(seed), Shapes(), _Deferred(), 5
    profile: Any = SimpleNamespace(is_affected=lambda _first, _pod: False)
    added: list[tuple[Any, int, np.ndarray]] = []
    for number in range(random.randint(1, 6)):
        cpu, place = random.randint(1, 3), (random.randint(1, 4), number)
        fits = np.array([random.random() < 0.5 for _ in range(rows)])
        queued: Any = SimpleNamespace(uid=str(number), pod=make_pod(f"p{number}", cpu=cpu))
        deferred.add(queued, place, fits, shapes.of(queued.pod), profile)
        added.append((place, cpu * 1000, fits))
    for place in [(at, number) for at in range(6) for number in (-1, 2, 9)]:
        before = [one for one in added if one[0] < place]
        wanted = sum((cpu * fits for _, cpu, fits in before), np.zeros(rows, dtype=np.int64))
        found = deferred.before(place).get("cpu", np.zeros(rows, dtype=np.int64))
        assert wanted.tolist() == found.tolist()
        taken = np.any([fits for _, _, fits in before], axis=0) if before else np.zeros(rows, bool)
        assert taken.tolist() == deferred.rows_before(place, rows).tolist()
