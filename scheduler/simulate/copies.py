"""The shapes of `capacity`: one pod, or one group with its objects, and copies of it.

Pure functions.
"""

from collections.abc import Iterable, Sequence
from itertools import count, islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError, ObjectError
from scheduler.groups.sources import kueue
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.workloads.owned import controller_of

MOST_PODS: Final = 10_000


class CopiedShape(msgspec.Struct, frozen=True):
    """The shape to copy: its pods, how many are placed together, and the objects of their group.

    `needed` is 0 for a single pod; `objects` are (kind, struct).
    """

    name: str
    pods: tuple[Pod, ...]
    needed: int = 0
    objects: tuple[tuple[str, Any], ...] = ()

    @property
    def most(self) -> int:
        """Return the maximum number of copies."""
        return MOST_PODS // len(self.pods)

    def copy(self, number: int) -> tuple[tuple[tuple[str, Any], ...], tuple[Pod, ...]]:
        """Return the objects and the pods of one copy."""
        # Of equal width, so that the order of names equals the order of numbers.
        end = f"{number:0{len(str(MOST_PODS))}}"
        if not self.needed:
            return (), tuple(_pod(pod, end) for pod in self.pods)
        group = f"{self.name.partition('/')[2]}-{end}"
        objects = tuple(
            (kind, sources.BY_KIND[kind].renamed(obj, group)) for kind, obj in self.objects
        )
        return objects, tuple(_pod(sources.moved(pod, group), end) for pod in self.pods)


def shape_of(snapshot: Snapshot) -> CopiedShape:
    """Return the shape: the pods given in addition to the snapshot. InputError unless they are one
    pod or one group.
    """
    given = [pod for pod in snapshot.unbound if pod.metadata.uid in snapshot.given]
    described = set[str]().union(
        *(sources.described_by(kind, obj) for kind, obj in snapshot.objects)
    )
    keys = {sources.group_of(pod) for pod in given}
    keys = {key if key in described or not sources.is_by_object(key) else "" for key in keys}
    if keys == {""} and len(given) > 1 and len(set(map(_workload, given))) == 1:
        given = given[:1]
    if len(keys) != 1 or (not all(keys) and len(given) != 1):
        raise InputError(
            f"one pod that is not bound is needed for the shape, not {len(given)}; "
            "give one Pod, one workload, or the members of one group"
        )
    (key,) = keys
    return _group(snapshot, key, given) if key else CopiedShape(given[0].key, tuple(given))


def _workload(pod: Pod) -> object:
    """Return the key of a pod's controller; the uid of a pod without one."""
    owner = controller_of(pod)
    return pod.metadata.uid if owner is None else (owner.kind, pod.metadata.namespace, owner.name)


def _group(snapshot: Snapshot, key: str, members: Sequence[Pod]) -> CopiedShape:
    where = snapshot.place("Pod", members[0].key)
    if key.startswith(kueue.PREFIX):
        return _by_pods(members, where)
    described = sources.in_order(
        (kind, obj)
        for kind, obj in snapshot.objects
        if kind in sources.BY_KIND and sources.BY_KIND[kind].key(obj) == key
    )
    if not described:
        raise InputError(sources.missing(key, lambda _: False), where=where)
    spec = sources.read(*described[0])
    if isinstance(spec, ObjectError):
        raise InputError(spec.message, where=where)
    if sources.parent(*described[0]):
        raise InputError(
            f"the group {spec.key} is in another group: it is placed with that alone", where=where
        )
    if len(members) < spec.size:
        raise InputError(
            f"the group {spec.key} needs {spec.size} members, {len(members)} are given", where=where
        )
    return CopiedShape(spec.key, tuple(members), spec.size, tuple(described))


def _by_pods(members: Sequence[Pod], where: str) -> CopiedShape:
    """Return a group described by its pods."""
    try:
        spec = kueue.read(members[0])
        kueue.check(members)
    except ObjectError as error:
        raise InputError(error.message, where=where) from error
    if len(members) < spec.size:
        raise InputError(
            f"the group {spec.key} needs {spec.size} members, {len(members)} are given", where=where
        )
    return CopiedShape(spec.key, tuple(members), spec.size)


def _pod(pod: Pod, end: str) -> Pod:
    meta = replace(
        pod.metadata, name=f"{pod.metadata.name}-{end}", uid=f"{pod.metadata.uid}-capacity-{end}"
    )
    return replace(pod, metadata=meta, spec=replace(pod.spec, preemption_policy="Never"))


def with_copies(snapshot: Snapshot, shape: CopiedShape, number: int) -> Snapshot:
    """Return `snapshot` with `number` copies of `shape` as its only pending pods."""
    objects, pods = list(snapshot.objects), list[Pod]()
    taken = {pod.key for pod in snapshot.bound}
    free = (
        found for found in map(shape.copy, count(1)) if taken.isdisjoint(p.key for p in found[1])
    )
    for described, copies in islice(free, number):
        objects += described
        pods += copies
    uids = frozenset(pod.metadata.uid for pod in pods)
    return replace(snapshot, objects=tuple(objects), unbound=tuple(pods), given=uids)


def fitting(shape: CopiedShape, placed: Iterable[str]) -> int:
    """Return how many copies fit, from the names of their pods that were placed."""
    by_copy: dict[str, int] = {}
    for name in placed:
        end = name.rpartition("-")[2]
        by_copy[end] = by_copy.get(end, 0) + 1
    return sum(number >= max(1, shape.needed) for number in by_copy.values())
