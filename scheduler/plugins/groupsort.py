"""`GroupSort`: the one order of the queue, with or without groups; and QOSSort, its plainest setting.

What stands in the queue is an entity: a group's active pods together, or a single pod. Entities go by
highest priority, best quality-of-service class where that is asked for, earliest queue time, name; the
pods of a group by `place`. Both parts are keys, so the whole is a strict weak order: a pod never
overtakes one of its own group because of a third.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

from scheduler.framework.args import Args, NoArgs
from scheduler.framework.plugin import Plugin
from scheduler.objects.pod import Container, Pod
from scheduler.objects.quantity import milli_quantity
from scheduler.state.change import Change

ArgsT = TypeVar("ArgsT", bound=Args)
Key = tuple[Any, ...]

GUARANTEED, BURSTABLE, BEST_EFFORT = 0, 1, 2
_CLASSES = {"Guaranteed": GUARANTEED, "Burstable": BURSTABLE, "BestEffort": BEST_EFFORT}
_COMPUTE = ("cpu", "memory")


class Queued(Protocol):
    """What the order looks at; times are in seconds."""

    @property
    def pod(self) -> Pod: ...
    @property
    def priority(self) -> int: ...
    @property
    def queued_at(self) -> float: ...


class GroupSort(Plugin[ArgsT], Generic[ArgsT]):
    """Orders the queue by entities; subclasses say which pods form one and how they stand inside.

    The queue tells by `enter` and `leave` which pods are active. A pod that it has not told of is
    judged as if it were the only one of its group.
    """

    counts_qos = False

    def __init__(self, args: ArgsT, handle: Any) -> None:
        super().__init__(args, handle)
        self._entities: dict[str, _Entity] = {}
        self._inside: dict[str, tuple[str, Key]] = {}

    # For subclasses.

    def entity(self, _queued: Queued) -> str:
        """Return the name of the pod's group; "" for a pod that stands alone."""
        return ""

    def place(self, queued: Queued) -> Key:
        """Return the key that orders the pods of a group."""
        return -queued.priority, queued.queued_at, queued.pod.metadata.uid

    def resorted_by(self, _change: Change) -> Callable[[Pod], bool] | None:
        """Return which pods have another key after a change of the cluster; None for none at all."""
        return None

    # The order.

    def less(self, first: Queued, second: Queued) -> bool:
        """Whether `first` is tried before `second`; False for equals."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: Queued) -> Key:
        """Return the key that orders the queue as `less` does."""
        name = self.entity(queued)
        if not name:
            return *self.urgency(queued), "", ()
        entity = self._entities.get(name)
        own = self.urgency(queued)
        return *(entity.best(own) if entity is not None else own), name, self.place(queued)

    def urgency(self, queued: Queued) -> Key:
        """Return what a pod contributes to the key of its entity; smaller goes first."""
        qos = qos_class(queued.pod) if self.counts_qos else GUARANTEED
        return -queued.priority, qos, queued.queued_at

    def rank(self, name: str) -> Key | None:
        """Return the key of a group, None when none of its pods is active."""
        entity = self._entities.get(name)
        return (*entity.best(), name) if entity is not None else None

    # What the queue tells.

    def enter(self, queued: Queued) -> str:
        """Take in a pod that has become active; return the name of its entity."""
        name = self.entity(queued)
        if name:
            own = self.urgency(queued)
            self._entities.setdefault(name, _Entity()).add(own)
            self._inside[queued.pod.metadata.uid] = (name, own)
        return name

    def leave(self, queued: Queued) -> None:
        """Forget a pod that is active no more."""
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

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts = (_Least(), _Least(), _Least())

    @property
    def is_empty(self) -> bool:
        return not self._parts[0].numbers

    def add(self, own: Key) -> None:
        for part, value in zip(self._parts, own, strict=True):
            part.add(value)

    def drop(self, own: Key) -> None:
        for part, value in zip(self._parts, own, strict=True):
            part.drop(value)

    def best(self, beside: Iterable[Any] | None = None) -> Key:
        """Return the best of each part, those of a pod `beside` them included."""
        least = tuple(part.least() for part in self._parts)
        return least if beside is None else tuple(map(min, least, beside))


class _Least:
    """The least of a multiset of numbers."""

    __slots__ = ("_heap", "numbers")

    def __init__(self) -> None:
        self.numbers: Counter[float] = Counter()
        self._heap: list[float] = []

    def add(self, number: float) -> None:
        self.numbers[number] += 1
        if self.numbers[number] == 1:
            heapq.heappush(self._heap, number)

    def drop(self, number: float) -> None:
        self.numbers[number] -= 1
        if not self.numbers[number]:
            del self.numbers[number]

    def least(self) -> float:
        heap = self._heap
        while heap[0] not in self.numbers:
            heapq.heappop(heap)
        return heap[0]


def qos_class(pod: Pod) -> int:
    """Return the quality-of-service class: as recorded in the status, else worked out."""
    recorded = _CLASSES.get(pod.status.qos_class)
    if recorded is not None:
        return recorded
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    return _computed(tuple(map(_amounts, containers)))


def _amounts(container: Container) -> tuple[tuple[str, str], tuple[str, str]]:
    resources = container.resources
    requests, limits = resources.requests, resources.limits
    cpu, memory = ((str(requests.get(name, "")), str(limits.get(name, ""))) for name in _COMPUTE)
    return cpu, memory


@lru_cache(maxsize=4096)
def _computed(containers: tuple[tuple[tuple[str, str], tuple[str, str]], ...]) -> int:
    """Return the class of containers, each (request, limit) of cpu and of memory as text."""
    some, full = False, bool(containers)
    for container in containers:
        for request, limit in container:
            asked, bound = _positive(request), _positive(limit)
            some = some or bool(asked or bound)
            full = full and bound is not None and (asked is None or asked == bound)
    if not some:
        return BEST_EFFORT
    return GUARANTEED if full else BURSTABLE


def _positive(text: str) -> int | None:
    amount = milli_quantity(text) if text else 0
    return amount if amount > 0 else None
