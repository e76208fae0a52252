"""Node: the fields that scheduling reads."""

import msgspec

from scheduler.objects.meta import Int64, Object, ObjectMeta
from scheduler.objects.pod import ResourceList


class Taint(Object, frozen=True):
    """A taint; effects NoSchedule, PreferNoSchedule, NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeAnnotations(Object, frozen=True):
    """The annotations of a node that Trellis reads, each as written (JSON)."""

    raw_allocatable: str = msgspec.field(name="node.koordinator.sh/raw-allocatable", default="")
    usage_thresholds: str = msgspec.field(
        name="scheduling.koordinator.sh/usage-thresholds", default=""
    )


class NodeMeta(ObjectMeta, frozen=True):
    """`metadata` of a node."""

    annotations: NodeAnnotations = NodeAnnotations()


class NodeSpec(Object, frozen=True):
    """The spec fields of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Object, frozen=True):
    """An image on a node, under all its names."""

    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeCondition(Object, frozen=True):
    """A condition; without its times, which change with every heartbeat."""

    type: str = ""
    status: str = ""


class NodeStatus(Object, frozen=True):
    """The status fields of a node."""

    allocatable: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()


class Node(Object, frozen=True):
    """A node."""

    metadata: NodeMeta = NodeMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def key(self) -> str:
        """Return the node's name."""
        return self.metadata.name
