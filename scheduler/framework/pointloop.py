"""`PointLoop`: asks the plugins of an extension point one after the other.

One loop serves all points: order, timing, and an exception of a plugin named with plugin and point.
What a point makes of the answers is the business of `Runner`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from scheduler.base.errors import PluginError
from scheduler.framework.measure import Instruments, Measure
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.profile import Bound, Profile


class PointLoop:
    """The loop over the plugins of a profile."""

    def __init__(self, profile: Profile, instruments: Instruments | None) -> None:
        self.profile = profile
        self._measure = Measure(profile, instruments) if instruments is not None else None
        self._served = {point for point in POINT_NAMES if _bounds(profile, point)}

    def _each(
        self,
        point: str,
        bounds: tuple[Bound, ...],
        step: Callable[[Bound], bool],
        outcome: Callable[[], str] = lambda: "Success",
        *,
        skipped: Collection[str] = (),
        to_the_end: bool = False,
    ) -> None:
        """Call `step` for each plugin in order until it returns True or, mostly, raises."""
        measure = self._measure
        if not bounds:
            if measure is not None and point in self._served:
                measure.nothing_asked(point)
            return
        started_s = 0.0
        if measure is not None:
            step = measure.around(point, step)
            started_s = measure.now_s()
        result = "Error"
        asked = 0
        faults: list[PluginError] = []
        try:
            for bound in bounds:
                asked += 1
                try:
                    if step(bound):
                        break
                except PluginError:
                    raise
                except Exception as error:  # the one place where a plugin's fault is caught
                    fault = PluginError(bound.name, POINT_NAMES[point], str(error))
                    if not to_the_end:
                        raise fault from error
                    faults.append(fault)
            if faults:
                raise faults[0]
            result = outcome()
        finally:
            if measure is not None:
                measure.point(point, measure.now_s() - started_s, result)
                measure.count(point, bounds[:asked], skipped)


def _bounds(profile: Profile, point: str) -> tuple[Bound, ...]:
    bounds: tuple[Bound, ...] = getattr(profile, "reserve" if point == "unreserve" else point)
    return bounds
