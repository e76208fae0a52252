"""Destinations that MovePlans reserve for replacements of evicted pods.

A reservation is a nomination of a placeholder pod with the highest priority: every other pod has to
leave its resources free. It is derived from the MovePlan alone, so that a restart or a new leader
has the same ones, and it ends when the owner's new pod is on the node, at the move's deadline, or
with the plan. Without plans the engine pays one test of an empty dict per attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.engine.binding.nominations import Nominations
from scheduler.objects.moveplan import RESERVING, MovePlan, PlannedMove, serves
from scheduler.objects.pod import Container, Pod, PodMeta, PodSpec, ResourceRequirements
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster

HIGHEST_PRIORITY = 2**31 - 1
PLAN_KIND = "MovePlan"


class Reservation:
    """A reserved destination: its move, the placeholder that counts there, and its end."""

    def __init__(self, plan: MovePlan, order: int, move: PlannedMove) -> None:
        self.move = move
        self.deadline = parse_rfc3339(move.deadline) or 0.0
        self.key = f"{plan.metadata.uid}/{order}"
        self.placeholder = Pod(
            PodMeta(f"{plan.metadata.name}-move-{order}", move.namespace, self.key),
            PodSpec(
                scheduler_name="",
                priority=HIGHEST_PRIORITY,
                preemption_policy="Never",
                containers=(
                    Container("reserved", resources=ResourceRequirements({**move.requests})),
                ),
            ),
        )


class Reservations:
    """The reservations of all plans; `freed` is called for a placeholder that counts no longer."""

    def __init__(
        self, cluster: Cluster, nominations: Nominations, freed: Callable[[Pod, float], None]
    ) -> None:
        self._cluster, self._nominations, self._freed = cluster, nominations, freed
        self.by_node: dict[str, list[Reservation]] = {}
        self._lifted: frozenset[str] = frozenset()
        nominations.reserved, nominations.lifted = self._for_pods, self._without

    def planned(self, now: float) -> None:
        """Derive the reservations again after a MovePlan changed."""
        before = self._all()
        found: defaultdict[str, list[Reservation]] = defaultdict(list)
        for plan in self._cluster.store.of(PLAN_KIND).values():
            for order, move in enumerate(plan.status.moves, 1):
                if move.state in RESERVING and plan.status.phase == "Executing":
                    one = Reservation(plan, order, move)
                    if one.deadline > now:
                        found[move.target].append(one)
        self.by_node = dict(found)
        self._nominations.has_reserved = bool(found)
        kept = {one.key for one in self._all()}
        ended = [one for one in before if one.key not in kept]
        ended = [one for one in ended if self._nominations.drop(one.key)]
        for node in found:
            self._count(node)
        for one in ended:
            self._freed(one.placeholder, now)

    def followed(self, change: Change) -> None:
        """Count again on the nodes that a changed pod left or came to."""
        if change.kind == "Pod":
            for placed in (change.before, change.after):
                if placed is not None and placed.node in self.by_node:
                    self._count(placed.node)

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
        """Nominate the placeholders of a node whose replacements are not there yet.

        One whose replacement has arrived frees nothing: the replacement counts in its place.
        """
        taken: set[str] = set()
        for one in self.by_node[node]:
            uid = next((uid for uid in self._arrived(one, node) if uid not in taken), "")
            taken.add(uid)
            if uid:
                self._nominations.drop(one.key)
            elif one.key not in self._lifted and not self._nominations.node_of(one.key):
                self._nominations.put(one.placeholder, node)

    def _arrived(self, one: Reservation, node: str) -> Iterator[str]:
        for placed in self._cluster.pods.on(node).values():
            uid = placed.pod.metadata.uid
            if uid not in one.move.present and serves(one.move, placed.pod):
                yield uid

    def _for_pods(self, pods: Sequence[Pod]) -> Mapping[str, str]:
        """Return the keys of counted reservations by the uid of the pod that may take it."""
        left = [one for one in self._all() if self._nominations.node_of(one.key)]
        found: dict[str, str] = {}
        for pod in pods:
            mine = next((one for one in left if serves(one.move, pod)), None)
            if mine is not None:
                left.remove(mine)
                found[pod.metadata.uid] = mine.key
        return found

    @contextmanager
    def _without(self, pods: Sequence[Pod]) -> Iterator[None]:
        """Ignore the capacity reserved for one group's pods until the block ends."""
        self._lifted = frozenset(self._for_pods(pods).values())
        nodes = {self._nominations.drop(key) for key in self._lifted}
        try:
            yield
        finally:
            self._lifted = frozenset()
            for node in nodes & set(self.by_node):
                self._count(node)


def offered(pod: Pod, nominations: Nominations) -> Pod:
    """Return a pod that is tried on its reserved node first, if it has no other nomination."""
    found = {} if pod.status.nominated_node_name else nominations.reserved((pod,))
    key = found.get(pod.metadata.uid)
    if not key:
        return pod
    return replace(pod, status=replace(pod.status, nominated_node_name=nominations.node_of(key)))
