"""`Promised`: the pods to which others' nominations promise room, as one attempt must respect them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from scheduler.base.arrays import Rows
from scheduler.framework.crowd import Crowd, crowd_of
from scheduler.state.podindex import Placed
from scheduler.state.touched import Touched


class Promised(Protocol):
    """Pods on the rows that they are promised."""

    @property
    def touched(self) -> Touched | None:
        """Return the log of rows whose promises changed; None if there is none for this pod."""
        ...

    def rows(self) -> Rows:
        """Return the rows with such pods, in order."""
        ...

    def crowd(self, rows: Rows) -> Crowd:
        """Return these pods on the given rows."""
        ...


class PromisedMoves:
    """Promised pods given one by one, with their rows."""

    touched: Touched | None = None

    def __init__(self, moves: Sequence[tuple[Placed, int]] = ()) -> None:
        self._moves = moves
        self._rows: Rows = np.array(sorted({row for _, row in moves}), dtype=np.intp)

    def rows(self) -> Rows:
        """Return the rows with such pods, in order."""
        return self._rows

    def crowd(self, rows: Rows) -> Crowd:
        """Return these pods on the given rows."""
        return crowd_of(rows, self._moves)


NOBODY = PromisedMoves()
