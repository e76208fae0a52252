"""`RowLists`: start times of pods, read together, equal those read one by one."""

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np

from scheduler.state.counts.rowlists import NOT_STARTED, START, RowLists, start_of

TEXTS = [
    "2026-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "2026-01-01T00:00:00.750000Z",
    "2026-01-01T00:00:00+02:00",
    "2026-01-01 00:00:00Z",
    "2026-W01-1T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T24:00:01Z",
    "0000-01-01T00:00:00Z",
    "2026-01-01T00:00:00Zulu",
    "2026-01-01",
    "¹026-01-01T00:00:00Z",
    "+026-01-01T00:00:00Z",
    "-026-01-01T00:00:00Z",
    " 026-01-01T00:00:00Z",
    "soon",
    "",
    None,
]


def started(text: str | None) -> Any:
    """Return a placed pod that started then."""
    pod = SimpleNamespace(priority=0, status=SimpleNamespace(start_time=text))
    return SimpleNamespace(pod=pod, shape=SimpleNamespace(id=1), requests={})


def test_starts_are_the_same_in_any_company():
    """The starts are equal for any number and kind of odd ones."""
    pods = [started(text) for text in TEXTS]
    rows = [*([pod] for pod in pods), *combinations(pods, 2), pods, []]
    lists = RowLists(rows.__getitem__)
    for place, row in enumerate(rows):  # alone, so that no other row is in the group
        _, counts, fields = lists.on(np.array([place]))

        assert [start_of(pod) for pod in row] == fields[START].tolist()
        assert [len(row)] == counts.tolist()
    *_, fields = lists.on(np.array([0, len(TEXTS) - 1]))
    assert [1_767_225_600, NOT_STARTED] == fields[START].tolist()
