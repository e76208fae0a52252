"""A snapshot on the scheduler's own engine: the start of `simulate` and `explain`.

`Setup` is the configuration (profiles and their plugins), `AnswerOptions` the options; `staged`
builds the engine and reports every object to it, as a watch would. Nothing is scheduled yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import InputError, ObjectError, TrellisError
from scheduler.base.meters import Meters
from scheduler.base.release import Release
from scheduler.base.text import did_you_mean
from scheduler.config import Loaded
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.effects import Event, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.framework.registry import Registry
from scheduler.objects.groups.podgroup import WorkloadGroup
from scheduler.objects.kinds import WORKLOAD_GROUPS
from scheduler.objects.pod import Pod
from scheduler.objects.workloads import Namespace
from scheduler.simulate.cluster.deviceclaims import CLAIM, TEMPLATE, claims_made, group_claims_made
from scheduler.simulate.cluster.extenders import skipped_extenders
from scheduler.simulate.cluster.volumes import VolumeController
from scheduler.simulate.derive import with_derived_groups
from scheduler.snapshot import admission
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.store import object_key

DEFAULT_SCHEDULER = "default-scheduler"


class Setup(msgspec.Struct, frozen=True):
    """A configuration and the plugins it names.

    `meters` are shared by all engines of the setup and never read; creating them again would take a
    tenth of a small simulation.
    """

    loaded: Loaded
    registry: Registry
    meters: Meters = msgspec.field(default_factory=Meters)


class AnswerOptions(msgspec.Struct, frozen=True):
    """The options of a question.

    `now` None is the time of the snapshot, `release` None its version. `details` are all nodes of
    each pod's first attempt, `scores` those of its node, `waking` the changes that would requeue a
    rejected pod.
    """

    now: float | None = None
    ties: Ties = Ties.NAME
    seed: int = 0
    details: bool = False
    scores: bool = False
    waking: bool = False
    release: Release | None = None


class StagedEngine(msgspec.Struct, frozen=True):
    """An engine with a snapshot's objects; `pending` are the pods to place, oldest first.

    All pods have the groups that the engine derives for them. `others` are pods that the engine
    does not place: finished ones, and those of another scheduler.
    """

    engine: Engine
    now: float
    bound: tuple[Pod, ...]
    pending: tuple[Pod, ...]
    notices: tuple[str, ...]
    others: tuple[Pod, ...] = ()


def staged(snapshot: Snapshot, setup: Setup, options: AnswerOptions) -> StagedEngine:
    """Build an engine with the objects of `snapshot`; InputError names an object it rejects."""
    snapshot = with_derived_groups(snapshot, setup.loaded)
    engine = build_engine(setup, options, snapshot.release)
    now = snapshot.taken_at if options.now is None else options.now
    faults: list[Exception] = []
    reported: list[str] = []
    engine.report_to(on_fault=lambda _plugin, _point, error: faults.append(error))

    def deliver(kind: str, obj: Any, key: str, at: float = now) -> None:
        _deliver(engine, Watched(kind, "ADDED", obj), at, faults, snapshot.place(kind, key))
        reported.extend(f"{kind} {key}: {one}" for one in faults if type(one) is TrellisError)

    engine.reserve_nodes(len(snapshot.nodes))
    for kind, obj in _with_namespaces(snapshot):
        meta = obj.metadata
        deliver(kind, obj, f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name)
    for node in snapshot.nodes:
        deliver("Node", node, node.key)
    for pod in (*snapshot.bound, *snapshot.ended):
        deliver("Pod", pod, pod.key)
    # A provisioner has rejected these by now, or will: no pod could use the claims for ever.
    for event in VolumeController(engine.cluster).misdirected():
        engine.handle(event, now)
    pending, notices = _pending(snapshot, engine)
    pending = _with_claims(engine, pending, deliver)
    for pod in pending:
        created = parse_rfc3339(pod.metadata.creation_timestamp)
        deliver("Pod", pod, pod.key, now if created is None else min(created, now))
    notices += skipped_extenders(setup.loaded.scheduler.extenders, pending)
    known = {pod.metadata.uid for pod in pending}
    others = [*snapshot.ended, *(one for one in snapshot.unbound if one.metadata.uid not in known)]
    notices += (*reported, *snapshot.notices)
    return StagedEngine(engine, now, snapshot.bound, pending, notices, tuple(others))


def _with_namespaces(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a snapshot, with the namespaces as in an API server."""
    found: list[Namespace] = []
    for kind, obj in snapshot.objects:
        if isinstance(obj, Namespace):
            found.append(obj)
        else:
            yield kind, obj
    for one in admission.namespaces(found, (*snapshot.bound, *snapshot.unbound)):
        yield "Namespace", one


def _with_claims(
    engine: Engine, pending: tuple[Pod, ...], deliver: Callable[[str, Any, str], None]
) -> tuple[Pod, ...]:
    """Create the claims from templates that pods name, as the claim controller would.

    Return the pods.
    """
    templates = engine.view.objects(TEMPLATE)
    if not templates:
        return pending
    groups: dict[str, WorkloadGroup] = {}
    for kind in WORKLOAD_GROUPS:
        described = engine.view.objects(kind.kind)
        for group, claims in group_claims_made(
            list(described.values()), kind.api_version, templates
        ):
            key = object_key(group)
            groups.setdefault(key, group)
            if claims:
                deliver(kind.kind, group, key)
            for claim in claims:
                deliver(CLAIM, claim, claim.key)
    found = []
    for pod, claims in claims_made(pending, templates, groups):
        for claim in claims:
            deliver(CLAIM, claim, claim.key)
        found.append(pod)
    return tuple(found)


def take_apart(stage: StagedEngine) -> None:
    """Free a stage's engine after its last use.

    Its parts, plugins and trackers refer to each other in cycles. Collecting those would take a
    fifth of a small simulation; without their fields they are freed at once.
    """
    stage.engine.take_apart()


def build_engine(setup: Setup, options: AnswerOptions, release: Release | None = None) -> Engine:
    """Return the engine of a setup, without its extenders.

    `release` is that of the snapshot; the options' or the setup's take precedence.
    """
    known = options.release or setup.loaded.release or release
    loaded = replace(setup.loaded, release=known)
    settings = msgspec.structs.replace(
        engine_settings(loaded, seed=options.seed), ties=options.ties, extenders=()
    )
    return Engine(loaded.profiles, setup.registry, settings=settings, meters=setup.meters)


def _deliver(engine: Engine, event: Event, at: float, faults: list[Exception], where: str) -> None:
    """Report one event to the engine; an exception is reported as the object's fault."""
    del faults[:]
    try:
        engine.handle(event, at)
    except Exception as error:  # a plugin's tracker may raise anything for an object
        raise ObjectError(f"cannot be used: {error}", where=where) from error
    for fault in faults:
        if isinstance(fault, InputError):
            raise ObjectError(fault.message, where=where) from fault


def _pending(snapshot: Snapshot, engine: Engine) -> tuple[tuple[Pod, ...], tuple[str, ...]]:
    """Return the pods that a profile serves, and notices about the others."""
    pending: list[Pod] = []
    foreign: dict[str, int] = {}
    for pod in snapshot.unbound:
        name = pod.spec.scheduler_name
        if name in engine.profiles:
            pending.append(pod)
        elif pod.metadata.uid in snapshot.given:
            pending.append(_given(pod, engine, snapshot.place("Pod", pod.key)))
        else:
            foreign[name] = foreign.get(name, 0) + 1
    profiles = ", ".join(engine.profiles)
    return tuple(pending), tuple(
        f"left alone: {count} unbound pods of schedulerName {name} (the profiles are {profiles})"
        for name, count in foreign.items()
    )


def _given(pod: Pod, engine: Engine, where: str) -> Pod:
    """Return an additional pod with a schedulerName: the first profile's if it has none."""
    name = pod.spec.scheduler_name
    if name != DEFAULT_SCHEDULER:
        hint = did_you_mean(name, engine.profiles)
        raise ObjectError(f'spec.schedulerName: no profile is called "{name}"{hint}', where=where)
    first = next(iter(engine.profiles))
    return replace(pod, spec=replace(pod.spec, scheduler_name=first))
