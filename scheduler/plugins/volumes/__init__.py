"""The plugins that keep pods where their volumes are, or can be."""

from scheduler.plugins.volumes.binding import VolumeBinding
from scheduler.plugins.volumes.limits import NodeVolumeLimits
from scheduler.plugins.volumes.restrictions import VolumeRestrictions
from scheduler.plugins.volumes.zone import VolumeZone

__all__ = ["NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"]
