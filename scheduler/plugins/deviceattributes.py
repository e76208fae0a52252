"""Attributes with one value on all devices of a node that have it.

Such an attribute of devices can replace a label of nodes: the NVLink clique of a node's GPUs, the
switch of its network cards. Only slices that name their node are read. Pure functions.
"""

from collections.abc import Mapping

from scheduler.objects.devices import Device, DeviceAttribute, ResourceSlice

SLICE = "ResourceSlice"


def values_by_node(slices: Mapping[str, ResourceSlice], attribute: str) -> dict[str, str]:
    """Return the value of a qualified attribute by node; nodes with several values have none."""
    newest: dict[tuple[str, str], int] = {}
    for one in slices.values():
        pool = one.spec.driver, one.spec.pool.name
        newest[pool] = max(newest.get(pool, 0), one.spec.pool.generation)
    found: dict[str, set[str]] = {}
    for one in slices.values():
        spec = one.spec
        if not spec.node_name or spec.pool.generation < newest[spec.driver, spec.pool.name]:
            continue
        for device in spec.devices:
            value = _value(device, spec.driver, attribute)
            if value is not None:
                found.setdefault(spec.node_name, set()).add(_text(value))
    return {node: min(values) for node, values in found.items() if len(values) == 1}


def _value(device: Device, driver: str, attribute: str) -> DeviceAttribute | None:
    """Return an attribute by its qualified name, or by its bare name in the driver's own domain."""
    value = device.attributes.get(attribute)
    domain, _, name = attribute.partition("/")
    return device.attributes.get(name) if value is None and domain == driver else value


def _text(value: DeviceAttribute) -> str:
    found = value.key[1] if value.key is not None and value.list_key is None else ""
    return str(found).lower() if isinstance(found, bool) else str(found)
