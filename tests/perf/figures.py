"""Compute the figures of a run, and medians and ratios of several runs. Pure."""

import math
import os
from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

import msgspec

from tests.perf.contest import Outcome
from tests.perf.workload import Workload
from tests.real.exposition import Metrics, parse

Figures = dict[str, Any]

# The compared figures; higher is better for the first, lower for all others.
HEADLINE = ("podsPerSecond", "schedulerCpuMsPerPod", "controlPlaneCpuMsPerPod", "schedulerPeakMib")
HISTOGRAMS = (
    "scheduler_scheduling_attempt_duration_seconds",
    "scheduler_scheduling_algorithm_duration_seconds",
    "scheduler_pod_scheduling_sli_duration_seconds",
)


class Run(msgspec.Struct, frozen=True, rename="camel"):
    """The figures of one run of one contestant."""

    contestant: str
    workload: str
    figures: Figures


def figures(workload: Workload, outcome: Outcome) -> Figures:
    """Return the figures of one run; every name states its unit."""
    bound = outcome.bound
    start = bound[0] if workload.is_backlog else outcome.phase_start
    found: Figures = {
        "nodes": workload.nodes,
        "pods": len(bound),
        "podsPerSecond": plain_rate(bound),
        "bindingSeconds": bound[-1] - bound[0],
        "firstBindAfterStartSeconds": bound[0] - outcome.phase_start,
        "settledAfterLastBindSeconds": max(0.0, outcome.settled - bound[-1]),
        "throughput": sampled_rates(outcome.phase_start, bound),
        "eventsWritten": outcome.events,
        "eventsPerBoundPod": outcome.events / (len(bound) + outcome.other_pods),
    }
    found["watchesCutOff"] = outcome.watches_cut_off
    found["observerRestarts"] = outcome.observer_restarts
    sampler = outcome.sampler
    end = max(outcome.settled, bound[-1])
    for name in sampler.pids:
        seconds = sampler.between(name, start, end)
        found[f"{_camel(name)}CpuMsPerPod"] = 1000 * seconds / len(bound)
        found[f"{_camel(name)}PeakMib"] = sampler.peaks_mib[name]
    found["controlPlaneCpuMsPerPod"] = found["etcdCpuMsPerPod"] + found["kubeApiserverCpuMsPerPod"]
    found["othersCpuShare"] = sampler.others_between(start, end) / (os.cpu_count() or 1)
    found["othersCpuShare"] /= end - start
    whole = sampler.between("scheduler", outcome.scheduler_start, end)
    found["schedulerCpuSecondsWithStart"] = whole
    if outcome.metrics:
        found["histograms"] = latencies(parse(outcome.metrics))
    return found


def plain_rate(bound: Sequence[float]) -> float | None:
    """Return pods per second from the first bind to the last; None if that is undefined."""
    if len(bound) < 2 or bound[-1] <= bound[0]:
        return None
    return (len(bound) - 1) / (bound[-1] - bound[0])


def sampled_rates(start: float, bound: Sequence[float]) -> dict[str, float] | None:
    """Return the throughput as kube-scheduler's suite measures it, in pods per second.

    A sample a second: pods bound since the last sample. The sample with the first bind is dropped;
    empty seconds are added to the next sample, which then counts once for each of them. None if the
    run was too short for a sample.
    """
    samples: list[float] = []
    counted, empty, has_begun = 0, 0, False
    index = 0
    for second in range(1, math.ceil(bound[-1] - start) + 1):
        while index < len(bound) and bound[index] <= start + second:
            index += 1
        new = index - counted
        counted = index
        if not has_begun:
            has_begun = new > 0
        elif not new:
            empty += 1
        else:
            samples += [new / (empty + 1)] * (empty + 1)
            empty = 0
    if not samples:
        return None
    ordered = sorted(samples)
    found = {f"perc{p}": _percentile(ordered, p) for p in (50, 90, 95, 99)}
    return {"average": mean(samples), **found, "samples": len(samples)}


def latencies(metrics: Metrics) -> dict[str, dict[str, float]]:
    """Return average and percentiles, in milliseconds, of the histograms that both offer."""
    found = {}
    for name in HISTOGRAMS:
        family = metrics.get(name)
        if family is None:
            continue
        buckets, total, count = family.summed()
        if not count:
            continue
        quantiles = {f"perc{p}": 1000 * _quantile(buckets, p / 100) for p in (50, 90, 95, 99)}
        found[name] = {"average": 1000 * total / count, **quantiles, "count": count}
    return found


def medians(runs: Sequence[Run]) -> Figures:
    """Return the median of each plain number over the runs of one contestant."""
    names = [
        name
        for name, value in runs[0].figures.items()
        if isinstance(value, int | float) and all(r.figures.get(name) is not None for r in runs)
    ]
    return {name: median(run.figures[name] for run in runs) for name in names}


def ratios(of: Figures, to: Mapping[str, Figures]) -> dict[str, Figures]:
    """Return, for each of the others, our headline figures divided by theirs."""
    return {
        other: {
            name: of[name] / theirs[name] for name in HEADLINE if name in of and theirs.get(name)
        }
        for other, theirs in to.items()
    }


def _quantile(buckets: Sequence[tuple[float, float]], share: float) -> float:
    """Return a quantile by linear interpolation in cumulative buckets, as Prometheus does."""
    wanted = share * buckets[-1][1]
    lower, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            if math.isinf(bound):
                return lower
            inside = count - below
            return lower + (bound - lower) * ((wanted - below) / inside if inside else 1.0)
        lower, below = bound, count
    return lower


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the value at a percentile, the nearest rank."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _camel(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(part.capitalize() for part in rest)
