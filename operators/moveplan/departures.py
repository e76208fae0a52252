"""Which component ended a pod whose destination is reserved: this plan's eviction, or another.

The process that saw the pod before knows whether it evicted it. After a restart, and for other
components, the cause is read from the pod's DisruptionTarget condition and from its owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from operators.moveplan.owners import Owner
from scheduler.base.clock import parse_rfc3339
from scheduler.objects.moves.moveplan import PlannedMove
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
    is_sent: bool | None,
) -> Departure:
    """Return why the pod of a move leaves.

    `pod` is None if it is gone, `others` are its owner's other pods. `is_sent` is whether this
    process has evicted it, None if that may have been the process before a restart.
    """
    if is_sent:
        return Departure(True)
    mark = None if pod is None else pod.condition("DisruptionTarget")
    if mark is not None and mark.status == "True":
        if is_sent is False or mark.reason != BY_EVICTION_API:
            return Departure(False, f"{mark.reason}: {mark.message}".rstrip(": "))
        text = "the Eviction API was called by this plan before a restart, or by another client"
        return Departure(True, text)
    name = f"{move.owner.kind} {move.owner.name}"
    older = [one for one in others if not one.is_terminating and _is_older(one, move)]
    replicas = None if owner is None else owner.spec.replicas
    if replicas is not None and len(older) >= replicas:
        text = f"{name} wants {replicas} {'pod' if replicas == 1 else 'pods'} now"
        return Departure(False, f"{text} (a rollout or a scale-down)")
    if owner is not None and not owner.exists:
        return Departure(False, f"{name} is deleted")
    if pod is None and is_sent is None:
        text = "by this plan before a restart, or deleted by another client"
        return Departure(True, text)
    revision = "" if owner is None else owner.status.update_revision
    if revision and pod is not None and pod.metadata.labels.get(REVISION, revision) != revision:
        return Departure(False, f"{name} rolls out revision {revision}")
    return Departure(False, f"{name} or another client deleted it, without an eviction")


def is_owned(move: PlannedMove, pod: Pod) -> bool:
    """Return whether the owner of a move is the controller of a pod."""
    owners = pod.metadata.owner_references
    return any(one.controller and one.uid == move.owner.uid for one in owners)


def _is_older(pod: Pod, move: PlannedMove) -> bool:
    """Return whether a pod is older than the reservation, so that it is no replacement."""
    created = parse_rfc3339(pod.metadata.creation_timestamp)
    reserved = parse_rfc3339(move.since)
    return created is not None and reserved is not None and created < reserved
