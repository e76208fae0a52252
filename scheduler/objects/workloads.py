"""Namespaces, services and the controllers whose selectors the default spread uses."""

import msgspec

from scheduler.objects.meta import LabelSelector, Object, ObjectMeta


class NamespaceAnnotations(Object, frozen=True):
    """The annotations of a namespace that Trellis reads, each as written."""

    derive_groups: str = msgspec.field(name="trellis.dev/derive-groups", default="")


class NamespaceMeta(ObjectMeta, frozen=True):
    """`metadata` of a namespace."""

    annotations: NamespaceAnnotations = NamespaceAnnotations()


class Namespace(Object, frozen=True):
    """A namespace; namespace selectors read its labels."""

    metadata: NamespaceMeta = NamespaceMeta()


class MapSelectorSpec(Object, frozen=True):
    """A spec with an old-style equality selector (Service, ReplicationController)."""

    selector: dict[str, str] = {}


class Service(Object, frozen=True):
    """A service."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MapSelectorSpec = MapSelectorSpec()


class ReplicationController(Object, frozen=True):
    """A replication controller."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MapSelectorSpec = MapSelectorSpec()


class SelectorSpec(Object, frozen=True):
    """A spec with a label selector (ReplicaSet, StatefulSet)."""

    selector: LabelSelector | None = None


class ReplicaSet(Object, frozen=True):
    """A replica set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()


class StatefulSet(Object, frozen=True):
    """A stateful set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SelectorSpec = SelectorSpec()
