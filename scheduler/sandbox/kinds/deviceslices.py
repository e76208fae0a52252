"""Validation of ResourceSlices, with kube-apiserver's messages.

Called by `objectchecks`. (Rules: resource.k8s.io/v1 of Kubernetes 1.36.)
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from scheduler.base.errors import ObjectError
from scheduler.cel import Quantity, Version
from scheduler.objects.names import label_value_problem, qualified_name_problem
from scheduler.sandbox.api.status import (
    AsJson,
    Cause,
    Object,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from scheduler.sandbox.kinds.deviceclaims import (
    EFFECTS,
    check_driver,
    check_identifier,
    check_items,
    check_label,
    check_subdomain,
    too_long,
    too_many,
)
from scheduler.sandbox.store.collection import field

_MOST_DEVICES: Final = 128
_MOST_ADVANCED_DEVICES: Final = 64
_MOST_COUNTER_SETS: Final = 8
_MOST_COUNTERS: Final = 32
_MOST_NAMES: Final = 32
_MOST_CONSUMED_SETS: Final = 2
_MOST_TAINTS: Final = 16
_MOST_CONDITIONS: Final = 4
_LONGEST_VALUE: Final = 64
_LONGEST_POOL: Final = 253
_KINDS: Final = ("bool", "int", "string", "version")
_IMMUTABLE: Final = "field is immutable"
_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def check_slice(obj: Object, old: Object | None) -> Iterator[Cause]:
    """Yield the faults of a ResourceSlice."""
    spec = obj.get("spec") or {}
    yield from check_driver("spec.driver", spec.get("driver", ""))
    yield from _pool(spec.get("pool") or {})
    if old is not None:
        yield from _unchanged(spec, old.get("spec") or {})
    yield from _place(spec, "spec", _PLACES, "")
    terms = field(spec, "nodeSelector", "nodeSelectorTerms")
    if spec.get("nodeSelector") is not None and len(terms or ()) != 1:
        yield invalid_value(
            "spec.nodeSelector.nodeSelectorTerms",
            AsJson(terms),
            "must have exactly one node selector term",
        )
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        yield invalid_value("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    advanced = any(d.get("taints") or d.get("consumesCounters") for d in devices or ())
    yield from check_items(
        "spec.devices",
        devices,
        _MOST_ADVANCED_DEVICES if advanced else _MOST_DEVICES,
        partial(_device, chooses=spec.get("perDeviceNodeSelection") is True),
        _name,
    )
    yield from check_items("spec.sharedCounters", counters, _MOST_COUNTER_SETS, _counters, _name)


def _name(item: Object) -> Any:
    return item.get("name")


def _unchanged(spec: Object, before: Object) -> Iterator[Cause]:
    for path in (("pool", "name"), ("driver",), ("nodeName",)):
        value = field(spec, *path)
        if value != field(before, *path):
            yield invalid_value(f"spec.{'.'.join(path)}", value, _IMMUTABLE)


def _pool(pool: Object) -> Iterator[Cause]:
    name = pool.get("name", "")
    if not name:
        yield required("spec.pool.name")
    elif len(name) > _LONGEST_POOL:
        yield too_long("spec.pool.name", _LONGEST_POOL)
    else:
        for part in name.split("/"):
            yield from check_subdomain("spec.pool.name", part)
    count = pool.get("resourceSliceCount", 0)
    if count <= 0:
        yield invalid_value("spec.pool.resourceSliceCount", count, "must be greater than zero")
    generation = pool.get("generation", 0)
    if generation < 0:
        text = "must be greater than or equal to zero"
        yield invalid_value("spec.pool.generation", generation, text)


def _place(holder: Object, path: str, places: tuple[str, ...], when: str) -> Iterator[Cause]:
    """Check that exactly one field selects the nodes of the devices."""
    chosen: list[str] = []
    for place in places:
        value = holder.get(place)
        if value is None:
            continue
        if value is False:
            yield invalid_value(
                f"{path}.{place}", AsJson(False), "must be either unset or set to true"
            )
        elif value == "":
            text = (
                "must not be empty" if when else "must be either unset or set to a non-empty string"
            )
            yield invalid_value(f"{path}.{place}", value, text)
        else:
            chosen.append(f"`{place}`")
    quoted = [f"`{place}`" for place in places]
    listed = ", ".join(quoted[:-1]) + f", or {quoted[-1]}" if when else ", ".join(quoted)
    text = f"exactly one of {listed} is required{when}"
    if not chosen:
        yield required(path, text)
    elif len(chosen) > 1:
        shown = f"{{{', '.join(chosen)}}}"
        yield invalid_value(path, shown, text if when else f"{text}, but multiple fields are set")


def _device(device: Object, path: str, *, chooses: bool) -> Iterator[Cause]:
    yield from check_label(f"{path}.name", device.get("name", ""))
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _MOST_NAMES:
        text = f"the total number of attributes and capacities must not exceed {_MOST_NAMES}"
        yield invalid_value(path, count, text)
    for name, value in attributes.items():
        yield from check_identifier(f"{path}.attributes", name)
        yield from _attribute(value, f"{path}.attributes[{name}]")
    shared = device.get("allowMultipleAllocations") is True
    for name, value in capacity.items():
        yield from check_identifier(f"{path}.capacity", name)
        yield from _capacity(value, f"{path}.capacity[{name}]", shared=shared)
    yield from check_items(f"{path}.taints", device.get("taints"), _MOST_TAINTS, _taint)
    yield from check_items(
        f"{path}.consumesCounters",
        device.get("consumesCounters"),
        _MOST_CONSUMED_SETS,
        _consumption,
        lambda used: used.get("counterSet"),
    )
    places = _PLACES[:3]
    if chooses:
        when = " when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        yield from _place(device, path, places, when)
    elif any(device.get(place) is not None for place in places):
        yield invalid_value(
            path,
            AsJson(None),
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec",
        )
    for part in ("bindingConditions", "bindingFailureConditions"):
        found = device.get(part) or ()
        if len(found) > _MOST_CONDITIONS:
            yield too_many(f"{path}.{part}", len(found), _MOST_CONDITIONS)


def _attribute(attribute: Object, path: str) -> Iterator[Cause]:
    kinds = [kind for kind in _KINDS if attribute.get(kind) is not None]
    for kind in ("string", "version"):
        text = attribute.get(kind)
        if text is None:
            continue
        if kind == "version" and not _is_version(text):
            yield invalid_value(
                f"{path}.version", text, "must be a string compatible with semver.org spec 2.0.0"
            )
        if len(text.encode()) > _LONGEST_VALUE:
            yield too_long(f"{path}.{kind}", _LONGEST_VALUE)
    if len(kinds) != 1:
        shown = AsJson(attribute) if kinds else ""
        yield invalid_value(path, shown, "exactly one value must be specified")


def _is_version(text: str) -> bool:
    try:
        Version.parse(text)
    except ObjectError:
        return False
    return True


def _capacity(capacity: Object, path: str, *, shared: bool) -> Iterator[Cause]:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return
    where = f"{path}.requestPolicy"
    if not shared:
        yield forbidden_field(where, "allowMultipleAllocations must be true")
        return
    values, limits = policy.get("validValues"), policy.get("validRange")
    if values and limits is not None:
        yield forbidden_field(
            where,
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
            "at the same time",
        )
        return
    kind = "validValues" if values else "validRange" if limits is not None else ""
    if not kind:
        return
    if policy.get("default") is None:
        yield required(f"{where}.default", f"required when {kind} is defined")
        return
    most, default = _amount(capacity.get("value", "0")), _amount(policy["default"])
    if values:
        yield from _values(values, most, default, f"{where}.validValues")
    else:
        yield from _limits(limits or {}, most, default, f"{where}.validRange")


def _amount(value: Any) -> Quantity:
    return Quantity.parse(str(value))


def _values(values: list[Any], most: Quantity, default: Quantity, path: str) -> Iterator[Cause]:
    amounts = [_amount(value) for value in values]
    for index, amount in enumerate(amounts):
        if index and amount < amounts[index - 1]:
            text = "values must be sorted in ascending order"
            yield invalid_value(f"{path}[{index}]", str(values[index]), text)
        if most < amount:
            text = "option is larger than capacity value"
            yield invalid_value(f"{path}[{index}]", str(values[index]), text)
    if default not in amounts:
        text = "default value is not valid according to the requestPolicy"
        yield invalid_value(path, default.nanos / 1e9, text)


def _limits(limits: Object, most: Quantity, default: Quantity, path: str) -> Iterator[Cause]:
    if limits.get("min") is None:
        yield required(f"{path}.min", "required when validRange is defined")
        return
    low = _amount(limits["min"])
    high = _amount(limits["max"]) if limits.get("max") is not None else most
    if most < low:
        yield invalid_value(f"{path}.min", str(limits["min"]), "min is larger than capacity value")
    if high < low:
        yield invalid_value(f"{path}.max", str(limits["max"]), "max is smaller than min")
    if default < low or high < default:
        text = "default value is not valid according to the requestPolicy"
        yield invalid_value(path, default.nanos / 1e9, text)


def _taint(taint: Object, path: str) -> Iterator[Cause]:
    if not taint.get("key"):
        yield required(f"{path}.key")
    yield from _effect(taint, path)


def _effect(taint: Object, path: str) -> Iterator[Cause]:
    effect = taint.get("effect", "")
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def check_rule(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """Yield the faults of a DeviceTaintRule (Kubernetes 1.37)."""
    spec = obj.get("spec") or {}
    selector = spec.get("deviceSelector") or {}
    path = "spec.deviceSelector"
    if "driver" in selector:
        yield from check_subdomain(f"{path}.driver", selector["driver"])
    for part in selector["pool"].split("/") if "pool" in selector else ():
        yield from check_subdomain(f"{path}.pool", part)
    if "device" in selector:
        yield from check_label(f"{path}.device", selector["device"])
    taint = spec.get("taint") or {}
    key = taint.get("key", "")
    if not key:
        yield invalid_value("spec.taint.key", key, "name part must be non-empty")
    if problem := qualified_name_problem(key or " "):
        yield invalid_value("spec.taint.key", key, problem)
    value = taint.get("value", "")
    if problem := label_value_problem(value):
        yield invalid_value("spec.taint.value", value, problem)
    yield from _effect(taint, "spec.taint")


def fill_rule(obj: Object, old: Object | None, now: str) -> None:
    """Set the time of the taint, and set it again if the effect alone has changed."""
    taint = (obj.get("spec") or {}).get("taint")
    if not isinstance(taint, dict):
        return
    before = {} if old is None else old["spec"].get("taint", {})
    is_changed = bool(before) and taint.get("effect") != before.get("effect")
    if "timeAdded" not in taint or (is_changed and taint["timeAdded"] == before.get("timeAdded")):
        taint["timeAdded"] = now


def _counters(counters: Object, path: str) -> Iterator[Cause]:
    yield from check_label(f"{path}.name", counters.get("name", ""))
    yield from _counter_map(counters.get("counters"), f"{path}.counters")


def _consumption(used: Object, path: str) -> Iterator[Cause]:
    yield from check_label(f"{path}.counterSet", used.get("counterSet", ""))
    yield from _counter_map(used.get("counters"), f"{path}.counters")


def _counter_map(counters: Object | None, path: str) -> Iterator[Cause]:
    if not counters:
        yield required(path)
        return
    if len(counters) > _MOST_COUNTERS:
        yield too_many(path, len(counters), _MOST_COUNTERS)
    for name in counters:
        yield from check_label(path, name)
