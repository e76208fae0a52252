"""Names shared by several network plugins; `objects.networkpaths` defines a link."""

import numpy as np
from numpy.typing import NDArray

from scheduler.objects.networkpaths import REGION, ZONE, Link

__all__ = ["REGION", "ZONE", "FloatMatrix", "Link"]

FloatMatrix = NDArray[np.float64]
