"""The result of playing a trace: allocation, waiting times, jobs, gangs, and figures over time."""

from array import array
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.simulate.records import API_VERSION
from scheduler.simulate.traces.samples import TracePoint


class TraceWaiting(msgspec.Struct, frozen=True, rename="camel"):
    """Pods of one namespace and shape.

    Waiting time in seconds from arrival to binding, of bound pods. `refused` pods were not bound at
    the moment of their arrival.
    """

    namespace: str
    shape: str
    pods: int
    bound: int
    refused: int
    waiting_p50: float
    waiting_p95: float
    waiting_p99: float
    evicted: int


class TraceJobs(msgspec.Struct, frozen=True, rename="camel"):
    """Jobs of one namespace and shape: the pods of one row, or the members of one group.

    Completion is from the arrival to the end of the last pod, the wait of a gang from the arrival
    to the binding of its minimum; in seconds.
    """

    namespace: str
    shape: str
    jobs: int
    completed: int
    completion_p50: float
    completion_p95: float
    completion_p99: float
    gangs: int
    gangs_started: int
    gang_wait_p50: float
    gang_wait_p95: float
    gang_wait_p99: float


class TraceUse(msgspec.Struct, frozen=True):
    """The allocated share of a resource in percent: mean over the time, and the peak."""

    resource: str
    mean: float
    peak: float


class TraceSummary(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The result of playing a trace."""

    api_version: str = API_VERSION
    kind: str = "TraceSimulation"
    seconds: float
    pods: int
    bound: int
    never_bound: int
    evicted: int
    complete: bool
    allocation: tuple[TraceUse, ...]
    waiting: tuple[TraceWaiting, ...]
    jobs: tuple[TraceJobs, ...] = ()
    points: tuple[TracePoint, ...] = ()


def _seconds() -> Any:
    return msgspec.field(default_factory=lambda: array("d"))


class Tally(msgspec.Struct):
    """Counts and times of one namespace and shape."""

    pods: int = 0
    evicted: int = 0
    at_once: int = 0
    waits: Any = _seconds()
    jobs: int = 0
    gangs: int = 0
    completions: Any = _seconds()
    gang_waits: Any = _seconds()


def waiting_of(tallies: Mapping[tuple[str, str], Tally]) -> tuple[TraceWaiting, ...]:
    """Return the pods by namespace and shape."""
    return tuple(
        TraceWaiting(
            *key,
            tally.pods,
            len(tally.waits),
            tally.pods - tally.at_once,
            *_percentiles(tally.waits),
            tally.evicted,
        )
        for key, tally in sorted(tallies.items())
    )


def jobs_of(tallies: Mapping[tuple[str, str], Tally]) -> tuple[TraceJobs, ...]:
    """Return the jobs by namespace and shape."""
    return tuple(
        TraceJobs(
            *key,
            tally.jobs,
            len(tally.completions),
            *_percentiles(tally.completions),
            tally.gangs,
            len(tally.gang_waits),
            *_percentiles(tally.gang_waits),
        )
        for key, tally in sorted(tallies.items())
        if tally.jobs
    )


def _percentiles(values: "array[float]") -> tuple[float, float, float]:
    """Return the values that 50, 95 and 99 % do not exceed; 0 without values."""
    ordered = sorted(values)
    if not ordered:
        return 0.0, 0.0, 0.0
    last = len(ordered) - 1
    ranks = (max(-(-len(ordered) * part // 100) - 1, 0) for part in (50, 95, 99))
    half, most, nearly_all = (round(ordered[min(rank, last)], 3) for rank in ranks)
    return half, most, nearly_all
