"""The order in which the queue pops pods, as defined by the profiles' sort plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any

from scheduler.engine.queue.active import ActiveQueue
from scheduler.engine.queue.groupactive import GroupedActiveQueue
from scheduler.engine.queue.pod import QueuedPod
from scheduler.engine.queue.queues import Active, SortKey
from scheduler.engine.queue.turnsactive import TurnsActiveQueue
from scheduler.framework.profile import Profile

Complain = Callable[[str, str, Exception], None]


def sort_key(profiles: Mapping[str, Profile], complain: Complain) -> SortKey:
    """Return the order of the queue; all profiles share one sort plugin (config checks that).

    Pods that a plugin's `less` cannot compare without raising are ordered as PrioritySort does.
    """
    sorters = [profile.less[0].plugin for profile in profiles.values() if profile.less]
    if not sorters:
        return _by_priority
    sorter: Any = sorters[0]
    if sorter.serves("sort_key"):
        key: SortKey = sorter.sort_key
        return key

    def compare(first: QueuedPod, second: QueuedPod) -> int:
        try:
            return -1 if sorter.less(first, second) else int(sorter.less(second, first))
        except Exception as error:  # noqa: BLE001 - an order is needed whatever a plugin does
            complain(sorter.name, "QueueSort", error)
            one, other = _by_priority(first), _by_priority(second)
            return -1 if one < other else int(other < one)

    return cmp_to_key(compare)


def active_queue(profiles: Mapping[str, Profile]) -> Active:
    """Return the active queue that the sort plugin requires: by groups, by turns, or plain."""
    for profile in profiles.values():
        for bound in profile.less:
            sorter: Any = bound.plugin
            if sorter.serves("resorted_by"):
                return GroupedActiveQueue(sorter)
            if sorter.serves("taking_turns"):
                return TurnsActiveQueue(sorter.taking_turns)
    return ActiveQueue()


def _by_priority(queued: QueuedPod) -> tuple[int, float]:
    return -queued.priority, queued.queued_at
