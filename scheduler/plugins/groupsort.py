"""`GroupSort`: the order of the queue, with or without groups; and QOSSort, its simplest setting.

The queue orders entities: a group's active pods together, or a single pod. Entities are ordered by
highest priority, best quality-of-service class where configured, earliest queue time, and name; the
pods of a group by `place`. Both parts are keys, so the whole is a strict weak order: a pod of
another group never changes the order inside a group.
"""

import heapq
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from scheduler.framework import Args, Change, NoArgs, Plugin, Pod
from scheduler.objects.pod import Container
from scheduler.objects.quantity import milli_quantity

ArgsT = TypeVar("ArgsT", bound=Args)
Key = tuple[Any, ...]

GUARANTEED, BURSTABLE, BEST_EFFORT = 0, 1, 2
_CLASSES = {"Guaranteed": GUARANTEED, "Burstable": BURSTABLE, "BestEffort": BEST_EFFORT}
_Amount = int | float | str | None
_Amounts = tuple[_Amount, _Amount, _Amount, _Amount]  # request and limit of cpu, then of memory


class QueuedMember(Protocol):
    """The fields that the order reads; times are in seconds."""

    @property
    def pod(self) -> Pod: ...
    @property
    def priority(self) -> int: ...
    @property
    def queued_at(self) -> float: ...


class GroupSort(Plugin[ArgsT], Generic[ArgsT]):
    """Order the queue by entities.

    Subclasses define the group of a pod and the order inside a group. The queue reports active pods
    by `enter` and `leave`. An unreported pod is ordered as if it were the only one of its group.
    """

    counts_qos = False

    def __init__(self, args: ArgsT, handle: Any) -> None:
        super().__init__(args, handle)
        self._entities: dict[str, _Entity] = {}
        self._inside: dict[str, tuple[str, Key]] = {}

    # For subclasses.

    def group_and_key(self, _queued: QueuedMember) -> tuple[str, Key]:
        """Return the name of the pod's group and the key inside it.

        '' for a pod without a group.
        """
        return "", ()

    def resorted_by(self, _change: Change) -> Callable[[Pod], bool] | None:
        """Return a predicate for pods whose key a change of the cluster alters; None for no pod."""
        return None

    # The order.

    def less(self, first: QueuedMember, second: QueuedMember) -> bool:
        """Return whether `first` is scheduled before `second`; False for equals."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedMember) -> Key:
        """Return a sort key with the order of `less`."""
        name, place = self.group_and_key(queued)
        own = self.urgency(queued)
        entity = self._entities.get(name) if name else None
        return *(entity.best_beside(own) if entity is not None else own), name, place

    def urgency(self, queued: QueuedMember) -> Key:
        """Return the pod's contribution to the key of its entity; smaller goes first."""
        qos = qos_class(queued.pod) if self.counts_qos else GUARANTEED
        return -queued.priority, qos, queued.queued_at

    def rank(self, name: str) -> Key | None:
        """Return the key of a group, None when none of its pods is active."""
        entity = self._entities.get(name)
        return None if entity is None else (*entity.best(), name)

    # Reports of the queue.

    def enter(self, queued: QueuedMember) -> tuple[str, Key, Key]:
        """Add a pod that became active; return its group, its key there, and its entity's key."""
        name, place = self.group_and_key(queued)
        own = self.urgency(queued)
        if not name:
            return "", (), (*own, "")
        entity = self._entities.get(name)
        if entity is None:
            entity = self._entities[name] = _Entity()
        entity.add(own)
        self._inside[queued.pod.metadata.uid] = (name, own)
        return name, place, (*entity.best(), name)

    def leave(self, queued: QueuedMember) -> None:
        """Remove a pod that is no longer active."""
        name, own = self._inside.pop(queued.pod.metadata.uid, ("", ()))
        if name:
            entity = self._entities[name]
            entity.drop(own)
            if entity.is_empty:
                del self._entities[name]


class QOSSort(GroupSort[NoArgs]):
    """Order pods by priority, then by quality-of-service class, then by queue time."""

    counts_qos = True


class _Entity:
    """The best of each part of its pods' keys."""

    __slots__ = ("_best", "_parts")

    def __init__(self) -> None:
        self._parts = (_Least(), _Least(), _Least())
        self._best: Key | None = None

    @property
    def is_empty(self) -> bool:
        return not self._parts[0].numbers

    def add(self, own: Key) -> None:
        for part, value in zip(self._parts, own, strict=True):
            part.add(value)
        if self._best is not None:
            self._best = tuple(map(min, self._best, own))

    def drop(self, own: Key) -> None:
        for part, value in zip(self._parts, own, strict=True):
            if part.drop(value):
                self._best = None

    def best(self) -> Key:
        """Return the best of each part."""
        if self._best is None:
            self._best = tuple(part.least() for part in self._parts)
        return self._best

    def best_beside(self, own: Key) -> Key:
        """Return the best of each part, including one more pod."""
        return tuple(map(min, self.best(), own))


class _Least:
    """The minimum of a multiset of numbers."""

    __slots__ = ("_heap", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[float, int] = {}
        self._heap: list[float] = []

    def add(self, number: float) -> None:
        uses = self.numbers.get(number, 0)
        self.numbers[number] = uses + 1
        if not uses:
            heapq.heappush(self._heap, number)

    def drop(self, number: float) -> bool:
        """Remove one number; return whether it was the last copy."""
        uses = self.numbers[number]
        if uses > 1:
            self.numbers[number] = uses - 1
            return False
        del self.numbers[number]
        return True

    def least(self) -> float:
        heap = self._heap
        while heap[0] not in self.numbers:
            heapq.heappop(heap)
        return heap[0]


def qos_class(pod: Pod) -> int:
    """Return the quality-of-service class: as recorded in the status, else computed."""
    recorded = _CLASSES.get(pod.status.qos_class)
    if recorded is not None:
        return recorded
    spec = pod.spec
    containers = (
        (*spec.init_containers, *spec.containers) if spec.init_containers else spec.containers
    )
    return _computed(tuple([_amounts(container) for container in containers]))


def _amounts(container: Container) -> _Amounts:
    requests, limits = container.resources.requests, container.resources.limits
    return requests.get("cpu"), limits.get("cpu"), requests.get("memory"), limits.get("memory")


@lru_cache(maxsize=4096)
def _computed(containers: tuple[_Amounts, ...]) -> int:
    """Return the class of containers, each (request, limit) of cpu and of memory as written."""
    some, full = False, bool(containers)
    for cpu_request, cpu_limit, memory_request, memory_limit in containers:
        for request, limit in ((cpu_request, cpu_limit), (memory_request, memory_limit)):
            requested, bound = _positive(request), _positive(limit)
            some = some or bool(requested or bound)
            full = full and bound is not None and (requested is None or requested == bound)
    if not some:
        return BEST_EFFORT
    return GUARANTEED if full else BURSTABLE


def _positive(amount: _Amount) -> int | None:
    milli = milli_quantity(amount) if amount else 0
    return milli if milli > 0 else None
