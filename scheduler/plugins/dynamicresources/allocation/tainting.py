"""Slices with the taints that DeviceTaintRules put on their devices."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from scheduler.objects.devices import Device, DeviceTaint, DeviceTaintRule, ResourceSlice

RULE = "DeviceTaintRule"


def tainted(one: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return a slice whose devices have the taints of all matching rules after their own."""
    known = sorted(rules, key=lambda rule: rule.metadata.name)
    devices = tuple(_tainted(one, device, known) for device in one.spec.devices)
    if all(new is old for new, old in zip(devices, one.spec.devices, strict=True)):
        return one
    return replace(one, spec=replace(one.spec, devices=devices))


def _tainted(one: ResourceSlice, device: Device, rules: Iterable[DeviceTaintRule]) -> Device:
    taints = tuple(_matching(one, device, rules))
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _matching(
    one: ResourceSlice, device: Device, rules: Iterable[DeviceTaintRule]
) -> Iterator[DeviceTaint]:
    for rule in rules:
        selector = rule.spec.device_selector
        if selector is not None and selector.selects(
            one.spec.driver, one.spec.pool.name, device.name
        ):
            yield rule.spec.taint
