"""How long a pod waits before its next attempt (kube-scheduler's rules).

The duration doubles with every failure up to a limit; the end is cut to whole seconds, so that pods
of one second come back together in the order of their priority.
"""

import math

import msgspec


class PodBackoff(msgspec.Struct, frozen=True):
    """`initial_s` doubles with each failure up to `max_s`."""

    initial_s: float = 1.0
    max_s: float = 10.0

    def duration_s(self, failures: int) -> float:
        """Return the wait after `failures` (>= 0) failures in seconds; 0 for none."""
        if failures <= 0:
            return 0.0
        if failures > 60:
            return self.max_s
        return float(min(self.initial_s * 2 ** (failures - 1), self.max_s))

    def ends(self, failed_at: float, failures: int) -> float:
        """Return when the wait is over, cut to whole seconds."""
        return float(math.floor(failed_at + self.duration_s(failures)))
