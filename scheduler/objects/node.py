"""Node: the fields that scheduling looks at."""

from __future__ import annotations

from scheduler.objects.meta import Int64, Object, ObjectMeta
from scheduler.objects.pod import ResourceList


class Taint(Object, frozen=True):
    """A taint; effects NoSchedule, PreferNoSchedule, NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Object, frozen=True):
    """The spec fields of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Object, frozen=True):
    """An image that a node holds, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(Object, frozen=True):
    """The status fields of a node."""

    allocatable: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def key(self) -> str:
        """Return the node's name."""
        return self.metadata.name
