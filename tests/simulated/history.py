"""The auditor's data: the API server's own history of nodes and pods, and its invariants.

`History.take` receives every change in order, from the sandbox's store or a watch of a real API
server. It uses no state of the scheduler: no memory, queue or log.
"""

from dataclasses import dataclass, field
from typing import Any

from scheduler.objects.quantity import resource_amount
from scheduler.state.resources import LARGEST
from tests.simulated.invariants import Breach, Invariant

Object = dict[str, Any]


@dataclass
class Node:
    """The allocatable amounts of a node.

    `since` is when another client last reduced its free capacity. `closed_at` is when it last
    became unschedulable, or schedulable again.
    """

    allocatable: dict[str, int]
    since: float = float("-inf")
    is_closed: bool = False
    closed_at: float = float("-inf")


@dataclass
class BoundPod:
    """A bound pod: its node, and its requests."""

    key: str
    node: str
    requests: dict[str, int]


@dataclass
class History:
    """The invariants: no pod bound twice, enough of every resource at every bind, no partial gang,
    no bind to a deleted or cordoned node.

    `foreign` are the uids bound by other clients; pods never `waited` for came with a node. A bind
    that overcommits a node is excused only when another client has used capacity there after
    `known_until`: the time up to which the binding process had received all events when it sent the
    bind.
    """

    known_until: float = float("inf")
    nodes: dict[str, Node] = field(default_factory=dict)
    gone_at: dict[str, float] = field(default_factory=dict)
    bound_pods: dict[str, BoundPod] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    waited: set[str] = field(default_factory=set)
    bound_at: dict[str, float] = field(default_factory=dict)
    bound_to: dict[str, str] = field(default_factory=dict)
    broken: list[Breach] = field(default_factory=list)
    binds: int = 0
    excused: int = 0

    def take(self, kind: str, verb: str, obj: Object, now: float) -> None:
        """Apply one change of a `Node` or a `Pod`; ignore others."""
        if kind == "Node":
            self._node(verb, obj, now)
        elif kind == "Pod":
            self._pod(verb, obj, now)

    def most(self) -> dict[str, float]:
        """Return the utilization of the fullest node, by resource."""
        found: dict[str, float] = {}
        for name, node in self.nodes.items():
            used = self.used(name)
            for resource, offered in node.allocatable.items():
                share = used.get(resource, 0) / max(1, offered)
                found[resource] = max(found.get(resource, 0.0), share)
        return found

    def partial(self, groups: dict[str, int], label: str, pods: dict[str, Object]) -> list[str]:
        """Return the groups of which some but fewer than their size are bound."""
        counts: dict[str, int] = {}
        for uid, pod in pods.items():
            name = pod["metadata"].get("labels", {}).get(label)
            if name in groups and uid in self.bound_pods:
                counts[name] = counts.get(name, 0) + 1
        return [name for name, count in sorted(counts.items()) if count < groups[name]]

    def fits(self, pod: Object) -> bool:
        """Return whether some node has capacity for a pod, ignoring all rules."""
        wanted = requests_of(pod["spec"])
        for name, node in self.nodes.items():
            used = self.used(name)
            if all(used.get(r, 0) + a <= node.allocatable.get(r, 0) for r, a in wanted.items()):
                return True
        return False

    def _node(self, verb: str, obj: Object, now: float) -> None:
        name = obj["metadata"]["name"]
        if verb == "DELETED":
            self.nodes.pop(name, None)
            self.gone_at[name] = now
            return
        offered = amounts(obj.get("status", {}).get("allocatable", {}))
        before = self.nodes.get(name)
        shrank = before is None or any(
            offered.get(resource, 0) < amount for resource, amount in before.allocatable.items()
        )
        since = now if before is None or shrank else before.since
        is_closed = bool(obj.get("spec", {}).get("unschedulable"))
        is_as_before = before is not None and before.is_closed == is_closed
        closed_at = before.closed_at if before is not None and is_as_before else now
        self.nodes[name] = Node(offered, since, is_closed, closed_at)

    def _pod(self, verb: str, obj: Object, now: float) -> None:
        meta, spec = obj["metadata"], obj.get("spec", {})
        uid, key = meta["uid"], f"{meta['namespace']}/{meta['name']}"
        node = spec.get("nodeName", "")
        is_over = obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if verb == "DELETED" or is_over or not node:
            self.bound_pods.pop(uid, None)
            self.waited.add(uid)
            return
        before = self.bound_pods.get(uid)
        self.bound_pods[uid] = BoundPod(key, node, requests_of(spec))
        if uid in self.bound_to and self.bound_to[uid] != node:
            what = f"{key} was bound to {self.bound_to[uid]} and to {node}"
            self.broken.append(Breach(Invariant.ONCE, now, what))
        self.bound_to[uid] = node
        if before is None:
            self.bound_at[uid] = now
            self._bound(uid, node, now)
        elif any(a > before.requests.get(r, 0) for r, a in self.bound_pods[uid].requests.items()):
            self._took(node, now)

    def _bound(self, uid: str, node: str, now: float) -> None:
        if uid in self.foreign or uid not in self.waited:
            self._took(node, now)
            return
        self.binds += 1
        offer = self.nodes.get(node)
        if offer is None:
            if self.gone_at.get(node, float("-inf")) < self.known_until:
                what = f"{self.bound_pods[uid].key} is bound to {node}, which is gone"
                self.broken.append(Breach(Invariant.OPEN, now, what))
            return  # else the node was deleted during the bind
        if offer.is_closed and offer.closed_at < self.known_until:
            what = f"{self.bound_pods[uid].key} is bound to {node}, which is closed"
            self.broken.append(Breach(Invariant.OPEN, now, what))
        over = {
            resource: f"{used} of {offer.allocatable.get(resource, 0)}"
            for resource, used in self.used(node).items()
            if used > offer.allocatable.get(resource, 0)
            and self.bound_pods[uid].requests.get(resource, 0)
        }
        if over and offer.since >= self.known_until:
            self.excused += 1
        elif over:
            what = f"{self.bound_pods[uid].key} overcommits {node}: {over}"
            self.broken.append(Breach(Invariant.CAPACITY, now, what))

    def _took(self, node: str, now: float) -> None:
        if node in self.nodes:
            self.nodes[node].since = now

    def used(self, node: str) -> dict[str, int]:
        """Return the sum of the requests of the pods on a node, by resource."""
        used: dict[str, int] = {}
        for one in self.bound_pods.values():
            if one.node == node:
                for resource, amount in one.requests.items():
                    used[resource] = used.get(resource, 0) + amount
        return used


def amounts(given: dict[str, Any]) -> dict[str, int]:
    """Return quantities as whole numbers: CPU in milli, everything else in units."""
    return {name: resource_amount(name, str(text)) for name, text in given.items()}


def requests_of(spec: Object) -> dict[str, int]:
    """Return the requests of a pod: the larger of its containers' sum and of each init container.

    No amount counts for more than `LARGEST`, which no node offers: a pod of 8Ei may be bound by a
    user.
    """
    total: dict[str, int] = {"pods": 1}
    for container in spec.get("containers", ()):
        for name, amount in amounts(container.get("resources", {}).get("requests", {})).items():
            total[name] = total.get(name, 0) + amount
    for container in spec.get("initContainers", ()):
        for name, amount in amounts(container.get("resources", {}).get("requests", {})).items():
            total[name] = max(total.get(name, 0), amount)
    return {name: min(amount, LARGEST) for name, amount in total.items()}
