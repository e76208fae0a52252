"""`capacity`: how many more pods of one shape fit, found by placing copies with the engine.

The copies go through `simulate`, one after the other, as pods that never preempt: what is counted is
room that is free, not room that others would have to leave. Pods that wait already are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count, islice
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.objects.pod import Pod
from scheduler.plugins.groups.sources.registry import group_of
from scheduler.whatif.records import API_VERSION, PodResult, Result
from scheduler.whatif.simulate import simulate
from scheduler.whatif.snapshot import Snapshot
from scheduler.whatif.stage import Options, Setup

DEFAULT_LIMIT: Final = 1_000
MAX_LIMIT: Final = 10_000


class NodeShare(msgspec.Struct, frozen=True):
    """How many of the copies a node takes."""

    name: str
    pods: int


class Capacity(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer of `capacity`: its JSON is a public contract.

    `fits` copies of `pod` (`namespace/name`) are placed by the engine, on `nodes` (by name). With
    `limited`, as many were tried and more may fit; else the next one does not, and `message` is what
    its PodScheduled condition would say.
    """

    api_version: str = API_VERSION
    kind: str = "Capacity"
    pod: str
    fits: int
    limited: bool
    nodes: tuple[NodeShare, ...]
    message: str


def capacity(
    snapshot: Snapshot, setup: Setup, limit: int = DEFAULT_LIMIT, options: Options | None = None
) -> Capacity:
    """Count how many pods like the one given apart from `snapshot` fit, up to `limit` (1 to 10,000).

    Raises InputError when not exactly one pod is given, or when it cannot be judged by itself.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"the limit is a number from 1 to {MAX_LIMIT}, not {limit}")
    shape = _shape(snapshot)
    found = simulate(with_copies(snapshot, shape, limit), setup, options).pods
    placed = [pod for pod in found if pod.result is Result.SCHEDULED]
    refused = next((pod for pod in found if pod.result is not Result.SCHEDULED), None)
    if refused is not None:
        _check_judged(refused, snapshot.place("Pod", shape.key))
    shares = Counter(pod.node or "" for pod in placed)
    return Capacity(
        pod=shape.key,
        fits=len(placed),
        limited=refused is None,
        nodes=tuple(NodeShare(name, shares[name]) for name in sorted(shares)),
        # That copies evict nobody is how they are counted, not why the next one does not fit.
        message="" if refused is None else refused.message.partition(" preemption: ")[0],
    )


def with_copies(snapshot: Snapshot, shape: Pod, number: int) -> Snapshot:
    """Return `snapshot` with `number` copies of `shape` for its only pending pods."""
    taken = {pod.key for pod in snapshot.bound}
    copies = tuple(
        islice((one for one in map(_copier(shape), count(1)) if one.key not in taken), number)
    )
    uids = frozenset(pod.metadata.uid for pod in copies)
    return replace(snapshot, unbound=copies, given=uids)


def _copier(shape: Pod) -> Callable[[int], Pod]:
    spec = replace(shape.spec, preemption_policy="Never")
    width = len(str(MAX_LIMIT))

    def copy(number: int) -> Pod:
        # Of one width, so that names and numbers sort alike.
        end = f"{number:0{width}}"
        meta = replace(
            shape.metadata,
            name=f"{shape.metadata.name}-{end}",
            uid=f"{shape.metadata.uid}-capacity-{end}",
        )
        return replace(shape, metadata=meta, spec=spec)

    return copy


def _shape(snapshot: Snapshot) -> Pod:
    given = [pod for pod in snapshot.unbound if pod.metadata.uid in snapshot.given]
    if len(given) != 1:
        raise InputError(
            f"one pod that is not bound is needed for the shape, not {len(given)}; "
            "give one Pod, or a workload of one replica"
        )
    shape = given[0]
    group = group_of(shape)
    if group:
        raise InputError(
            f"a member of the group {group} cannot be counted by itself: groups are placed whole; "
            "leave the group out of the shape",
            where=snapshot.place("Pod", shape.key),
        )
    return shape


def _check_judged(refused: PodResult, where: str) -> None:
    """Refuse a shape whose copies were never judged by the nodes: none of them says how many fit."""
    if refused.result is not Result.UNSCHEDULABLE:
        said = f": {refused.message}" if refused.message else ""
        raise InputError(
            f"cannot be counted by itself, a copy of it ends as {refused.result.value}{said}",
            where=where,
        )
