"""Destinations that MovePlans reserve for replacements of evicted pods.

A reservation is a nomination of a placeholder pod with the highest priority: every other pod has to
leave its resources free. It is derived from the MovePlan alone, so that a restart or a new leader
has the same ones, and it ends when the owner's new pod is on the node, at the move's deadline, or
with the plan. Without plans the engine pays one test of an empty dict per attempt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

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
        nominations.reserved = self._for_pod

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
            elif not self._nominations.node_of(one.key):
                self._nominations.put(one.placeholder, node)

    def _arrived(self, one: Reservation, node: str) -> Iterator[str]:
        for placed in self._cluster.pods.on(node).values():
            uid = placed.pod.metadata.uid
            if uid not in one.move.present and serves(one.move, placed.pod):
                yield uid

    def _for_pod(self, pod: Pod) -> str:
        """Return the key of a counted reservation that a pod may take; empty for none."""
        for one in self._all():
            if self._nominations.node_of(one.key) and serves(one.move, pod):
                return one.key
        return ""


def offered(pod: Pod, nominations: Nominations) -> Pod:
    """Return a pod that is tried on its reserved node first, if it has no other nomination."""
    key = "" if pod.status.nominated_node_name else nominations.reserved(pod)
    if not key:
        return pod
    return replace(pod, status=replace(pod.status, nominated_node_name=nominations.node_of(key)))
