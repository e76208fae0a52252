"""`Cluster`: the cluster in memory and the only writer of table, pod index and store.

The engine calls `apply_*` for changes that the API server reports, `assume` and `forget` for its
own decisions. A pod counts on its node regardless of the binding client; one whose node does not
exist yet is stored under the node's name. A pod that failed or ended counts as deleted. Independent
of queues.

    not placed ──assume──▶ assumed ──watch: bound──▶ bound ──watch: deleted, ended──▶ gone
                              └────────forget────────▶ not placed
"""

from typing import Any

from scheduler.base.errors import StateError
from scheduler.base.release import DEFAULT, V1_37, Release
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state import facts
from scheduler.state.change import NOTHING, Change
from scheduler.state.podindex import Placed, PodIndex, place
from scheduler.state.shapes import Shapes
from scheduler.state.store import Store, object_key
from scheduler.state.table import NodeTable


class Cluster:
    """Nodes, placed pods and other objects, kept consistent with each other."""

    def __init__(self, release: Release = DEFAULT) -> None:
        self._sums_first = release >= V1_37
        self.table = NodeTable()
        self.pods = PodIndex()
        self.store = Store()
        self.shapes = Shapes()

    def put_node(self, node: Node) -> Change:
        """Add or update a node that the API server reports; ObjectError changes nothing."""
        row = self.table.rows.get(node.metadata.name)
        old = self.table.nodes[row] if row is not None else None
        self.table.put(node, self.pods.on(node.metadata.name))
        if old is None:
            return Change("Node", "add", facts.NODE_APPEARS, "NodeAdd", new=node)
        changed = facts.node_facts(old, node)
        label = next(
            (text for fact, text in facts.NODE_LABEL_OF.items() if fact in changed), "NodeUpdate"
        )
        return Change("Node", "update", changed, label, old, node)

    def drop_node(self, name: str) -> Change:
        """Remove a node; its pods stay known until they are deleted themselves."""
        row = self.table.rows.get(name)
        if row is None:
            return NOTHING
        old = self.table.nodes[row]
        self.table.remove(name, self.pods.on(name))
        return Change("Node", "delete", facts.NODE_DELETION, "NodeDelete", old=old)

    def put_pod(self, pod: Pod) -> Change:
        """Add or update a bound pod; ObjectError (an invalid quantity) changes nothing."""
        placed = self._record(pod, pod.spec.node_name)
        before = self._replace(placed)
        if before is None or before.assumed:
            # The API server confirmed an assumed pod, or a pod of another scheduler appeared: the
            # assumed pod was not announced, so for waiting pods it is new.
            old, changed = None, facts.POD_APPEARS
            if before is not None and before.node != placed.node:
                # Another client bound it, and the node chosen here is free again.
                old, changed = before.pod, changed | facts.POD_DELETION
            return Change("Pod", "add", changed, "AssignedPodAdd", old, pod, before, placed)
        changed = facts.placed_facts(before, placed)
        label = _label(changed)
        if before.node != placed.node:
            changed |= facts.POD_APPEARS | facts.POD_DELETION
        return Change("Pod", "update", changed, label, before.pod, pod, before, placed)

    def drop_pod(self, uid: str) -> Change:
        """Take away a placed pod that was deleted or has ended."""
        placed = self.pods.get(uid)
        if placed is None:
            return NOTHING
        self._release(placed)
        return Change(
            "Pod", "delete", facts.POD_DELETION, "AssignedPodDelete", placed.pod, None, placed
        )

    def assume(self, pod: Pod, node: str) -> Change:
        """Count a pod on its chosen node before the API server confirms it; the pod must not be
        placed.
        """
        if self.pods.get(pod.metadata.uid) is not None:
            raise StateError(f"pod {pod.key} is placed already and cannot be assumed")
        placed = self._record(pod, node, assumed=True)
        self._replace(placed)
        return Change("Pod", "add", new=pod, after=placed)

    def renew(self, pod: Pod) -> Change:
        """Take in a newer version of an assumed pod that is not bound yet (it may be
        terminating).
        """
        before = self.pods.get(pod.metadata.uid)
        if before is None or not before.assumed:
            return NOTHING
        placed = self._record(pod, before.node, assumed=True)
        self._replace(placed)
        changed = facts.placed_facts(before, placed)
        return Change("Pod", "update", changed, _label(changed), before.pod, pod, before, placed)

    def forget(self, uid: str) -> Change:
        """Remove an assumed pod; do nothing if the API server has confirmed it."""
        placed = self.pods.get(uid)
        if placed is None or not placed.assumed:
            return NOTHING
        self._release(placed)
        return Change(
            "Pod", "delete", facts.POD_DELETION, "AssignedPodDelete", placed.pod, None, placed
        )

    def put_object(self, kind: str, obj: Any) -> Change:
        """Take in an object of a kind without columns."""
        old = self.store.put(kind, obj)
        verb = "add" if old is None else "update"
        return Change(kind, verb, frozenset((kind,)), f"{kind}{verb.capitalize()}", old, obj)

    def drop_object(self, kind: str, obj: Any) -> Change:
        """Take away an object of a kind without columns."""
        old = self.store.drop(kind, object_key(obj))
        if old is None:
            return NOTHING
        return Change(kind, "delete", frozenset((kind,)), f"{kind}Delete", old)

    def _record(self, pod: Pod, node: str, *, assumed: bool = False) -> Placed:
        shape = self.shapes.of(pod)
        return place(pod, shape, node, assumed=assumed, sums_first=self._sums_first)

    def _replace(self, placed: Placed) -> Placed | None:
        before = self.pods.get(placed.pod.metadata.uid)
        if before is not None:
            if before.weighs_as(placed):
                self.pods.put(placed)
                return before
            self._release(before)
        self.pods.put(placed)
        row = self.table.rows.get(placed.node)
        if row is not None:
            self.table.hold(row, placed)
        return before

    def _release(self, placed: Placed) -> None:
        self.pods.drop(placed.pod.metadata.uid)
        row = self.table.rows.get(placed.node)
        if row is not None:
            self.table.release(row, placed)


def _label(changed: frozenset[str]) -> str:
    """Return kube-scheduler's name of a change of a placed pod."""
    known = facts.ASSIGNED_LABEL_OF.items()
    return next((text for fact, text in known if fact in changed), "AssignedPodUpdate")
