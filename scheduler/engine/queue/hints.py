"""Which waiting pods a change may help.

Unschedulable pods are indexed by the plugins that rejected them, gated ones by the plugin that
gates them. A change reaches the plugins that read one of its facts; their hints decide. A hint runs
once for all pods with the same plugin key: for a hundred thousand that wait for the same resource,
a change that does not help costs as much as for one. Where very many kinds wait, a plugin that can
state what each needs runs its hint only for the kinds that may fit.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.plugin import EACH_POD, Plugin
from scheduler.framework.profile import Profile
from scheduler.state import facts
from scheduler.state.change import Change

# Rejecting "plugins" without a class: no nodes at all, an extender, a preemption in progress. The
# latter two have no hint, so every change may help.
NO_NODES = "NoNodes"
EXTENDER = "Extender"
PREEMPTED = "Preempted"
BY_ANYTHING = (EXTENDER, PREEMPTED)
# Up to this many kinds it is faster to run their hints than to compare their needs.
FEW = 64
# Pods can name any number of resources; those above this limit are not compared by `Needs`.
MOST_NAMES = 32
# No amount is larger, and no need is as large.
UNBOUNDED = 2**63 - 1

# (the minimum priority it applies to, the upper bound of each name's free amount; 0 for other
# names)
Chance = tuple[int, Mapping[str, int]]
Complain = Callable[[str, str, Exception], None]
# Plugin, event, the duration of its hint in seconds, and the result.
Hinted = Callable[[str, str, float, str], None]


class UnschedulablePods:
    """The unschedulable pods, indexed by the plugins whose hints can wake them."""

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
        # The pods by uid, by plugin and by the key that its hint uses.
        self._parked: dict[str, dict[Hashable, dict[str, QueuedPod]]] = {}
        self._needs: dict[str, Needs] = {}
        self._parked_under: dict[str, tuple[tuple[str, Hashable], ...]] = {}
        self._all: dict[str, QueuedPod] = {}

    @cached_property
    def _hinting(self) -> frozenset[str]:
        """The plugins with queueing hints, one per name."""
        plugins = (one for profile in self._profiles.values() for one in profile.plugins.items())
        return frozenset(name for name, plugin in plugins if plugin.serves("hint"))

    @cached_property
    def _knowing(self) -> dict[str, list[Plugin[Any]]]:
        """The plugins that compute the pods that a change may help, by name."""
        found: dict[str, list[Plugin[Any]]] = {}
        for profile in self._profiles.values():
            for name, plugin in profile.plugins.items():
                if plugin.serves("hinted"):
                    found.setdefault(name, []).append(plugin)
        return found

    @cached_property
    def _needing(self) -> dict[str, Plugin[Any]]:
        """The plugins that state pods' needs and the amounts available, one per name, since all
        profiles share the nodes.
        """
        plugins = (one for profile in self._profiles.values() for one in profile.plugins.items())
        return {name: plugin for name, plugin in plugins if plugin.serves("chances")}

    @cached_property
    def _readers(self) -> dict[str, tuple[str, ...]]:
        # Created when the first pod waits: in a small simulation usually none does.
        return _readers(self._profiles)

    def park(self, queued: QueuedPod) -> None:
        """Keep a rejected or gated pod until a change may help it."""
        uid = queued.uid
        self._all[uid] = queued
        places = self._parked_under[uid] = tuple(
            (name, self._kind(queued, name)) for name in _rejecting(queued)
        )
        for name, kind in places:
            pods = self._parked.setdefault(name, {}).setdefault(kind, {})
            if not pods and name in self._needing:
                # A pod without a key is a kind of its own, and its needs are unknown.
                needed = self._needing[name].needs(kind[2]) if isinstance(kind, tuple) else ()
                self._needs.setdefault(name, Needs()).add(kind, queued.priority, needed)
            pods[uid] = queued

    def unpark(self, queued: QueuedPod) -> None:
        """Remove a pod that leaves its place."""
        self._all.pop(queued.uid, None)
        for name, kind in self._parked_under.pop(queued.uid, ()):
            pods = self._parked[name][kind]
            del pods[queued.uid]
            if not pods:
                del self._parked[name][kind]
                if name in self._needs:
                    self._needs[name].drop(kind)

    def __len__(self) -> int:
        return len(self._all)

    def parked(self) -> Iterator[QueuedPod]:
        """Yield all unschedulable and gated pods in the order they came."""
        return iter(self._all.values())

    def count(self, profile: str, plugin: str) -> int:
        """Return how many pods of a profile a plugin keeps waiting."""
        kinds = self._parked.get(plugin, {}).values()
        return sum(queued.profile == profile for pods in kinds for queued in pods.values())

    def helped_by(self, change: Change) -> list[QueuedPod]:
        """Return the pods that a change may help, in the order they came."""
        if not self._all:
            return []
        found: dict[str, QueuedPod] = {}
        for name in self._plugins_reading(change.facts):
            few = self._hinted_by(name, change)
            if few is not None:
                found.update((one.uid, one) for one in few if self._helps(name, one, change))
                continue
            for pods in self._by_kind(name, change):
                if self._helps(name, next(iter(pods.values())), change):
                    found.update(pods)
        return sorted(found.values(), key=lambda queued: queued.sequence)

    def _by_kind(self, name: str, change: Change) -> Iterable[dict[str, QueuedPod]]:
        """Yield the pods that a plugin rejected, kind by kind, without kinds that cannot fit."""
        parked, needs = self._parked.get(name, {}), self._needs.get(name)
        if needs is None or len(parked) <= FEW:
            return parked.values()
        try:
            chances = self._needing[name].chances(change, needs.names)
        except Exception as error:  # noqa: BLE001 - a broken hint must not lose a wake-up
            self._complain(name, "QueueingHint", error)
            return parked.values()
        return parked.values() if chances is None else [parked[k] for k in needs.within(chances)]

    def may_help(self, queued: QueuedPod, change: Change) -> bool:
        """Return whether a change touches facts that a rejecting plugin reads, and its hint
        agrees.
        """
        return any(self._helps(name, queued, change) for name in _rejecting(queued))

    def _helps(self, name: str, queued: QueuedPod, change: Change) -> bool:
        """Return whether a change may help a pod, by the hints of the plugins that rejected or gate
        it.
        """
        plugin = self._profiles[queued.profile].plugins.get(name)
        if plugin is None:
            return name in BY_ANYTHING or facts.NODE_ADDED in change.facts
        if change.facts.isdisjoint(plugin.reads):
            return False
        return name not in self._hinting or self._hint(plugin, change, queued)

    def _hinted_by(self, name: str, change: Change) -> list[QueuedPod] | None:
        """Return the pods that a change may help according to a plugin; None if the plugin does not
        list them.
        """
        if name not in self._knowing:
            return None
        found: list[QueuedPod] = []
        for plugin in self._knowing[name]:
            try:
                uids = plugin.hinted(change)
            except Exception as error:  # noqa: BLE001 - a broken hint must not lose a wake-up
                self._complain(plugin.name, "QueueingHint", error)
                return None
            if uids is None:
                return None
            waiting = (self._all.get(uid) for uid in uids)
            found += [one for one in waiting if one is not None and name in _rejecting(one)]
        return found

    def _kind(self, queued: QueuedPod, name: str) -> Hashable:
        """Return a key that pods share if the plugin's hints are equal for them."""
        plugin = self._profiles[queued.profile].plugins.get(name)
        if plugin is None or name not in self._hinting:
            return queued.profile
        if not plugin.has_key:
            return queued.uid
        key = plugin.key(queued.pod)
        if key is None or key is EACH_POD:
            return queued.uid
        return queued.profile, queued.priority, key

    def _hint(self, plugin: Plugin[Any], change: Change, queued: QueuedPod) -> bool:
        started_s = self._now_s() if self._hinted is not None else 0.0
        helps, result = True, "Error"
        try:
            helps = plugin.hint(change, queued.pod)
            result = "Queue" if helps else "QueueSkip"
        except Exception as error:  # noqa: BLE001 - a broken hint must not lose a wake-up
            self._complain(plugin.name, "QueueingHint", error)
        if self._hinted is not None:
            self._hinted(plugin.name, change.label, self._now_s() - started_s, result)
        return helps

    def _plugins_reading(self, changed: Iterable[str]) -> list[str]:
        names: dict[str, None] = dict.fromkeys((*BY_ANYTHING, NO_NODES))
        for fact in sorted(changed):
            names.update(dict.fromkeys(self._readers.get(fact, ())))
        return list(names)


def _rejecting(queued: QueuedPod) -> tuple[str, ...]:
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


class Needs:
    """The minimum requests of waiting pods by kind, in columns: one comparison covers all kinds.

    A tenant can create a hundred thousand pending pods that all differ a little; to call a hint for
    each of them whenever a pod ends took the engine a tenth of a second. A row holds the priority
    and the needs by name of one kind; rows of absent kinds are reused. Plugins define what counts.
    """

    def __init__(self) -> None:
        self._rows: dict[Hashable, int] = {}
        self._kinds: list[Hashable | None] = []
        self._free: list[int] = []
        self._names: dict[str, int] = {}
        self._priorities = np.zeros(0, dtype=np.int64)
        self._amounts = np.zeros((MOST_NAMES, 0), dtype=np.int64)

    @property
    def names(self) -> Iterable[str]:
        """Return the names of the compared amounts."""
        return self._names.keys()

    def add(self, kind: Hashable, priority: int, needed: Iterable[tuple[str, int]]) -> None:
        """Add a new kind; names beyond `MOST_NAMES` are left out."""
        row = self._free.pop() if self._free else self._another_row()
        self._rows[kind] = row
        self._kinds[row] = kind
        self._priorities[row] = priority
        for name, amount in needed:
            column = self._names.get(name)
            if column is None:
                if len(self._names) == MOST_NAMES:
                    continue
                column = self._names[name] = len(self._names)
            self._amounts[column, row] = min(amount, UNBOUNDED)

    def drop(self, kind: Hashable) -> None:
        """Remove a kind."""
        row = self._rows.pop(kind)
        self._kinds[row] = None
        self._amounts[:, row] = 0
        self._free.append(row)

    def within(self, chances: Sequence[Chance]) -> list[Hashable]:
        """Return the kinds of pods whose requests fit a chance that their priority may use."""
        size, columns = len(self._kinds), len(self._names)
        found = np.zeros(size, dtype=np.bool_)
        amounts = self._amounts[:columns, :size]
        for least, most in chances:
            bounds = [[min(most.get(name, 0), UNBOUNDED)] for name in self._names]
            fits = (amounts <= np.array(bounds, dtype=np.int64).reshape(columns, 1)).all(axis=0)
            found |= fits & (self._priorities[:size] >= least)
        kinds = (self._kinds[row] for row in np.flatnonzero(found).tolist())
        return [kind for kind in kinds if kind is not None]

    def _another_row(self) -> int:
        row = len(self._kinds)
        if row == len(self._priorities):
            more = max(64, row)
            self._priorities = np.concatenate((self._priorities, np.zeros(more, dtype=np.int64)))
            self._amounts = np.hstack((self._amounts, np.zeros((MOST_NAMES, more), dtype=np.int64)))
        self._kinds.append(None)
        return row
