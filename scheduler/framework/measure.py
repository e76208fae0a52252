"""Measuring the plugins of a profile: how often each is called, how long points and plugins take.

The runner tells `Measure` of its points; where the numbers go is the business of `Instruments`.
Nothing here reaches a decision.
"""

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Protocol

from scheduler.framework.calls import BindStep, CallResult
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.status import Status

Stopwatch = Callable[[], float]
SAMPLED = 10


class Instruments(Protocol):
    """What measures the plugins of a profile; nothing it does reaches a decision."""

    @property
    def stopwatch(self) -> Stopwatch:
        """Return what reads the time, in seconds."""

    def point(self, point: str, seconds: float, status: str) -> None:
        """Note how long all plugins of an extension point took."""

    def plugin(self, point: str, plugin: str, seconds: float, status: str) -> None:
        """Note how long one plugin took; one attempt in `SAMPLED` is measured."""

    def evaluations(self, point: str, plugin: str) -> Callable[[], None]:
        """Return what counts the calls of a plugin at a point."""


class Measure:
    """Measures the points of a profile with its instruments."""

    def __init__(self, profile: Profile, instruments: Instruments) -> None:
        self._instruments = instruments
        self.now_s = instruments.stopwatch
        # A point that no plugin of the profile serves is not measured.
        self._served = {
            point
            for point in POINT_NAMES
            if getattr(profile, "reserve" if point == "unreserve" else point)
        }
        self._attempts = 0
        # Whether the plugins of this attempt are timed one by one.
        self.is_sampled = False
        self._counts = {
            point: {
                bound.name: instruments.evaluations(point, bound.name)
                for bound in getattr(profile, point)
            }
            for point in ("pre_filter", "filter", "pre_score", "score")
        }

    def begin(self) -> None:
        """Begin an attempt."""
        self._attempts += 1
        self.is_sampled = self._attempts % SAMPLED == 0

    def plugin(self, point: str, bound: Bound, started_s: float, status: str) -> None:
        """Note how long one plugin took."""
        self._instruments.plugin(point, bound.name, self.now_s() - started_s, status)

    def point(self, point: str, started_s: float, status: str) -> None:
        """Note how long all plugins of a point took."""
        if point in self._served:
            self._instruments.point(point, self.now_s() - started_s, status)

    def asked(self, point: str, bounds: Iterable[Bound], skipped: Collection[str]) -> None:
        """Count the plugins that were asked.

        kube-scheduler: one that says Skip, and so stands in `skipped`, does not count.
        """
        counts = self._counts.get(point)
        if counts is not None:
            for bound in bounds:
                if bound.name not in skipped:
                    counts[bound.name]()


def measured(
    measure: Measure | None, point: str, steps: Generator[BindStep, CallResult, Status]
) -> Generator[BindStep, CallResult, Status]:
    """Measure a point together with its waits; one that is given up is not measured."""
    if measure is None:
        return (yield from steps)
    started_s = measure.now_s()
    status = yield from steps
    measure.point(point, started_s, status.code)
    return status
