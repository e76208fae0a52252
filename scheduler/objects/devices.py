"""Dynamic resources, as far as they decide anything here: device classes that stand for a resource.

Claims are known by name alone: pods that use them are held (DynamicResources says so), and a snapshot
that holds claims can be read.
"""

from __future__ import annotations

from scheduler.objects.meta import Object, ObjectMeta

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"


class DeviceClassSpec(Object, frozen=True):
    """The extended resource that the class serves, if it names one."""

    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def resources(self) -> tuple[str, ...]:
        """Return the extended resources that pods may ask this class by."""
        implicit = IMPLICIT_PREFIX + self.metadata.name
        named = self.spec.extended_resource_name
        return (implicit, named) if named else (implicit,)


class ResourceClaim(Object, frozen=True):
    """A claim for devices."""

    metadata: ObjectMeta = ObjectMeta()
