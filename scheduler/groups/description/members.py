"""`GroupMembers`: the members of each group by node, and the object that describes a group.

A tracker: fed by every change of bound, assumed and foreign pods. A group and its members follow
from API objects alone, so a restart changes nothing. Nested groups are decided together: the group
of a pod is the root of the tree that contains its own group, as the objects define it.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from scheduler.groups.sources import appgroup, composite, configmap
from scheduler.groups.sources import registry as sources
from scheduler.groups.topology import trees
from scheduler.objects.finished import FINISHED
from scheduler.objects.groups.appgroup import GROUP_LABEL
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.podindex import Placed

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

_LEAST_KEPT = 1024
# A group nested deeper than this is not planned.
_MOST_ABOVE = 16


class GroupMembers:
    """Placed members by group, and the objects that describe groups by the group they describe."""

    kinds: tuple[str, ...] = (*sources.KINDS, *trees.KINDS)
    follows = frozenset(("Pod", FINISHED, *sources.KINDS))

    def __init__(self) -> None:
        self._placed: dict[str, dict[str, Placed]] = {}
        # The same for applications that no object declares a gang: these pods are no group.
        self._alone: dict[str, dict[str, Placed]] = {}
        # Finished pods by the group that they name, which may not exist.
        self._finished: dict[str, dict[str, Pod]] = {}
        # Keys of workloads whose pods are no group.
        self._lone: set[str] = set()
        # By group, then by kind and name.
        self._objects: dict[str, dict[tuple[str, str], Any]] = {}
        # The parent key of each group in another one, and the reverse.
        self._around: dict[str, str] = {}
        self._inside: dict[str, dict[str, None]] = {}
        # By the name of a preemptor in ConfigMaps: the groups that it evicted.
        self._victims: dict[str, set[str]] = {}
        # Groups that changed since the last read; not part of the tracked state.
        self.changed: set[str] = set()
        self.version = 0
        # Groups in the order of their last change, the latest last; those older than `_forgotten`
        # are left out.
        self._touched: dict[str, int] = {}
        self._clock = 1
        self._forgotten = 0

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild the index from the cluster."""
        self._forget()
        self._placed, self._alone, self._objects, self._victims = {}, {}, {}, {}
        self._finished, self._lone = {}, set()
        self._around, self._inside = {}, {}
        for placed in cluster.pods:
            self._add(placed)
        for pod in cluster.store.of(FINISHED).values():
            self._finish(None, pod)
        for kind in sources.KINDS:
            for obj in cluster.store.of(kind).values():
                self._describe(kind, None, obj)

    def passes_over(self, placed: Placed) -> bool:
        """Return whether a pod belongs to no group."""
        return not sources.group_of(placed.pod)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        self.version += 1
        if change.kind == "Pod":
            if change.before is not None:
                self._drop(change.before)
            if change.after is not None:
                self._add(change.after)
        elif change.kind == FINISHED:
            self._finish(change.old, change.new)
        elif change.kind in sources.BY_KIND:
            self._describe(change.kind, change.old, change.new)

    def columns(self) -> Mapping[str, Any]:
        """Return the columns by name."""
        return {
            "placed": {key: sorted(pods) for key, pods in self._placed.items()},
            "finished": {key: sorted(pods) for key, pods in self._finished.items()},
            "alone": {key: sorted(pods) for key, pods in self._alone.items()},
            "objects": {key: sorted(found) for key, found in self._objects.items()},
        }

    def group_of(self, pod: Pod) -> str:
        """Return the key of the group that a pod is decided with, or an empty text."""
        key = sources.group_of(pod)
        return self.root(key) if key and self._is_group(key) else ""

    def own_group_of(self, pod: Pod) -> str:
        """Return the key of the pod's own group, which may be in another, or an empty text."""
        key = sources.group_of(pod)
        return key if key and self._is_group(key) else ""

    def dispute(self, pod: Pod) -> str:
        """Return the groups that claim the pod, as text, if there are several; else ''."""
        claims = sources.dispute(pod)
        if claims or GROUP_LABEL not in pod.metadata.labels:
            return claims
        return sources.also_claimed(pod) if appgroup.key_of(pod) in self._objects else ""

    def _is_group(self, key: str) -> bool:
        return key in self._objects or not (sources.is_by_object(key) or key in self._lone)

    def root(self, key: str) -> str:
        """Return the root of the tree that a group is in, mostly itself."""
        return key if key not in self._around else self.above(key)[-1]

    def above(self, key: str) -> list[str]:
        """Return a group and its ancestors, the root last; if parents form a cycle, not all of
        them.
        """
        found = [key]
        while (key := self._around.get(key, "")) and len(found) < _MOST_ABOVE and key not in found:
            found.append(key)
        return found

    def inside(self, key: str) -> list[str]:
        """Return the groups that name a group as their parent, in order of their keys; of too many
        only some.
        """
        found = self._inside.get(key, {})
        if len(found) > composite.MOST_GROUPS:
            return list(islice(found, composite.MOST_GROUPS + 1))
        return sorted(found)

    def every(self, key: str, most: int) -> list[str]:
        """Return a group and all its subgroups, parents first; not many more than `most`.

        Groups whose parents do not lead to it are omitted.
        """
        found, level = {key: None}, [key]
        for _ in range(_MOST_ABOVE - 1):
            below = dict.fromkeys(each for one in level for each in self.inside(one))
            level = [each for each in below if each not in found][: most + 1]
            found |= dict.fromkeys(level)
            if not level or len(found) > most:
                break
        return list(found)

    def placed(self, key: str) -> list[Placed]:
        """Return the members on a node, including assumed and terminating ones."""
        if key not in self._inside:
            return list(self._placed.get(key, {}).values())
        every = self.every(key, composite.MOST_GROUPS)
        return [one for each in every for one in self._placed.get(each, {}).values()]

    def bound(self, key: str) -> list[Placed]:
        """Return the members on nodes that are not terminating."""
        return [placed for placed in self.placed(key) if not placed.pod.is_terminating]

    def finished(self, key: str) -> list[Pod]:
        """Return the members that were bound and have finished, in order of arrival."""
        if not self._finished:
            return []
        keys = self.every(key, composite.MOST_GROUPS) if key in self._inside else (key,)
        found = (one for each in keys for one in self._finished.get(each, {}).values())
        return [one for one in found if self._is_group(sources.group_of(one))]

    def knows(self, key: str) -> bool:
        """Return whether a group has a member on a node, a finished member of its own, or an object
        that describes it.
        """
        return key in self._placed or key in self._objects or key in self._finished

    def keys(self) -> Iterable[str]:
        """Return the groups that have a member on a node or an object that describes them, roots
        alone.
        """
        return dict.fromkeys(self.above(key)[-1] for key in (*self._objects, *self._placed))

    def changed_since(self, mark: int) -> tuple[int, list[str], bool]:
        """Return the current mark, the groups that changed after `mark`, and whether the list
        contains all groups.

        A subgroup is listed with its parents.
        """
        if mark <= self._forgotten:
            every = (above for key in (*self._objects, *self._placed) for above in self.above(key))
            return self._clock, list(dict.fromkeys(every)), True
        found = []
        for key in reversed(self._touched):
            if self._touched[key] <= mark:
                break
            found.append(key)
        return self._clock, found, False

    def last_change(self, key: str) -> int:
        """Return a number that differs after each change of a group or of those in it, while it has
        a root.
        """
        return self._touched.get(key, self._forgotten)

    def described_by(self, key: str) -> list[tuple[str, Any]]:
        """Return the kinds and objects that describe a group, in the order in which they count."""
        found = self._objects.get(key)
        if not found:
            return []
        return sources.in_order((kind, obj) for (kind, _), obj in found.items())

    def uid_of(self, key: str) -> str:
        """Return the uid of the object that describes a group, or an empty text."""
        found = self._objects.get(key, {})
        if len(found) > 1:
            return str(self.described_by(key)[0][1].metadata.uid)
        return next((str(obj.metadata.uid) for obj in found.values()), "")

    def config_maps(self, key: str) -> list[Any]:
        """Return the ConfigMaps that describe a group, by name."""
        return [obj for kind, obj in self.described_by(key) if kind == configmap.KIND]

    def evicted_by(self, name: str) -> list[Any]:
        """Return the ConfigMaps that name this group as their evictor, ordered by group."""
        maps = (one for key in sorted(self._victims.get(name, ())) for one in self.config_maps(key))
        return [one for one in maps if (one.data or {}).get("preemptor") == name]

    def _touch(self, key: str) -> None:
        above = self.above(key)
        self.changed.add(above[-1])
        self._clock += 1
        for each in above:
            self._touched.pop(each, None)
            self._touched[each] = self._clock
        if len(self._touched) > 2 * len(self._placed) + _LEAST_KEPT:
            # Bounds the table: a reader with an older mark gets all groups.
            self._forget()

    def _touch_all(self, key: str) -> None:
        """Touch a group and those in it: their eviction may depend on it."""
        for each in self.every(key, composite.MOST_GROUPS):
            self._touch(each)

    def _forget(self) -> None:
        self._touched, self._forgotten = {}, self._clock
        self._clock += 1

    def _add(self, placed: Placed) -> None:
        key = sources.group_of(placed.pod)
        if not key:
            return
        if not self._is_group(key):
            self._alone.setdefault(key, {})[placed.pod.metadata.uid] = placed
            return
        self._placed.setdefault(key, {})[placed.pod.metadata.uid] = placed
        self._touch(key)

    def _drop(self, placed: Placed) -> None:
        key = sources.group_of(placed.pod)
        is_group = self._is_group(key)
        there = self._placed if is_group else self._alone
        pods = there.get(key)
        if pods is not None:
            pods.pop(placed.pod.metadata.uid, None)
            if is_group:
                self._touch(key)
            if not pods:
                del there[key]

    def _finish(self, old: Pod | None, new: Pod | None) -> None:
        """Record that a finished pod was added, changed or deleted."""
        for pod, is_there in ((old, False), (new, True)):
            key = "" if pod is None else sources.group_of(pod)
            if pod is None or not key:
                continue
            pods = self._finished.setdefault(key, {})
            pods.pop(pod.metadata.uid, None)
            if is_there:
                pods[pod.metadata.uid] = pod
            if not pods:
                del self._finished[key]
            if self._is_group(key):
                self._touch(key)

    def _describe(self, kind: str, old: Any, new: Any) -> None:
        source = sources.BY_KIND[kind]
        for obj, put in ((old, False), (new, True)):
            if obj is None:
                continue
            if lone := sources.lone(kind, obj):
                (self._lone.add if put else self._lone.discard)(lone)
                self._regroup(lone)
                self._touch_all(lone)
            key, name = source.key(obj), obj.metadata.name
            if not key:
                continue  # an application that is no gang
            self._touch_all(key)
            found = self._objects.setdefault(key, {})
            found.pop((kind, name), None)
            if put:
                found[kind, name] = obj
            if not found:
                del self._objects[key]
            if sources.is_by_object(key):
                self._regroup(key)
            parents = (sources.parent(kind, one) for (kind, _), one in found.items())
            self._nest(key, next(filter(None, parents), ""))
            if kind == configmap.KIND and (preemptor := (obj.data or {}).get("preemptor")):
                self._note_victim(preemptor, key)

    def _regroup(self, key: str) -> None:
        """Move the placed pods of an application into or out of the index of members, according to
        whether the present objects make it a group.
        """
        here, there = self._placed, self._alone
        if self._is_group(key):
            here, there = there, here
        pods = here.pop(key, None)
        if pods:
            there[key] = pods

    def _nest(self, key: str, parent: str) -> None:
        """Record the parent of a group, '' for none; its subgroups move with it."""
        before = self._around.get(key, "")
        if before == parent:
            return
        if before:
            self._inside[before].pop(key)
            if not self._inside[before]:
                del self._inside[before]
            del self._around[key]
        if parent:
            self._around[key] = parent
            self._inside.setdefault(parent, {})[key] = None
        self._touch_all(key)

    def _note_victim(self, preemptor: str, key: str) -> None:
        """Update the record of which group evicted this one, by its ConfigMaps."""
        maps = self.config_maps(key)
        if any((one.data or {}).get("preemptor") == preemptor for one in maps):
            self._victims.setdefault(preemptor, set()).add(key)
            return
        victims = self._victims.get(preemptor, set())
        victims.discard(key)
        if not victims:
            self._victims.pop(preemptor, None)
