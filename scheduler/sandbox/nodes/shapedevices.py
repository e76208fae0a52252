"""The devices of a simulated cluster: its drivers' ResourceSlices.

A group of a shape file lists the devices of each of its nodes; `slices_of` turns that into slices,
one pool per node and driver. Nothing here watches or writes; `sandbox.py` creates the slices.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.base.errors import InputError
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.deviceslices import check_slice

_MOST: Final = 128
_NUMBERS: Final = ("{device}", "{index}", "{rack}")


class Devices(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Equal devices of one driver on every node of a group.

    Texts may contain {device}, counting from 0, and the words of the group; a text that consists of
    {device}, {index} or {rack} alone becomes a number. `versions` are attributes with a semantic
    version.
    """

    driver: str
    count: int = 1
    name: str = "device-{device}"
    attributes: dict[str, bool | int | str] = {}
    versions: dict[str, str] = {}
    capacity: dict[str, str | int] = {}
    allow_multiple_allocations: bool = False


def slices_of(devices: Devices, node: str, words: dict[str, Any]) -> Iterator[Object]:
    """Yield the ResourceSlices of a node.

    InputError with the API server's text for an invalid slice.
    """
    most = -(-devices.count // _MOST)
    for number in range(most):
        numbers = range(number * _MOST, min((number + 1) * _MOST, devices.count))
        made = {
            "metadata": {"name": f"{node}-{devices.driver}-{number}"},
            "spec": {
                "driver": devices.driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": most},
                "devices": [_device(devices, {**words, "device": index}) for index in numbers],
            },
        }
        for cause in check_slice(made, None):
            raise InputError(f"{cause.field}: {cause.message}")
        yield made


def _device(devices: Devices, words: dict[str, Any]) -> Object:
    attributes = {name: _attribute(value, words) for name, value in devices.attributes.items()}
    attributes |= {name: {"version": text} for name, text in devices.versions.items()}
    made: Object = {"name": devices.name.format(**words)}
    if attributes:
        made["attributes"] = attributes
    if devices.capacity:
        made["capacity"] = {name: {"value": str(v)} for name, v in devices.capacity.items()}
    if devices.allow_multiple_allocations:
        made["allowMultipleAllocations"] = True
    return made


def _attribute(value: bool | int | str, words: dict[str, Any]) -> Object:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if value in _NUMBERS:
        return {"int": words[value.strip("{}")]}
    return {"string": value.format(**words)}
