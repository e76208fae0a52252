"""The lifecycle of a simulated pod as a function of time: waiting, running, restarted, ended.

`plan_of` reads a pod's `trellis.dev/simulate-*` annotations once, `stage_at` returns the pod's
stage at a time and the time of the next one. The kubelet calls and writes; nothing here keeps state
or reads a clock.

    trellis.dev/simulate-start-after: 3s    time from binding until the containers run
    trellis.dev/simulate-ready-after: 10s   time from running until Ready, or `never`
    trellis.dev/simulate-run-for: 1m        time until the containers exit, or `forever`
    trellis.dev/simulate-exit-code: "1"     their exit code
    trellis.dev/simulate-stop-after: 5s     time a deleted pod takes to stop, up to its grace period
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.nodes.durations import seconds

PREFIX: Final = "trellis.dev/simulate-"
START_AFTER: Final = PREFIX + "start-after"
READY_AFTER: Final = PREFIX + "ready-after"
RUN_FOR: Final = PREFIX + "run-for"
EXIT_CODE: Final = PREFIX + "exit-code"
STOP_AFTER: Final = PREFIX + "stop-after"

NEVER: Final = math.inf

Step: TypeAlias = Literal["waiting", "running", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class SimulatedPace:
    """The speed of the simulation without annotations, in seconds."""

    start_s: float = 0.0
    job_s: float = 1.0
    stop_s: float = 1.0


@dataclass(frozen=True, slots=True)
class LifePlan:
    """The durations of one pod's lifecycle, in seconds; `inf` for never."""

    start_s: float
    ready_s: float
    run_s: float
    stop_s: float
    exit_code: int
    restart_policy: str


@dataclass(frozen=True, slots=True)
class LifeStage:
    """The stage of a pod: `since` is its start, `due` the start of the next (`inf`: never)."""

    step: Step
    since: float
    due: float
    ready: bool = False
    restarts: int = 0
    began: float = 0.0


def plan_of(pod: Object, pace: SimulatedPace) -> LifePlan:
    """Return the plan of a pod; values that cannot be read count as absent."""
    meta, spec = pod["metadata"], pod["spec"]
    notes = meta.get("annotations")
    policy = spec.get("restartPolicy", "Always")
    run_s = pace.job_s if policy != "Always" and _is_of_job(meta) else NEVER
    grace_s = spec.get("terminationGracePeriodSeconds", 30)
    if not notes:
        return LifePlan(pace.start_s, 0.0, run_s, min(pace.stop_s, grace_s), 0, policy)
    code = notes.get(EXIT_CODE, "0")
    return LifePlan(
        start_s=_duration(notes, START_AFTER, pace.start_s),
        ready_s=_duration(notes, READY_AFTER, 0.0),
        run_s=_duration(notes, RUN_FOR, run_s),
        stop_s=_duration(notes, STOP_AFTER, min(pace.stop_s, grace_s)),
        exit_code=int(code) if code.isdecimal() else 0,
        restart_policy=policy,
    )


def stage_at(plan: LifePlan, started: float, now: float) -> LifeStage:
    """Return the stage at `now` of a pod that reached its node at `started`."""
    running = started + plan.start_s
    if now < running:
        return LifeStage("waiting", started, running)
    end = running + plan.run_s
    if now < end:
        return _running(plan, running, end, now, 0, running)
    if plan.restart_policy == "Always" or (plan.exit_code and plan.restart_policy == "OnFailure"):
        length = max(plan.run_s, 1.0)
        restarts = 1 + int((now - end) / length)
        again = end + (restarts - 1) * length
        return _running(plan, again, again + length, now, restarts, running)
    step: Step = "failed" if plan.exit_code else "succeeded"
    return LifeStage(step, end, NEVER, began=running)


def _running(
    plan: LifePlan, since: float, end: float, now: float, restarts: int, began: float
) -> LifeStage:
    ready_at = since + plan.ready_s
    if now < ready_at:
        return LifeStage("running", since, min(ready_at, end), restarts=restarts, began=began)
    return LifeStage("running", since, end, ready=True, restarts=restarts, began=began)


def _duration(notes: Mapping[str, str], name: str, default_s: float) -> float:
    text = notes.get(name)
    if text is None:
        return default_s
    if text in ("never", "forever"):
        return NEVER
    found = seconds(text)
    return default_s if found is None else found


def _is_of_job(meta: Object) -> bool:
    return any(owner["kind"] == "Job" for owner in meta.get("ownerReferences") or ())
