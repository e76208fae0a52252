"""`FigureSnapshot`: one response of a metric provider, immutable, with a time for every figure.

Units are plain: cores, bytes, bytes per second. A figure that a source does not have is absent,
never zero.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

CPU, MEMORY, BANDWIDTH = "cpu", "memory", "bandwidth"


class FigureName(NamedTuple):
    """The name of a figure: a resource and a statistic (avg, std, p50, p90, p95, p99, latest)."""

    resource: str
    statistic: str = "avg"


class Figure(msgspec.Struct, frozen=True):
    """One value; `measured_at` is when the newest sample in it was taken, seconds since the epoch.

    `window_s` is the time that it covers; 0 for a single sample or one of unknown length.
    """

    value: float
    measured_at: float
    window_s: float = 0.0


Figures = Mapping[FigureName, Figure]


class FigureSnapshot(msgspec.Struct, frozen=True):
    """One response: figures by node name and by pod (`namespace/name`)."""

    source: str
    taken_at: float
    nodes: Mapping[str, Figures] = {}
    pods: Mapping[str, Figures] = {}

    @property
    def newest(self) -> float:
        """Return when the newest figure of a node was measured; minus infinity without any."""
        times = (one.measured_at for figures in self.nodes.values() for one in figures.values())
        return max(times, default=float("-inf"))

    def age_s(self, node: str, now: float) -> float | None:
        """Return the age of a node's oldest figure in seconds; None for an unknown node."""
        figures = self.nodes.get(node)
        if not figures:
            return None
        return now - min(one.measured_at for one in figures.values())
