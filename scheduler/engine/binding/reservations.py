"""Destinations that MovePlans reserve for replacements of evicted pods.

A reservation is a nomination of a placeholder pod with the highest priority: every other pod has to
leave its resources and host ports free. It is derived from the MovePlan alone, so that a restart or
a new leader has the same ones, and it ends when the owner's new pod is on the node, at the move's
deadline, or with the plan. It serves no pod of the owner before the moved pod terminates: a
scale-up would take it. From then on the same is reserved on the node that the moved pod leaves,
until the replacement is on its destination: a destination that another scheduler has filled, or
that is gone, leaves no pod without a node. Without plans the engine pays one test of an empty dict
per attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.engine.binding.nominations import Nominations
from scheduler.objects.moves.moveplan import (
    EVICTED,
    EXECUTING,
    RESERVING,
    MovePlan,
    PlannedMove,
    serves,
)
from scheduler.objects.pod import Container, Pod, PodMeta, PodSpec, ResourceRequirements
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster

HIGHEST_PRIORITY = 2**31 - 1
PLAN_KIND = "MovePlan"


class Reservation:
    """The destination that a move reserves, and the node that its pod leaves.

    `key` and `source_key` are the uids of the placeholders that count there.
    """

    def __init__(self, plan: MovePlan, order: int, move: PlannedMove) -> None:
        self.move = move
        self.deadline = parse_rfc3339(move.deadline) or 0.0
        self.key = f"{plan.metadata.uid}/{order}"
        self.source_key = f"{self.key}/source"
        name = f"{plan.metadata.name}-move-{order}"
        self.placeholder = _placeholder(move, name, self.key)
        self.source_placeholder = _placeholder(move, f"{name}-source", self.source_key)


def _placeholder(move: PlannedMove, name: str, uid: str) -> Pod:
    requests = ResourceRequirements({**move.requests})
    container = Container("reserved", resources=requests, ports=move.host_ports)
    spec = PodSpec(
        scheduler_name="",
        priority=HIGHEST_PRIORITY,
        preemption_policy="Never",
        containers=(container,),
    )
    return Pod(PodMeta(name, move.namespace, uid), spec)


class Reservations:
    """The reservations of all plans; `freed` is called for a placeholder that counts no longer."""

    def __init__(
        self, cluster: Cluster, nominations: Nominations, freed: Callable[[Pod], None]
    ) -> None:
        self._cluster, self._nominations, self._freed = cluster, nominations, freed
        self.by_node: dict[str, list[Reservation]] = {}  # by destination
        self._by_source: dict[str, list[Reservation]] = {}
        self._lifted: frozenset[str] = frozenset()
        nominations.reserved, nominations.lifted = self._for_pods, self._without

    def planned(self, now: float) -> None:
        """Derive the reservations again after a MovePlan changed."""
        before = self._all()
        found: defaultdict[str, list[Reservation]] = defaultdict(list)
        sources: defaultdict[str, list[Reservation]] = defaultdict(list)
        for plan in self._cluster.store.of(PLAN_KIND).values():
            for order, move in enumerate(plan.status.moves, 1):
                if move.state in RESERVING and plan.status.phase == EXECUTING:
                    one = Reservation(plan, order, move)
                    if one.deadline > now:
                        found[move.target].append(one)
                        sources[move.source].append(one)
        self.by_node, self._by_source = dict(found), dict(sources)
        self._nominations.has_reserved = bool(found)
        kept = {one.key for one in self._all()}
        for one in before:
            for placeholder in (one.placeholder, one.source_placeholder):
                if one.key not in kept and self._nominations.drop(placeholder.metadata.uid):
                    self._freed(placeholder)
        for node in found:
            self._count(node)

    def followed(self, change: Change) -> None:
        """Count the nodes again that a changed pod left or arrived on."""
        if change.kind == "Pod":
            for placed in (change.before, change.after):
                if placed is not None and placed.node in self.by_node:
                    self._count(placed.node)
                if placed is not None and placed.node in self._by_source:
                    self._count_source(placed.node)

    def expire(self, now: float) -> None:
        """End the reservations whose deadline has passed."""
        if any(one.deadline <= now for one in self._all()):
            self.planned(now)

    def next_deadline(self) -> float | None:
        """Return when the next reservation ends; None without any."""
        return min((one.deadline for one in self._all()), default=None)

    def _all(self) -> list[Reservation]:
        return [one for found in self.by_node.values() for one in found]

    def _count(self, node: str) -> None:
        """Nominate the placeholders of a destination whose replacements have not arrived.

        One whose replacement has arrived frees nothing: the replacement counts in its place.
        """
        for one, has_arrived in self._matched(self.by_node[node], node):
            if has_arrived:
                self._nominations.drop(one.key)
            elif one.key not in self._lifted and not self._nominations.node_of(one.key):
                self._nominations.put(one.placeholder, node)
        for source in {one.move.source for one in self.by_node[node]}:
            self._count_source(source)

    def _count_source(self, node: str) -> None:
        """Nominate the placeholders of a node whose pods left and are replaced nowhere yet."""
        leaving = [one for one in self._by_source[node] if self._has_left(one)]
        for one, has_returned in self._matched(leaving, node):
            if has_returned or not self._nominations.node_of(one.key):
                if self._nominations.drop(one.source_key) and not has_returned:
                    self._freed(one.source_placeholder)
            elif one.source_key not in self._lifted and one.source_key not in self._nominations:
                self._nominations.put(one.source_placeholder, node)

    def _has_left(self, one: Reservation) -> bool:
        """Return whether the pod of a move is evicted, by its object, which may report that before
        the plan's status does.
        """
        placed = self._cluster.pods.get(one.move.uid)
        return one.move.state == EVICTED or placed is None or placed.pod.is_terminating

    def _matched(
        self, reservations: Sequence[Reservation], node: str
    ) -> Iterator[tuple[Reservation, bool]]:
        """Yield reservations with whether a replacement is on the node; each counts for one."""
        taken: set[str] = set()
        for one in reservations:
            uid = next((uid for uid in self._arrived(one, node) if uid not in taken), "")
            taken.add(uid)
            yield one, bool(uid)

    def _arrived(self, one: Reservation, node: str) -> Iterator[str]:
        for placed in self._cluster.pods.on(node).values():
            uid = placed.pod.metadata.uid
            if uid not in one.move.present and serves(one.move, placed.pod):
                yield uid

    def _for_pods(self, pods: Sequence[Pod]) -> Mapping[str, tuple[str, ...]]:
        """Return the keys of the counted reservation that each pod may take, by the uid of the pod;
        that of the destination first.
        """
        left = [
            one for one in self._all() if self._nominations.node_of(one.key) and self._has_left(one)
        ]
        found: dict[str, tuple[str, ...]] = {}
        for pod in pods:
            mine = next((one for one in left if serves(one.move, pod)), None)
            if mine is not None:
                left.remove(mine)
                found[pod.metadata.uid] = (mine.key, mine.source_key)
        return found

    @contextmanager
    def _without(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Ignore the capacity reserved for one group's pods until the block ends."""
        self._lifted = frozenset(key for keys in self._for_pods(pods).values() for key in keys)
        counted = [one for one in self._all() if one.source_key in self._lifted]
        counted = [one for one in counted if one.source_key in self._nominations]
        nodes = {self._nominations.drop(key) for key in self._lifted}
        try:
            yield
        finally:
            self._lifted = frozenset()
            for node in nodes & set(self.by_node):
                self._count(node)
            for one in counted:
                if one.source_key not in self._nominations:
                    self._freed(one.source_placeholder)


def offered(pod: Pod, nominations: Nominations) -> Pod:
    """Return a pod that is tried on its reserved node first, if it has no other nomination."""
    found = {} if pod.status.nominated_node_name else nominations.reserved((pod,))
    keys = found.get(pod.metadata.uid)
    if not keys:
        return pod
    node = nominations.node_of(keys[0])
    return replace(pod, status=replace(pod.status, nominated_node_name=node))
