"""`capacity`: how many more pods or groups of one shape fit, found by placing copies with the
engine.

The copies go through `simulate`, one after the other, as pods that never preempt: only free
capacity counts. Pending pods are left out.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.base.text import natural
from scheduler.simulate.copies import MOST_PODS, fitting, shape_of, with_copies
from scheduler.simulate.offers import GoalCheck
from scheduler.simulate.records import API_VERSION, PodResult, Result
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.changes import NodeChanges, changed
from scheduler.snapshot.snapshot import Snapshot

DEFAULT_LIMIT: Final = 1_000


class NodeShare(msgspec.Struct, frozen=True):
    """The number of copies' pods on a node."""

    name: str
    pods: int


class Capacity(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer of `capacity`: its JSON is a public contract.

    `fits` copies of `pod` (`namespace/name`; the first member where a `group` is counted) are
    placed by the engine, on `nodes` (by name). `members` is the group's number of pods; both are
    omitted for single pods, `notices` if empty. With `limited`, no more were tried and more may
    fit; otherwise the next one does not fit, and `message` is that of its PodScheduled condition.
    """

    api_version: str = API_VERSION
    kind: str = "Capacity"
    pod: str
    group: str | UnsetType = UNSET
    members: int | UnsetType = UNSET
    fits: int
    limited: bool
    nodes: tuple[NodeShare, ...]
    message: str
    notices: tuple[str, ...] | UnsetType = UNSET


def capacity(
    snapshot: Snapshot,
    setup: Setup,
    limit: int = DEFAULT_LIMIT,
    options: AnswerOptions | None = None,
    changes: NodeChanges | None = None,
) -> Capacity:
    """Count how many copies of the additionally given pod or group fit, up to `limit`.

    The limit is 1 to 10,000; it never exceeds 10,000 pods. Pods of nodes that `changes` remove are
    placed first. Raises InputError when neither one pod nor the members of one group are given, or
    when the shape cannot be evaluated by itself.
    """
    if not 1 <= limit <= MOST_PODS:
        raise InputError(f"what is counted to is a number from 1 to {MOST_PODS}, not {limit}")
    shape = shape_of(snapshot)
    after, notices = _changed(snapshot, setup, options, changes)
    most = min(limit, shape.most)
    # All copies are equal: after the first infeasible one, no further copy fits.
    copies = with_copies(after, shape, most)
    found = simulate(copies, setup, options, stops_at_refusal=True).pods
    placed = [pod for pod in found if pod.result is Result.SCHEDULED]
    fits = fitting(shape, (pod.name for pod in placed))
    refused = None
    if fits < most:
        refused = next(pod for pod in found if pod.result is not Result.SCHEDULED)
        _check_filtered(refused, snapshot.place("Pod", shape.pods[0].key))
    shares = Counter(pod.node or "" for pod in placed)
    return Capacity(
        pod=shape.pods[0].key,
        group=shape.name if shape.needed else UNSET,
        members=len(shape.pods) if shape.needed else UNSET,
        fits=fits,
        limited=fits == most,
        nodes=tuple(NodeShare(name, shares[name]) for name in sorted(shares, key=natural)),
        message="" if refused is None else _filters_part(refused.message),
        notices=notices or UNSET,
    )


def _filters_part(message: str) -> str:
    """Return a pod's message without that of PostFilter: copies evict no pods and deallocate no
    claims.
    """
    before, preempting, _ = message.partition(" preemption: ")
    if preempting and before.endswith(","):
        # Another plugin ran before preemption, and the filters' message before that.
        return before.rpartition(". ")[0] + "."
    return before


def capacity_for(
    want: int,
    setup: Setup,
    options: AnswerOptions | None = None,
    changes: NodeChanges | None = None,
) -> GoalCheck:
    """Return a check that requires `want` copies to fit."""

    def check(snapshot: Snapshot) -> str:
        shape = shape_of(snapshot)
        if want > shape.most:
            text = f"of {shape.name} {shape.most} copies are counted at most, not {want}"
            raise InputError(text)
        found = capacity(snapshot, setup, want, options, changes)
        return "" if found.fits >= want else f"{found.fits} fit, the next one: {found.message}"

    return check


def _changed(
    snapshot: Snapshot, setup: Setup, options: AnswerOptions | None, changes: NodeChanges | None
) -> tuple[Snapshot, tuple[str, ...]]:
    """Return (the changed snapshot without pending pods, notices); pods of removed nodes are placed
    again.
    """
    alone = replace(snapshot, unbound=(), given=frozenset())
    if changes is None:
        return alone, ()
    after = changed(alone, changes)
    if not after.unbound:
        return after, ()
    found = simulate(after, setup, options).pods
    node_of = {f"{pod.namespace}/{pod.name}": pod.node for pod in found if pod.node}
    moved = tuple(
        replace(pod, spec=replace(pod.spec, node_name=node_of[pod.key]))
        for pod in after.unbound
        if pod.key in node_of
    )
    homeless = len(after.unbound) - len(moved)
    pods = "1 pod of these nodes has" if homeless == 1 else f"{homeless} pods of these nodes have"
    notices = (f"{pods} no other place",) if homeless else ()
    return replace(after, bound=(*after.bound, *moved), unbound=(), given=frozenset()), notices


def _check_filtered(refused: PodResult, where: str) -> None:
    """Reject a shape whose copies were never filtered by the nodes: their number is unknown."""
    if refused.result is not Result.UNSCHEDULABLE:
        reason = f": {refused.message}" if refused.message else ""
        raise InputError(
            f"cannot be counted by itself, a copy of it ends as {refused.result.value}{reason}",
            where=where,
        )
