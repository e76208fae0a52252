"""The kinds of metric values and the rows that declare them.

Values are plain numbers without locks, because a pod passes about ten of them and one thread
writes: an increment costs under 0.1 microseconds, an observation under 0.3. The table that is made
of these rows is `table.py`; `exposition.py` hands them out. Durations arrive in seconds; there
is no clock and no I/O here.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar, overload

Kind = Literal["counter", "gauge", "histogram"]

# A label value from outside (an event, a plugin, a kind) must not fill the memory.
MAX_CHILDREN = 4096
OVERFLOW = "overflow"
# Requests over the network: client-go's bounds.
REQUEST_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self, _buckets: tuple[float, ...] = ()) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        """Add `amount` (>= 0)."""
        self.value += amount


class Gauge:
    """A number that goes up and down, or that a callback returns when it is read."""

    __slots__ = ("_read", "_value")

    def __init__(self, _buckets: tuple[float, ...] = ()) -> None:
        self._value: float = 0
        self._read: Callable[[], float] | None = None

    @property
    def value(self) -> float:
        """Return the number now."""
        return self._value if self._read is None else self._read()

    def set(self, value: float) -> None:
        """Replace the number."""
        self._value = value

    def inc(self, amount: float = 1) -> None:
        """Add `amount`, which may be negative."""
        self._value += amount

    def read_from(self, read: Callable[[], float]) -> None:
        """Call `read` at each scrape instead of storing a number."""
        self._read = read


class Trace(NamedTuple):
    """The trace of an observation: its id in hex, and its time in seconds since the epoch."""

    id: str
    at: float


class Histogram:
    """Counts of observations per bucket; `bounds` are inclusive upper ends, ascending.

    `exemplars` has by bucket the last value that was observed within a trace, and that trace.
    """

    __slots__ = ("bounds", "counts", "exemplars", "sum")

    def __init__(self, buckets: tuple[float, ...]) -> None:
        self.bounds = buckets
        self.counts = [0] * (len(buckets) + 1)  # not cumulative; the last one is +Inf
        self.sum = 0.0
        self.exemplars: dict[int, tuple[float, Trace]] = {}

    def observe(self, value: float, trace: Trace | None = None) -> None:
        """Count one observation, made within `trace`."""
        place = bisect_left(self.bounds, value)
        self.counts[place] += 1
        self.sum += value
        if trace is not None:
            self.exemplars[place] = value, trace

    @property
    def count(self) -> int:
        """Return the number of observations."""
        return sum(self.counts)


Value: TypeAlias = Counter | Gauge | Histogram
# The result of a gauge's callback: numbers by the label's value, or by the tuple of all label
# values.
ByLabels: TypeAlias = Mapping[Any, float]
V = TypeVar("V", bound=Value)
T = TypeVar("T")


class Spec(NamedTuple):
    """One row of the table."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    buckets: tuple[float, ...]
    help: str


class MetricSample(NamedTuple):
    """One labelled value as `collect` yields it: a number, or the histogram itself."""

    labels: tuple[str, ...]
    value: float | Histogram


def _reading(value: Value) -> float | Histogram:
    return value if isinstance(value, Histogram) else value.value


class Family(Generic[V]):
    """All values of one metric, by their labels."""

    __slots__ = ("_children", "_make", "_read", "spec")

    def __init__(self, spec: Spec, make: Callable[[tuple[float, ...]], V]) -> None:
        self.spec = spec
        self._make = make
        self._children: dict[tuple[str, ...], V] = {}
        self._read: Callable[[], ByLabels] | None = None

    def labels(self, *values: str) -> V:
        """Return the value for these labels, in the table's order; made on first use, then kept."""
        child = self._children.get(values)
        return self._add(values) if child is None else child

    def _add(self, values: tuple[str, ...]) -> V:
        self._check(values)
        if len(self._children) >= MAX_CHILDREN:
            values = (OVERFLOW,) * len(values)
        return self._children.setdefault(values, self._make(self.spec.buckets))

    def read_from(self: "Family[Gauge]", read: Callable[[], ByLabels]) -> None:
        """Call `read` at each scrape for {label value, or tuple of them: number}."""
        self._read = read

    def samples(self) -> list[MetricSample]:
        """Return all current values; an exception of a callback is raised."""
        found = [MetricSample(labels, _reading(child)) for labels, child in self._children.items()]
        if self._read is not None:
            for key, number in self._read().items():
                labels = key if isinstance(key, tuple) else (key,)
                self._check(labels)
                found.append(MetricSample(labels, number))
        return found

    def _check(self, values: tuple[str, ...]) -> None:
        if len(values) != len(self.spec.labels):
            raise ValueError(f"{self.spec.name} has labels {self.spec.labels}, got {values}")


class MetricRow(Generic[T]):
    """A row of the table in the class body; on an instance the attribute is the family or value."""

    def __init__(self, spec: Spec, make: Callable[[tuple[float, ...]], Any]) -> None:
        self.spec = spec
        self.make = make

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @overload
    def __get__(self, instance: None, owner: type) -> "MetricRow[T]": ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> "T | MetricRow[T]":
        # Only the class gets here: an instance's own attribute hides this one.
        return self


def exp(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bucket bounds from `start`, each `factor` times the one before."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def _spec(name: str, kind: Kind, text: str, bounds: tuple[float, ...] = ()) -> Spec:
    """Return the row of a name with its labels in braces, as Prometheus writes them."""
    name, _, labels = name.removesuffix("}").partition("{")
    return Spec(name, kind, tuple(labels.split(",")) if labels else (), bounds, text)


def counter(name: str, text: str) -> MetricRow[Counter]:
    return MetricRow(_spec(name, "counter", text), Counter)


def counters(name: str, text: str) -> MetricRow[Family[Counter]]:
    return MetricRow(_spec(name, "counter", text), Counter)


def gauge(name: str, text: str) -> MetricRow[Gauge]:
    return MetricRow(_spec(name, "gauge", text), Gauge)


def gauges(name: str, text: str) -> MetricRow[Family[Gauge]]:
    return MetricRow(_spec(name, "gauge", text), Gauge)


def histogram(name: str, bounds: tuple[float, ...], text: str) -> MetricRow[Histogram]:
    return MetricRow(_spec(name, "histogram", text, bounds), Histogram)


def histograms(name: str, bounds: tuple[float, ...], text: str) -> MetricRow[Family[Histogram]]:
    return MetricRow(_spec(name, "histogram", text, bounds), Histogram)
