"""Which component ended a pod whose destination is reserved: this plan's eviction, or another.

An eviction by the plan is known in the process that sent it. After a restart, the pod's
DisruptionTarget condition and the size of its owner show the cause, as far as objects record it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from operators.moveplan.owners import Owner
from scheduler.base.clock import parse_rfc3339
from scheduler.objects.moveplan import PlannedMove
from scheduler.objects.pod import Pod

BY_EVICTION_API = "EvictionByEvictionAPI"
REVISION = "controller-revision-hash"


class Departure(NamedTuple):
    """Why a pod left before the plan recorded its eviction.

    `is_evicted` is whether the plan may have evicted it; `text` is empty if it certainly did.
    """

    is_evicted: bool
    text: str = ""


def departure(
    move: PlannedMove,
    pod: Pod | None,
    owner: Owner | None,
    others: Iterable[Pod],
    sent: Collection[str],
) -> Departure:
    """Return why the pod of a move leaves.

    `pod` is None if it is gone, `others` are its owner's other pods, `sent` the uids of pods that
    this process has evicted.
    """
    if move.uid in sent:
        return Departure(True)
    mark = None if pod is None else pod.condition("DisruptionTarget")
    if mark is not None and mark.status == "True" and mark.reason != BY_EVICTION_API:
        return Departure(False, f"{mark.reason}: {mark.message}".rstrip(": "))
    if mark is not None and mark.status == "True":
        text = "the Eviction API was called by this plan before a restart, or by another client"
        return Departure(True, text)
    name = f"{move.owner.kind} {move.owner.name}"
    older = [one for one in others if not one.is_terminating and _is_older(one, move)]
    replicas = None if owner is None else owner.spec.replicas
    if replicas is not None and len(older) >= replicas:
        text = f"{name} wants {replicas} {'pod' if replicas == 1 else 'pods'} now"
        return Departure(False, f"{text} (a rollout or a scale-down)")
    if pod is None:
        text = "by this plan before a restart, or deleted by another client"
        return Departure(True, text)
    revision = "" if owner is None else owner.status.update_revision
    if revision and pod.metadata.labels.get(REVISION, revision) != revision:
        return Departure(False, f"{name} rolls out revision {revision}")
    return Departure(False, f"{name} or another client deleted it, without an eviction")


def is_owned(move: PlannedMove, pod: Pod) -> bool:
    """Return whether the owner of a move is the controller of a pod."""
    owners = pod.metadata.owner_references
    return any(one.controller and one.uid == move.owner.uid for one in owners)


def _is_older(pod: Pod, move: PlannedMove) -> bool:
    """Return whether a pod existed before the reservation: it replaces none since."""
    created = parse_rfc3339(pod.metadata.creation_timestamp)
    reserved = parse_rfc3339(move.since)
    return created is not None and reserved is not None and created < reserved
