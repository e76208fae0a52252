"""Measuring the plugins of a profile: how often each is called, how long points and plugins take.

The runner calls `Measure` around its steps; where the numbers go is the business of `Instruments`.
Nothing here reaches a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from typing import Protocol

from scheduler.framework.calls import BindStep, CallResult
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.status import Status

Stopwatch = Callable[[], float]
SAMPLED = 10


class Instruments(Protocol):
    """What measures the plugins of a profile; nothing it does reaches a decision."""

    @property
    def stopwatch(self) -> Stopwatch:
        """Return what reads the time, in seconds."""
        ...

    def point(self, point: str, seconds: float, status: str) -> None:
        """Note how long all plugins of an extension point took."""
        ...

    def plugin(self, point: str, plugin: str, seconds: float, status: str) -> None:
        """Note how long one plugin took; one attempt in `SAMPLED` is measured."""
        ...

    def evaluations(self, point: str, plugin: str) -> Callable[[], None]:
        """Return what counts the calls of a plugin at a point."""
        ...


Step = Callable[[Bound], bool]


class Measure:
    """Measures the runner's steps with the instruments of a profile."""

    def __init__(self, profile: Profile, instruments: Instruments) -> None:
        self._instruments = instruments
        self.now_s = instruments.stopwatch
        self.point = instruments.point
        self._attempts = 0
        self._counts = {
            point: {
                bound.name: instruments.evaluations(point, bound.name)
                for bound in getattr(profile, point)
            }
            for point in ("pre_filter", "filter", "pre_score", "score")
        }

    def around(self, point: str, step: Step) -> Step:
        """Return `step` with its plugin timed in one attempt of `SAMPLED`."""
        if point == "pre_filter":
            self._attempts += 1
        return self._timed(point, step) if self._attempts % SAMPLED == 0 else step

    def nothing_asked(self, point: str) -> None:
        """Note a point at which nobody had to be asked."""
        if point == "pre_filter":
            self._attempts += 1
        self.point(point, 0.0, "Success")

    def count(self, point: str, asked: Iterable[Bound], skipped: Collection[str]) -> None:
        """Count the plugins that were asked.

        kube-scheduler: one that says Skip, and so stands in `skipped`, does not count.
        """
        counts = self._counts.get(point)
        if counts is not None:
            for bound in asked:
                if bound.name not in skipped:
                    counts[bound.name]()

    def _timed(self, point: str, step: Step) -> Step:
        def timed(bound: Bound) -> bool:
            started_s = self.now_s()
            status = "Error"
            try:
                answer = step(bound)
                status = "Success"
            finally:
                self._instruments.plugin(point, bound.name, self.now_s() - started_s, status)
            return answer

        return timed


def measured(
    measure: Measure | None, point: str, steps: Generator[BindStep, CallResult, Status]
) -> Generator[BindStep, CallResult, Status]:
    """Measure a point together with its waits; one that is given up is not measured."""
    if measure is None:
        return (yield from steps)
    started_s = measure.now_s()
    status = yield from steps
    measure.point(point, measure.now_s() - started_s, status.code)
    return status
