"""Run one point's plugins in order; measure their calls and durations, and name a failing plugin.

The runner uses a `PointRun` at every point. It reports to `PointMeasure`, and `Instruments` decide
where the numbers go. No number changes a decision.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from scheduler.base.errors import PluginError
from scheduler.framework.calls import BindStep, CallResult
from scheduler.framework.plugin import POINT_NAMES
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.status import Status

Stopwatch = Callable[[], float]
SAMPLED = 10


class Instruments(Protocol):
    """The instruments that measure the plugins of a profile; they change no decision."""

    @property
    def stopwatch(self) -> Stopwatch:
        """Return a function that reads the time, in seconds."""

    def point(self, point: str, seconds: float, status: str) -> None:
        """Record the duration of all plugins of an extension point."""

    def plugin(self, point: str, plugin: str, seconds: float, status: str) -> None:
        """Record the duration of one plugin; one attempt in `SAMPLED` is measured."""

    def preemption(self, seconds: float, status: str) -> None:
        """Record the duration of a search for victims."""

    def evaluations(self, point: str, plugin: str) -> Callable[[], None]:
        """Return a function that counts the calls of a plugin at a point."""


class PointMeasure:
    """Measure the points of a profile with its instruments."""

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
        # Whether the plugins of this attempt are timed individually.
        self.is_sampled = False
        self._counts = {
            point: {
                bound.name: instruments.evaluations(point, bound.name)
                for bound in getattr(profile, point)
            }
            for point in ("pre_filter", "filter", "pre_score", "score")
        }

    def begin(self) -> None:
        """Start an attempt."""
        self._attempts += 1
        self.is_sampled = self._attempts % SAMPLED == 0

    def plugin(self, point: str, bound: Bound, started_s: float, status: str) -> None:
        """Record the duration of one plugin."""
        self._instruments.plugin(point, bound.name, self.now_s() - started_s, status)

    def point(self, point: str, started_s: float, status: str) -> None:
        """Record the duration of all plugins of a point."""
        if point in self._served:
            self._instruments.point(point, self.now_s() - started_s, status)

    def preemption(self, started_s: float, status: str) -> None:
        """Record the duration of a search for victims."""
        self._instruments.preemption(self.now_s() - started_s, status)

    def count_calls(self, point: str, bounds: Iterable[Bound], skipped: Collection[str]) -> None:
        """Count the plugins that were called.

        kube-scheduler: a plugin that returned Skip (and is in `skipped`) does not count.
        """
        counts = self._counts.get(point)
        if counts is not None:
            for bound in bounds:
                if bound.name not in skipped:
                    counts[bound.name]()


class PointRun:
    """Iterate over the plugins of a point: time them, count them, and name a failing one.

    The caller leaves the loop when it needs no further answer. `outcome` is the status in the
    metrics unless a plugin fails.
    """

    __slots__ = (
        "_bound",
        "_bounds",
        "_fault",
        "_measure",
        "_plugin_s",
        "_point",
        "_skipped",
        "_started_s",
        "outcome",
    )

    def __init__(
        self,
        measure: PointMeasure | None,
        point: str,
        bounds: tuple[Bound, ...],
        skipped: Collection[str] = (),
    ) -> None:
        self._point = point
        self._bounds = bounds
        self._skipped = skipped
        self._measure = measure
        self._bound: Bound | None = None  # the plugin that is running, or ran last
        self._fault: PluginError | None = None
        self._started_s = 0.0
        self._plugin_s: float | None = None  # when it started
        self.outcome: str = "Success"

    def __enter__(self) -> Self:
        if self._measure is not None:
            self._started_s = self._measure.now_s()
        return self

    def __iter__(self) -> Iterator[Bound]:
        measure = self._measure
        if measure is None or not measure.is_sampled:
            for bound in self._bounds:
                self._bound = bound
                yield bound
            return
        for bound in self._bounds:
            self._bound = bound
            self._plugin_s = measure.now_s()
            yield bound
            measure.plugin(self._point, bound, self._plugin_s, "Success")
            self._plugin_s = None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> None:
        if self._measure is not None:
            self._measured(self._measure, error)
        if isinstance(error, Exception) and not isinstance(error, PluginError):
            raise self._named(error) from error  # the only place that catches a plugin's exception
        if error is None and self._fault is not None:
            raise self._fault

    def _measured(self, measure: PointMeasure, error: BaseException | None) -> None:
        bound, bounds = self._bound, self._bounds
        if bound is not None and self._plugin_s is not None:
            outcome = "Success" if error is None else "Error"
            measure.plugin(self._point, bound, self._plugin_s, outcome)
        is_well = error is None and self._fault is None
        measure.point(self._point, self._started_s, self.outcome if is_well else "Error")
        if bound is not None:
            called = bounds if bound is bounds[-1] else bounds[: bounds.index(bound) + 1]
            measure.count_calls(self._point, called, self._skipped)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Raise the exception of the body after all other plugins have run."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised at the end
            self._fault = self._fault or self._named(error)

    def _named(self, error: Exception) -> PluginError:
        name = "" if self._bound is None else self._bound.name
        return PluginError(name, POINT_NAMES[self._point], str(error))


def measured(
    measure: PointMeasure | None, point: str, steps: Generator[BindStep, CallResult, Status]
) -> Generator[BindStep, CallResult, Status]:
    """Measure a point including its waits; a cancelled run is not measured."""
    if measure is None:
        return (yield from steps)
    started_s = measure.now_s()
    status = yield from steps
    measure.point(point, started_s, status.code)
    return status
