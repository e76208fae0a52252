"""Extended resources that device classes serve; shared by NodeResourcesFit and DynamicResources."""

from collections.abc import Iterable, Mapping

from scheduler.objects.devices import DeviceClass

DEVICE_CLASS = "DeviceClass"


def class_backed(classes: Mapping[str, DeviceClass], resources: Iterable[str]) -> tuple[str, ...]:
    """Return those of the resources that some class serves, in their order."""
    if not classes:
        return ()
    served = {name for one in classes.values() for name in one.resources}
    return tuple(name for name in resources if name in served)
