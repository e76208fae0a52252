"""Validation of ResourceClaims, their templates and DeviceClasses, with kube-apiserver's messages.

Selectors are compiled here, so an invalid one is rejected when it is written. Called by
`objectchecks` for whole objects and by `defaults` for a claim's status. (Rules: resource.k8s.io/v1
of Kubernetes 1.36.)
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from scheduler.cel import COST_LIMIT, LONGEST_TEXT, CelCompileError, compile_selector
from scheduler.sandbox.api.status import (
    AsJson,
    Cause,
    Object,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from scheduler.sandbox.store.collection import field

MOST_REQUESTS: Final = 32
MOST_ALTERNATIVES: Final = 8
MOST_TOLERATIONS: Final = 16
MOST_USERS: Final = 256
EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_IMMUTABLE: Final = "field is immutable"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_DRIVER: Final = 63
_LONGEST_ID: Final = 32
_LONGEST_PARAMETERS: Final = 10 * 1024
_LABEL_WRONG: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_WRONG: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    r"validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NOT_PLANNED: Final = "program instantiation failed"
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated "
    "by '/'"
)


def too_many(path: str, found: int, most: int) -> Cause:
    """Return the cause for a list with too many items."""
    return Cause("FieldValueTooMany", path, f"Too many: {found}: must have at most {most} items")


def too_long(path: str, most: int) -> Cause:
    """Return the cause for a text with too many bytes."""
    return Cause("FieldValueTooLong", path, f"Too long: may not be more than {most} bytes")


def duplicate(path: str, value: Any) -> Cause:
    """Return the cause for a duplicate value in a set."""
    return Cause("FieldValueDuplicate", path, f"Duplicate value: {AsJson(value)}")


def check_items(
    path: str,
    items: list[Any] | None,
    most: int,
    check: Callable[[Any, str], Iterator[Cause]],
    key: Callable[[Any], Any] | None = None,
) -> Iterator[Cause]:
    """Check each item of a list, its length, and that no key occurs twice."""
    found = items or []
    seen: set[Any] = set()
    for index, item in enumerate(found):
        yield from check(item, f"{path}[{index}]")
        if key is not None:
            name = key(item)
            if name in seen:
                yield duplicate(f"{path}[{index}]", name)
            seen.add(name)
    if len(found) > most:
        yield too_many(path, len(found), most)


def check_label(path: str, name: str) -> Iterator[Cause]:
    """Check a DNS label: the name of a request, a device, a counter."""
    if not name:
        yield required(path)
    elif not _LABEL.fullmatch(name):
        yield invalid_value(path, name, _LABEL_WRONG)


def check_name(path: str, name: str, most: int = _LONGEST_SUBDOMAIN) -> Iterator[Cause]:
    """Check a DNS subdomain that must be there: the name of a class, a driver."""
    if name:
        yield from check_subdomain(path, name, most)
    else:
        yield required(path)


def check_subdomain(path: str, name: str, most: int = _LONGEST_SUBDOMAIN) -> Iterator[Cause]:
    """Check a DNS subdomain, for instance a part of a pool's name."""
    if len(name) > most:
        yield too_long(path, most)
    elif not _SUBDOMAIN.fullmatch(name):
        yield invalid_value(path, name, _SUBDOMAIN_WRONG)


def check_driver(path: str, name: str) -> Iterator[Cause]:
    """Check the name of a driver; capital letters pass, as in names of CSI drivers."""
    if not name:
        yield required(path)
    elif any(check_subdomain(path, name.lower(), _LONGEST_DRIVER)):
        yield from check_subdomain(path, name, _LONGEST_DRIVER)


def check_identifier(path: str, name: str) -> Iterator[Cause]:
    """Check the name of an attribute or a capacity, `id` or `domain/id`."""
    domain, slash, ident = name.rpartition("/")
    if slash:
        if not domain:
            yield invalid_value(path, domain, "the domain must not be empty")
        else:
            yield from check_subdomain(path, domain.lower(), _LONGEST_DRIVER)
    if not ident:
        yield invalid_value(path, ident, "the name must not be empty")
    elif not _IDENTIFIER.fullmatch(ident):
        yield invalid_value(
            path,
            ident,
            "a valid C identifier must start with alphabetic character or '_', followed by a "
            "string "
            "of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex "
            "used for validation is '[A-Za-z_][A-Za-z0-9_]*')",
        )
    elif len(ident) > _LONGEST_ID:
        yield too_long(path, _LONGEST_ID)


def check_selector(selector: Object, path: str) -> Iterator[Cause]:
    """Check a selector: its CEL must compile, and may not cost too much at worst."""
    if selector.get("cel") is None:
        yield required(f"{path}.cel")
        return
    where = f"{path}.cel.expression"
    text = selector["cel"].get("expression", "")
    if len(text.encode()) > LONGEST_TEXT:
        yield too_long(where, LONGEST_TEXT)
        return
    try:
        program = compile_selector(text)
    except CelCompileError as error:
        if error.message.startswith(_NOT_PLANNED):
            # kube-apiserver: an error found while planning a typed text counts as its own fault.
            yield Cause("InternalError", where, f"Internal error: {error.message}")
        else:
            yield invalid_value(where, text, error.message)
        return
    if program.max_cost > COST_LIMIT:
        yield forbidden_field(where, "too complex, exceeds cost limit")


def check_class(obj: Object, _old: Object | None) -> Iterator[Cause]:
    """Yield the faults of a DeviceClass."""
    spec = obj.get("spec") or {}
    yield from check_items("spec.selectors", spec.get("selectors"), MOST_REQUESTS, check_selector)
    yield from check_items("spec.config", spec.get("config"), MOST_REQUESTS, _configuration)
    name = spec.get("extendedResourceName")
    if name is not None and not _is_extended(name):
        yield invalid_value(
            "spec.extendedResourceName", name, "must be a valid extended resource name"
        )


def check_claim(obj: Object, old: Object | None) -> Iterator[Cause]:
    """Yield the faults of a ResourceClaim; its spec is immutable."""
    yield from _immutable_or_checked(obj, old, "spec", obj.get("spec") or {})


def check_template(obj: Object, old: Object | None) -> Iterator[Cause]:
    """Yield the faults of a ResourceClaimTemplate; its spec is immutable."""
    yield from _immutable_or_checked(obj, old, "spec.spec", field(obj, "spec", "spec") or {})


def _immutable_or_checked(
    obj: Object, old: Object | None, path: str, spec: Object
) -> Iterator[Cause]:
    if old is None:
        yield from _devices(spec.get("devices") or {}, f"{path}.devices")
    elif obj.get("spec") != old.get("spec"):
        yield invalid_value("spec", AsJson(obj.get("spec")), _IMMUTABLE)


def check_status(obj: Object, old: Object) -> Iterator[Cause]:
    """Yield the faults of a new status of a claim."""
    status, before = obj.get("status") or {}, old.get("status") or {}
    users = status.get("reservedFor") or []
    yield from check_items(
        "status.reservedFor", users, MOST_USERS, _user, lambda user: user.get("uid")
    )
    allocation, current = status.get("allocation"), before.get("allocation")
    if users and allocation is None:
        yield forbidden_field(
            "status.reservedFor", "may not be specified when `allocated` is not set"
        )
    elif users and "deletionTimestamp" in old["metadata"]:
        known = before.get("reservedFor") or []
        if any(user not in known for user in users):
            yield forbidden_field(
                "status.reservedFor",
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set",
            )
    if current is not None and allocation is not None:
        if current != allocation:
            yield invalid_value("status.allocation", AsJson(allocation), _IMMUTABLE)
    elif allocation is not None:
        yield from _allocation(allocation, _request_names(obj))


def _user(user: Object, path: str) -> Iterator[Cause]:
    for part in ("resource", "name", "uid"):
        if not user.get(part):
            yield required(f"{path}.{part}")


def _allocation(allocation: Object, names: set[str]) -> Iterator[Cause]:
    devices = allocation.get("devices") or {}

    def result(item: Object, path: str) -> Iterator[Cause]:
        yield from _reference(item.get("request", ""), f"{path}.request", names)
        yield from check_driver(f"{path}.driver", item.get("driver", ""))
        for part in item.get("pool", "").split("/"):
            yield from check_subdomain(f"{path}.pool", part)
        yield from check_label(f"{path}.device", item.get("device", ""))

    path = "status.allocation.devices"
    yield from check_items(f"{path}.results", devices.get("results"), MOST_REQUESTS, result)
    yield from check_items(
        f"{path}.config", devices.get("config"), 2 * MOST_REQUESTS, _configuration
    )


def _request_names(obj: Object) -> set[str]:
    """Return the names that refer to a claim's requests, `request` and `request/alternative`."""
    names: set[str] = set()
    for request in field(obj, "spec", "devices", "requests") or ():
        names.add(request["name"])
        for part in request.get("firstAvailable") or ():
            names.add(f"{request['name']}/{part['name']}")
    return names


def _reference(name: str, path: str, names: set[str]) -> Iterator[Cause]:
    parts = name.split("/")
    if len(parts) <= 2:
        for part in parts:
            yield from check_label(path, part)
    if name not in names:
        yield invalid_value(path, name, _NO_REQUEST)


def _devices(devices: Object, path: str) -> Iterator[Cause]:
    names = _request_names({"spec": {"devices": devices}})

    def constraint(item: Object, where: str) -> Iterator[Cause]:
        yield from _references(item, where, names)
        for kind in ("matchAttribute", "distinctAttribute"):
            if item.get(kind) is not None:
                yield from _full_name(f"{where}.{kind}", item[kind])
                return
        yield required(
            where,
            'exactly one of "matchAttribute" or "distinctAttribute" is required, '
            "but multiple fields are set",
        )

    def config(item: Object, where: str) -> Iterator[Cause]:
        yield from _references(item, where, names)
        yield from _configuration(item, where)

    yield from check_items(
        f"{path}.requests",
        devices.get("requests"),
        MOST_REQUESTS,
        _request,
        lambda request: request.get("name"),
    )
    constraints = devices.get("constraints")
    yield from check_items(f"{path}.constraints", constraints, MOST_REQUESTS, constraint)
    yield from check_items(f"{path}.config", devices.get("config"), MOST_REQUESTS, config)


def _references(item: Object, path: str, names: set[str]) -> Iterator[Cause]:
    yield from check_items(
        f"{path}.requests",
        item.get("requests"),
        MOST_REQUESTS,
        lambda name, where: _reference(name, where, names),
        lambda name: name,
    )


def _full_name(path: str, name: str) -> Iterator[Cause]:
    if not name:
        yield required(path)
    elif "/" not in name:
        yield invalid_value(
            path, name, "a fully qualified name must be a domain and a name separated by a slash"
        )
    else:
        yield from check_identifier(path, name)


def _request(request: Object, path: str) -> Iterator[Cause]:
    yield from check_label(f"{path}.name", request.get("name", ""))
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    one_of = "exactly one of `exactly` or `firstAvailable` is required"
    if exactly is None and not alternatives:
        yield required(path, one_of)
    elif exactly is not None and alternatives:
        yield invalid_value(path, AsJson(None), f"{one_of}, but multiple fields are set")
    elif exactly is not None:
        yield from _wanted(exactly, f"{path}.exactly")
    else:
        yield from check_items(
            f"{path}.firstAvailable",
            alternatives,
            MOST_ALTERNATIVES,
            _alternative,
            lambda part: part.get("name"),
        )


def _alternative(request: Object, path: str) -> Iterator[Cause]:
    yield from check_label(f"{path}.name", request.get("name", ""))
    yield from _wanted(request, path)


def _wanted(request: Object, path: str) -> Iterator[Cause]:
    yield from check_name(f"{path}.deviceClassName", request.get("deviceClassName", ""))
    yield from check_items(
        f"{path}.selectors", request.get("selectors"), MOST_REQUESTS, check_selector
    )
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode == "All":
        if count:
            text = "must not be specified when allocationMode is 'All'"
            yield invalid_value(f"{path}.count", count, text)
    elif mode != "ExactCount":
        yield not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))
    elif count <= 0:
        yield invalid_value(f"{path}.count", count, "must be greater than zero")
    yield from check_items(
        f"{path}.tolerations", request.get("tolerations"), MOST_TOLERATIONS, _toleration
    )


def _toleration(toleration: Object, path: str) -> Iterator[Cause]:
    operator = toleration.get("operator", "")
    if operator == "Exists":
        if toleration.get("value"):
            text = "must be empty for operator `Exists`"
            yield invalid_value(f"{path}.value", toleration["value"], text)
    elif operator != "Equal":
        yield not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    effect = toleration.get("effect")
    if effect and effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)


def _configuration(config: Object, path: str) -> Iterator[Cause]:
    opaque = config.get("opaque")
    if opaque is None:
        yield required(f"{path}.opaque")
        return
    yield from check_driver(f"{path}.opaque.driver", opaque.get("driver", ""))
    parameters = opaque.get("parameters")
    if parameters is None:
        yield required(f"{path}.opaque.parameters")
    elif not isinstance(parameters, dict):
        yield invalid_value(
            f"{path}.opaque.parameters", "<value omitted>", "must be a valid JSON object"
        )
    elif len(str(AsJson(parameters))) > _LONGEST_PARAMETERS:
        yield too_long(f"{path}.opaque.parameters", _LONGEST_PARAMETERS)


def _is_extended(name: str) -> bool:
    domain, slash, rest = name.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash and rest and domain) and not own and not name.startswith("requests.")
