"""`RowPlaces`: the location of each node as a number for its pair of region and zone.

A missing label counts as an empty name. Place 0 is that of nodes with neither label. Numbers are
assigned as pairs appear and never change; no result outside this package depends on them.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.framework import Rows
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL
from scheduler.plugins.network.links import FloatMatrix
from scheduler.state.columns import Column

Place = tuple[str, str]  # region, zone

NOWHERE = 0
# Up to this number of places (or regions) there are matrices over all of them.
MOST = 2048


class RowPlaces:
    """The place of every row; written by `NetworkTracker` alone.

    Above `most` places, matrices over all of them are not allowed.
    """

    most = MOST

    def __init__(self) -> None:
        self.names: list[Place] = [("", "")]
        self.regions: list[str] = [""]
        self._region_of: list[int] = [0]
        self._region_numbers: dict[str, int] = {"": 0}
        self._region_column: Rows | None = None
        self._links: FloatMatrix | None = None
        self._numbers: dict[Place, int] = {("", ""): NOWHERE}
        self._of: Column[np.intp] = Column(np.intp, NOWHERE)
        self.version = 0

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

    def region_numbers(self) -> Rows:
        """Return by place the index of its region in `regions`; the unnamed region is 0."""
        if self._region_column is None:
            self._region_column = np.array(self._region_of, dtype=np.intp)
        return self._region_column

    def is_link(self) -> FloatMatrix:
        """Return 1 between places of one region in different zones with names, else 0."""
        if self._links is None:
            region = self.region_numbers()
            named = np.array([bool(zone) for _, zone in self.names])
            links = (region[:, None] == region) & named[:, None] & named
            np.fill_diagonal(links, val=False)
            self._links = links.astype(np.float64)
        return self._links

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Write the place of a row."""
        place = (labels.get(REGION_LABEL, ""), labels.get(ZONE_LABEL, ""))
        number = self._numbers.setdefault(place, len(self.names))
        if number == len(self.names):
            self._add(place)
        self._of.grow(row + 1)
        self._of.set(row, number)
        self.version += 1

    def _add(self, place: Place) -> None:
        self.names.append(place)
        number = self._region_numbers.setdefault(place[0], len(self.regions))
        if number == len(self.regions):
            self.regions.append(place[0])
        self._region_of.append(number)
        self._region_column = self._links = None
