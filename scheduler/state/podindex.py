"""Pods that occupy capacity, by node (also by the name of a node that does not exist yet).

Owner of `Placed`, the record of a pod on a node. `Cluster` is the only writer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from scheduler.objects.pod import Pod
from scheduler.state.resources import Amounts, counted, has_resize_status, pod_requests
from scheduler.state.shapes import Shape, scored


class Placed(msgspec.Struct, frozen=True):
    """A pod on a node: bound by the API server, or assumed.

    `requests` and `scored_requests` are the amounts that the pod occupies on the node.
    """

    pod: Pod
    shape: Shape
    node: str
    requests: Amounts
    scored_requests: tuple[int, int]
    assumed: bool = False

    def weighs_as(self, other: "Placed") -> bool:
        """Return whether the other record uses the same resources on the same node."""
        return (
            self.node == other.node
            and self.requests == other.requests
            and self.scored_requests == other.scored_requests
            and self.shape.host_ports == other.shape.host_ports
        )


def place(
    pod: Pod, shape: Shape, node: str, *, assumed: bool = False, sums_first: bool = False
) -> Placed:
    """Make the record of `pod` on `node`; ObjectError on a bad quantity in its status.

    `sums_first` is the rule of Kubernetes 1.37 for pods that are being resized.
    """
    if has_resize_status(pod):
        requests = counted(pod_requests(pod, use_status=True, sums_first=sums_first))
        scored_amounts = scored(pod, use_status=True, skip_pod_level=False, sums_first=sums_first)
    else:
        requests, scored_amounts = shape.requests, shape.bound_scored
    return Placed(pod, shape, node, requests, scored_amounts, assumed)


class PodIndex:
    """Placed pods by uid and by node, in order of arrival."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Placed] = {}
        self._by_node: dict[str, dict[str, Placed]] = {}
        self._priorities: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[Placed]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> Placed | None:
        """Return the record of a placed pod, or None."""
        return self._by_uid.get(uid)

    def on(self, node: str) -> Mapping[str, Placed]:
        """Return the pods on a node by uid."""
        return self._by_node.get(node, {})

    def any_below(self, priority: int) -> bool:
        """Return whether the priority of some pod is lower."""
        return any(one < priority for one in self._priorities)

    def nodes(self) -> Iterator[str]:
        """Yield the names of all nodes that hold pods, known or not."""
        return iter(self._by_node)

    def put(self, placed: Placed) -> None:
        """Add or replace the record of a pod."""
        uid = placed.pod.metadata.uid
        before = self._by_uid.get(uid)
        if before is not None:
            if before.node != placed.node:
                self.drop(uid)
            else:
                self._uncount(before)
        self._priorities[placed.pod.priority] += 1
        self._by_uid[uid] = placed
        self._by_node.setdefault(placed.node, {})[uid] = placed

    def drop(self, uid: str) -> Placed | None:
        """Remove a pod and return its record, or None if there was none."""
        placed = self._by_uid.pop(uid, None)
        if placed is not None:
            self._uncount(placed)
            on_node = self._by_node[placed.node]
            del on_node[uid]
            if not on_node:
                del self._by_node[placed.node]
        return placed

    def _uncount(self, placed: Placed) -> None:
        priority = placed.pod.priority
        self._priorities[priority] -= 1
        if not self._priorities[priority]:
            del self._priorities[priority]
