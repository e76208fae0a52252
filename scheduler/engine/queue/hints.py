"""Which waiting pods a change may help.

Unschedulable pods are kept by the plugins that rejected them, gated ones by the plugin that holds
them back. A change reaches the plugins that read one of its facts; their hints have the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import Profile
from scheduler.state import facts
from scheduler.state.change import Change

# Rejecting "plugins" without a class: no node at all, an extender, a preemption in our own memory. Of
# the latter two nobody knows what would help, so everything may.
NO_NODES = "NoNodes"
EXTENDER = "Extender"
PREEMPTED = "Preempted"
BY_ANYTHING = (EXTENDER, PREEMPTED)

Complain = Callable[[str, str, Exception], None]
# Plugin, event, how long its hint took in seconds, and what it said.
Hinted = Callable[[str, str, float, str], None]


class UnschedulablePods:
    """The unschedulable pods, findable by what may help them."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        complain: Complain,
        *,
        hinted: Hinted | None = None,
        now_s: Callable[[], float] = float,
    ) -> None:
        self._profiles = profiles
        self._complain = complain
        self._hinted = hinted
        self._now_s = now_s
        self._parked: dict[str, dict[str, QueuedPod]] = {}
        self._all: dict[str, QueuedPod] = {}

    @cached_property
    def _readers(self) -> dict[str, tuple[str, ...]]:
        # Made when a pod waits: in a small simulation, as a rule, none does.
        return _readers(self._profiles)

    def park(self, queued: QueuedPod) -> None:
        """Keep a rejected or gated pod until a change may help it."""
        self._all[queued.uid] = queued
        for plugin in _held_by(queued):
            self._parked.setdefault(plugin, {})[queued.uid] = queued

    def unpark(self, queued: QueuedPod) -> None:
        """Forget a pod that leaves its place."""
        self._all.pop(queued.uid, None)
        for plugin in _held_by(queued):
            self._parked.get(plugin, {}).pop(queued.uid, None)

    def parked(self) -> list[QueuedPod]:
        """Return all unschedulable and gated pods in the order they came."""
        return list(self._all.values())

    def count(self, profile: str, plugin: str) -> int:
        """Return how many pods of a profile a plugin keeps waiting."""
        return sum(q.profile == profile for q in self._parked.get(plugin, {}).values())

    def helped_by(self, change: Change) -> list[QueuedPod]:
        """Return the pods that a change may help, in the order they came."""
        if not self._all:
            return []
        found: dict[str, QueuedPod] = {}
        for plugin in self._plugins_reading(change.facts):
            for uid, queued in self._parked.get(plugin, {}).items():
                if uid not in found and self.may_help(queued, change):
                    found[uid] = queued
        return sorted(found.values(), key=lambda queued: queued.sequence)

    def may_help(self, queued: QueuedPod, change: Change) -> bool:
        """Whether a change touches what a rejecting plugin reads, and its hint agrees."""
        plugins = self._profiles[queued.profile].plugins
        for name in _held_by(queued):
            plugin = plugins.get(name)
            if plugin is None:
                if name in BY_ANYTHING or facts.NODE_ADDED in change.facts:
                    return True
            elif change.facts.intersection(plugin.reads) and self._hint(plugin, change, queued):
                return True
        return False

    def _hint(self, plugin: Plugin[Any], change: Change, queued: QueuedPod) -> bool:
        if not plugin.serves("hint"):
            return True
        started_s = self._now_s()
        helps, said = True, "Error"
        try:
            helps = plugin.hint(change, queued.pod)
            said = "Queue" if helps else "QueueSkip"
        except Exception as error:  # noqa: BLE001 - a broken hint must not lose a wake-up
            self._complain(plugin.name, "QueueingHint", error)
        if self._hinted is not None:
            self._hinted(plugin.name, change.label, self._now_s() - started_s, said)
        return helps

    def _plugins_reading(self, changed: Iterable[str]) -> list[str]:
        names: dict[str, None] = dict.fromkeys((*BY_ANYTHING, NO_NODES))
        for fact in sorted(changed):
            names.update(dict.fromkeys(self._readers.get(fact, ())))
        return list(names)


def _held_by(queued: QueuedPod) -> tuple[str, ...]:
    """Return the plugins that keep a pod waiting."""
    return (queued.gated_by,) if queued.gated_by else queued.rejected_by or (NO_NODES,)


def _readers(profiles: Mapping[str, Profile]) -> dict[str, tuple[str, ...]]:
    """Return fact → the names of the plugins that read it."""
    readers: dict[str, dict[str, None]] = {}
    for profile in profiles.values():
        for name, plugin in profile.plugins.items():
            for fact in plugin.reads:
                readers.setdefault(fact, {})[name] = None
    return {fact: tuple(names) for fact, names in readers.items()}
