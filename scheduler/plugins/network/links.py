"""`Link`: the way between two zones of a region, or between two regions; words that several share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatMatrix = NDArray[np.float64]

REGION, ZONE = "region", "zone"


class Link(NamedTuple):
    """The way from one zone (region) to another; the first end is the dependent's."""

    level: str
    origin: str
    destination: str

    @property
    def back(self) -> Link:
        """Return the way back."""
        return Link(self.level, self.destination, self.origin)
