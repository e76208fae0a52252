"""`GroupMembers`: which pods of which group sit on which node, and which object describes a group.

A tracker: fed by every change, bound pods, assumed ones and foreign ones alike. What a group is and
who is there follows from API objects alone, so a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from scheduler.plugins.groups import trees
from scheduler.plugins.groups.sources import configmap
from scheduler.plugins.groups.sources import registry as sources
from scheduler.state.change import Change
from scheduler.state.podindex import Placed

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

group_of = sources.group_of

_LEAST_KEPT = 1024


class GroupMembers:
    """Placed members by group, and the objects that describe groups by the group they describe."""

    kinds: tuple[str, ...] = (*sources.KINDS, *trees.KINDS)
    follows = frozenset(("Pod", *sources.KINDS))

    def __init__(self) -> None:
        self._placed: dict[str, dict[str, Placed]] = {}
        # By group, then by kind and name.
        self._objects: dict[str, dict[tuple[str, str], Any]] = {}
        # By what stands for a preemptor in ConfigMaps: the groups that it evicted.
        self._victims: dict[str, set[str]] = {}
        # What nobody has looked at since it changed; not part of what is tracked.
        self.changed: set[str] = set()
        self.version = 0
        # Groups by when they last changed, the latest last; older ones than `_forgotten` are left out.
        self._touched: dict[str, int] = {}
        self._clock = 1
        self._forgotten = 0

    def rebuild(self, cluster: Cluster) -> None:
        """Start afresh from what the cluster holds."""
        self._forget()
        self._placed, self._objects, self._victims = {}, {}, {}
        for placed in cluster.pods:
            self._add(placed)
        for kind in sources.KINDS:
            for obj in cluster.store.of(kind).values():
                self._describe(kind, None, obj)

    def apply(self, change: Change) -> None:
        """Follow one change."""
        self.version += 1
        if change.kind == "Pod":
            if change.before is not None:
                self._drop(change.before)
            if change.after is not None:
                self._add(change.after)
        elif change.kind in sources.BY_KIND:
            self._describe(change.kind, change.old, change.new)

    def columns(self) -> Mapping[str, Any]:
        """Return what it holds by name."""
        return {
            "placed": {key: sorted(pods) for key, pods in self._placed.items()},
            "objects": {key: sorted(found) for key, found in self._objects.items()},
        }

    def copy(self) -> GroupMembers:
        """Return an independent copy."""
        other = GroupMembers()
        other._placed = {key: dict(pods) for key, pods in self._placed.items()}
        other._objects = {key: dict(found) for key, found in self._objects.items()}
        other._victims = {name: set(keys) for name, keys in self._victims.items()}
        return other

    def placed(self, key: str) -> list[Placed]:
        """Return the members that sit on a node, assumed ones and those that leave included."""
        return list(self._placed.get(key, {}).values())

    def standing(self, key: str) -> list[Placed]:
        """Return the members that sit on a node to stay."""
        return [placed for placed in self.placed(key) if not placed.pod.is_terminating]

    def keys(self) -> Iterable[str]:
        """Return the groups that have a member on a node or an object that describes them."""
        return dict.fromkeys((*self._objects, *self._placed))

    def changed_since(self, mark: int) -> tuple[int, list[str], bool]:
        """Return the mark of now, the groups that changed after `mark`, and whether these are all."""
        if mark <= self._forgotten:
            return self._clock, list(self.keys()), True
        found = []
        for key in reversed(self._touched):
            if self._touched[key] <= mark:
                break
            found.append(key)
        return self._clock, found, False

    def described_by(self, key: str) -> list[tuple[str, Any]]:
        """Return the kinds and objects that describe a group, in the order in which they count."""
        found = self._objects.get(key)
        if not found:
            return []
        return sources.in_order((kind, obj) for (kind, _), obj in found.items())

    def config_maps(self, key: str) -> list[Any]:
        """Return the ConfigMaps that describe a group, by name."""
        return [obj for kind, obj in self.described_by(key) if kind == configmap.KIND]

    def evicted_by(self, name: str) -> list[Any]:
        """Return the ConfigMaps of groups that say that this group evicted them, in order of the groups."""
        maps = (one for key in sorted(self._victims.get(name, ())) for one in self.config_maps(key))
        return [one for one in maps if (one.data or {}).get("preemptor") == name]

    def _touch(self, key: str) -> None:
        self.changed.add(key)
        self._clock += 1
        self._touched.pop(key, None)
        self._touched[key] = self._clock
        if len(self._touched) > 2 * len(self._placed) + _LEAST_KEPT:
            # Groups that are gone need not be known for ever: whoever asks late starts afresh.
            self._forget()

    def _forget(self) -> None:
        self._touched, self._forgotten = {}, self._clock
        self._clock += 1

    def _add(self, placed: Placed) -> None:
        key = group_of(placed.pod)
        if key:
            self._placed.setdefault(key, {})[placed.pod.metadata.uid] = placed
            self._touch(key)

    def _drop(self, placed: Placed) -> None:
        key = group_of(placed.pod)
        pods = self._placed.get(key)
        if pods is not None:
            pods.pop(placed.pod.metadata.uid, None)
            self._touch(key)
            if not pods:
                del self._placed[key]

    def _describe(self, kind: str, old: Any, new: Any) -> None:
        source = sources.BY_KIND[kind]
        for obj, put in ((old, False), (new, True)):
            if obj is None:
                continue
            key, name = source.key(obj), obj.metadata.name
            self._touch(key)
            found = self._objects.setdefault(key, {})
            found.pop((kind, name), None)
            if put:
                found[kind, name] = obj
            if not found:
                del self._objects[key]
            if kind == configmap.KIND and (preemptor := (obj.data or {}).get("preemptor")):
                self._note_victim(preemptor, key)

    def _note_victim(self, preemptor: str, key: str) -> None:
        """Note or forget that a group was evicted for another, as its ConfigMaps say now."""
        maps = self.config_maps(key)
        if any((one.data or {}).get("preemptor") == preemptor for one in maps):
            self._victims.setdefault(preemptor, set()).add(key)
            return
        victims = self._victims.get(preemptor, set())
        victims.discard(key)
        if not victims:
            self._victims.pop(preemptor, None)
