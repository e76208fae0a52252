"""NodeResourceTopology: the resources of a node's NUMA zones, reported by an agent on the node.

Both versions of the kind decode into these structs (v1alpha1 has no top-level attributes). Nothing
is required and quantities stay as written; the reader handles invalid objects. A cluster has one
such object per node with dozens of short texts in it, so equal texts and equal cost lists share
memory.
"""

from functools import lru_cache
from sys import intern

import msgspec

from scheduler.objects.meta import AnnotatedMeta, Object

_force = msgspec.structs.force_setattr


class NamedValue(Object, frozen=True):
    """One attribute of a node or of a zone."""

    name: str = ""
    value: str = ""


class ZoneCost(Object, frozen=True):
    """The distance from a zone to another one, by its name."""

    name: str = ""
    value: int | float = 0


class ZoneResource(Object, frozen=True):
    """The amounts of a resource in a zone; `available` is unallocated.

    The kind's first version has no such field: there `allocatable` is what pods can use.
    """

    name: str = ""
    allocatable: str | int | float = 0
    available: str | int | float | None = None

    @property
    def free(self) -> str | int | float:
        """Return the unallocated amount."""
        return self.allocatable if self.available is None else self.available

    def __post_init__(self) -> None:
        for field in ("name", "allocatable", "available"):
            value = getattr(self, field)
            if type(value) is str:
                _force(self, field, intern(value))


class Zone(Object, frozen=True):
    """A part of a node; those of type `Node` are NUMA nodes."""

    name: str = ""
    type: str = ""
    costs: tuple[ZoneCost, ...] = ()
    attributes: tuple[NamedValue, ...] = ()
    resources: tuple[ZoneResource, ...] = ()

    def __post_init__(self) -> None:
        _force(self, "name", intern(self.name))
        _force(self, "type", intern(self.type))
        if self.costs:
            _force(self, "costs", _shared(self.costs))


class WriteRecord(Object, frozen=True):
    """The time of a manager's last write to an object."""

    time: str | None = None


class WrittenMeta(AnnotatedMeta, frozen=True):
    """`metadata` with the times of its writes."""

    managed_fields: tuple[WriteRecord, ...] = ()


class NodeResourceTopology(Object, frozen=True):
    """The zones of the node of the same name, and the kubelet's alignment policy for containers."""

    metadata: WrittenMeta = WrittenMeta()
    topology_policies: tuple[str, ...] = ()
    attributes: tuple[NamedValue, ...] = ()
    zones: tuple[Zone, ...] = ()

    @property
    def written(self) -> str | None:
        """Return the time of the last write, as the API server recorded it."""
        times = [one.time for one in self.metadata.managed_fields if one.time]
        return max(times, default=self.metadata.creation_timestamp)


@lru_cache(maxsize=4096)
def _shared(costs: tuple[ZoneCost, ...]) -> tuple[ZoneCost, ...]:
    return costs
