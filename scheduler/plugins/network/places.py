"""`Places`: where nodes stand, as small numbers for pairs of region and zone.

A missing label counts as an empty name. Place 0 is that of nodes with neither label. Numbers are
given as pairs appear and stay; nothing that leaves this package depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.base.arrays import Rows
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL
from scheduler.state.columns import Column

Place = tuple[str, str]  # region, zone

NOWHERE = 0


class Places:
    """The place of every row; written by `NetworkTracker` alone."""

    def __init__(self) -> None:
        self.names: list[Place] = [("", "")]
        self._numbers: dict[Place, int] = {("", ""): NOWHERE}
        self._of: Column[np.intp] = Column(np.intp, NOWHERE)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def rows(self) -> Rows:
        """Return the place of each row that has been written; later rows are nowhere."""
        return self._of.values

    def column(self, size: int) -> Rows:
        """Return the place of the first `size` rows."""
        if len(self._of.values) < size:
            self._of.grow(size)
        return self._of.values[:size]

    def of(self, row: int) -> int:
        """Return the place of a row."""
        values = self._of.values
        return int(values[row]) if row < len(values) else NOWHERE

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Write where a row stands."""
        place = (labels.get(REGION_LABEL, ""), labels.get(ZONE_LABEL, ""))
        number = self._numbers.setdefault(place, len(self.names))
        if number == len(self.names):
            self.names.append(place)
        self._of.grow(row + 1)
        self._of.set(row, number)
