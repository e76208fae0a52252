"""Names shared by several network plugins; `objects.networkways` defines a link."""

import numpy as np
from numpy.typing import NDArray

from scheduler.objects.networkways import REGION, ZONE, Link

__all__ = ["REGION", "ZONE", "FloatMatrix", "Link"]

FloatMatrix = NDArray[np.float64]
