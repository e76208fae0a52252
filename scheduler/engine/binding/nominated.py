"""`NominatedPods`: the nominations by row, as columns, for attempts that must respect them.

Thousands of preemptors may wait for their victims at once, and every attempt must respect all of
them; so they are collected with numpy, and only rows whose nominations changed are computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, Rows, no_rows
from scheduler.engine.binding.nominations import Nominations
from scheduler.framework.hypothetical.rowpods import NONE_NOMINATED, Nominated, RowPods
from scheduler.framework.profile import Profile
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.counts.rowlists import AMOUNTS, FIRST_AMOUNT, PRIORITY, RowLists
from scheduler.state.counts.touched import Touched
from scheduler.state.podindex import Placed, place

# The highest priority of a row without nominations.
_NO_PRIORITY = np.iinfo(np.int64).min
_LOWEST = _NO_PRIORITY + 1


# So many answers about nominated members are kept.
_MOST_KNOWN = 4096
# A pod's shape and profile, the lowest priority that it respects, and its group.
_MemberKey = tuple[int, str, int, str]


class NominatedPods:
    """Determines which nominations an attempt must respect."""

    def __init__(self, cluster: Cluster, nominations: Nominations) -> None:
        self._cluster = cluster
        self._nominations = nominations
        self._lists = RowLists(self._nominated, priority=self._priority_of)
        # The highest priority of the pods nominated to each row.
        self._highest: IntColumn = np.zeros(0, dtype=np.int64)
        # Whether the nominated pod is a member of a group.
        self._grouped: BoolColumn = no_rows(0)
        # Nominated members of groups by shape, the same by uid, and the results of `_apart`, until
        # a nomination changes.
        self._members: dict[int, list[Placed]] | None = None
        self._placed: dict[str, Placed] = {}
        self._known_apart: dict[_MemberKey, dict[str, list[Placed]]] = {}
        self._generation = -1
        self._begin_log()

    def for_pod(
        self,
        pod: Pod,
        profile: Profile,
        members: Sequence[Pod] = (),
        *,
        keeps_nominations: bool = False,
    ) -> Nominated:
        """Return the nominated pods that `pod` must respect: none of lower priority.

        A pod that is placed with other `members` of its group has the priority of the group, or,
        with `keeps_nominations`, the lowest. Members that cannot preempt respect every nomination
        whatever its priority. A single pod that cannot preempt respects the nominations of groups
        (kube-scheduler: not those of pods). Such pods are pending while a preemptor evicts and
        would take the freed capacity: the eviction would be in vain.
        """
        self._catch_up()
        if not self._nominations:
            return self.none
        preemptors = members or (pod,)
        may_evict = self._nominations.may_evict(preemptors)
        is_member = self._nominations.is_grouped(pod)
        priority = self._nominations.priority_among(preemptors)
        if keeps_nominations or (is_member and not may_evict):
            priority = _LOWEST
        is_respected = self._highest >= priority
        keeps_groups = not may_evict and not is_member
        rows = np.flatnonzero(is_respected | self._grouped if keeps_groups else is_respected)
        own = self._numbers_of((pod.metadata.uid,))
        if not own and self._nominations.has_reserved:
            own = self._numbers_of(self._nominations.reserved((pod,)).get(pod.metadata.uid, ()))

        def on(rows: Rows) -> RowPods:
            return self._on(rows, priority, own, keeps_groups=keeps_groups)

        def apart() -> Mapping[str, Sequence[Placed]]:
            return self._apart(pod, profile, _LOWEST if keeps_groups else priority)

        return Nominated(rows, on, None if own else self._touched, apart)

    def _on(self, rows: Rows, priority: int, own: Sequence[int], *, keeps_groups: bool) -> RowPods:
        """Return the pods nominated to `rows` of at least a priority, except the numbers `own`."""
        numbers, counts, fields = self._lists.on(rows)
        pods = self._lists.pods
        is_kept = fields[PRIORITY] >= priority
        if keeps_groups:
            of_groups = [self._nominations.is_grouped(pods[n].pod) for n in numbers.tolist()]
            is_kept |= np.array(of_groups, dtype=np.bool_)
        for number in own:
            is_kept &= numbers != number
        kept = np.flatnonzero(is_kept)
        if len(kept) < len(numbers):
            counts = np.diff(np.searchsorted(kept, counts.cumsum()), prepend=0)
            numbers, fields = numbers[kept], fields[:, kept]
        places = numbers.tolist()
        known = {name: fields[FIRST_AMOUNT + place] for place, name in enumerate(AMOUNTS)}
        return RowPods(rows, counts, lambda pod: pods[places[pod]], known)

    def _apart(self, pod: Pod, profile: Profile, priority: int) -> Mapping[str, Sequence[Placed]]:
        """Return the members that this pod must respect, by the filter that connects them with it.

        Rules about other pods follow from a pod's shape: one member of each is compared, and the
        answer serves pods of the same shape until a nomination changes.
        """
        if not self._nominations.has_members:
            return {}
        own = self._nominations.group_of(pod)
        shape = self._cluster.shapes.of(pod)
        name = (shape.id, profile.scheduler_name, priority, own)
        found = self._known_apart.get(name)
        if found is None:
            respected = [
                kept
                for members in self._by_shape()
                if (kept := [one for one in members if self._is_respected(one, priority, own)])
            ]
            found = {
                bound.name: pods
                for bound in profile.filter
                if (
                    pods := [
                        one
                        for members in respected
                        if bound.is_affected(pod, members[0].pod)
                        for one in members
                    ]
                )
            }
            if len(self._known_apart) >= _MOST_KNOWN:
                self._known_apart.clear()
            self._known_apart[name] = found
        return found

    def _is_respected(self, one: Placed, priority: int, own: str) -> bool:
        key = self._nominations.key_of(one.pod.metadata.uid)
        return key != own and self._nominations.priority_of(one.pod) >= priority

    def _by_shape(self) -> Iterable[Sequence[Placed]]:
        """Return the nominated members of groups, those of one shape together."""
        if self._members is None:
            before, self._placed = self._placed, {}
            self._members = {}
            for pod in self._nominations.members():
                uid, node = pod.metadata.uid, self._nominations[pod.metadata.uid]
                one = before.get(uid)
                if one is None or one.pod is not pod or one.node != node:
                    one = place(pod, self._cluster.shapes.of(pod), node)
                self._placed[uid] = one
                self._members.setdefault(one.shape.id, []).append(one)
        return self._members.values()

    def _begin_log(self) -> None:
        self._touched = Touched()
        # The nominations of an attempt that must respect none.
        self.none = Nominated(NONE_NOMINATED.rows, NONE_NOMINATED.on, self._touched)

    def _catch_up(self) -> None:
        changed = self._nominations.take_changed()
        table = self._cluster.table
        if self._generation != table.generation:
            self._generation = table.generation
            self._begin_log()
            self._lists.clear()
            self._highest = np.full(table.size, _NO_PRIORITY)
            self._grouped = np.zeros(table.size, dtype=np.bool_)
            changed = set(self._nominations.nodes())
        if changed:
            self._members = None
            self._known_apart.clear()
        for node in changed:
            row = table.rows.get(node)
            if row is not None:
                self._lists.forget(row)
                self._touched.add(row)
                pods = self._nominations.on(node).values()
                ranks = map(self._nominations.priority_of, pods)
                self._highest[row] = max(ranks, default=_NO_PRIORITY)
                self._grouped[row] = any(map(self._nominations.is_grouped, pods))

    def _numbers_of(self, uids: Sequence[str]) -> list[int]:
        """Return the numbers of these nominations in the lists."""
        found: list[int] = []
        for uid in uids:
            row = self._cluster.table.rows.get(self._nominations.node_of(uid))
            if row is None:
                continue
            numbers, _, _ = self._lists.on(np.array([row], dtype=np.intp))
            pods = self._lists.pods
            found += [n for n in numbers.tolist() if pods[n].pod.metadata.uid == uid]
        return found

    def _priority_of(self, placed: Placed) -> int:
        return self._nominations.priority_of(placed.pod)

    def _nominated(self, row: int) -> Sequence[Placed]:
        node, shapes = self._cluster.table.name(row), self._cluster.shapes
        pods = self._nominations.on(node).values()
        return [place(pod, shapes.of(pod), node) for pod in pods]
