"""Request bodies to objects, as strictly as kube-apiserver decodes them.

Unknown fields are dropped and named (a warning, or an error with `fieldValidation=Strict`), wrong
types are a 400, quantities get their canonical spelling, nulls disappear. The server calls
`read_body` and then `clean`; CRDs' own fields are left to their schema.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import yaml

from scheduler.controlplane.defaults import NO_NODE_INFO
from scheduler.controlplane.quantities import canonical
from scheduler.sandbox.api.protobuf import MEDIA_TYPE, read_protobuf
from scheduler.sandbox.api.status import Object, StatusError, bad_request, failure
from scheduler.sandbox.kinds.kinds import RELEASES, Resource
from scheduler.sandbox.kinds.typetable import TypeShape, type_table

_decode = msgspec.json.Decoder().decode
_NOTHING: Final[Object] = {}
_Path = tuple[Any, ...]
_GO_NAMES: Final = {
    "bool": "bool",
    "bytes": "[]uint8",
    "int32": "int32",
    "int64": "int64",
    "number": "float64",
    "string": "string",
}


def read_body(body: bytes, content_type: str, kind: str = "") -> Object:
    """Parse a JSON or YAML body; 400 when it is malformed, 415 for other media types."""
    media = content_type.partition(";")[0].strip().lower()
    if media == MEDIA_TYPE:
        return read_protobuf(body)
    if media in ("application/yaml", "application/x-yaml"):
        try:
            found = yaml.safe_load(body)
        except yaml.YAMLError as fault:
            raise _unrecognized(kind, f"yaml: {fault}") from fault
    elif media in ("", "*/*", "application/octet-stream", "text/plain") or "json" in media:
        try:
            found = _decode(body) if body else {}
        except msgspec.DecodeError as fault:
            raise _unrecognized(kind, f"json parse error: {fault}") from fault
    else:
        raise failure(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )
    if not isinstance(found, dict):
        wrong = (
            f"json parse error: json: cannot unmarshal {_json_name(found)} into Go value of "
            "type struct"
        )
        raise _unrecognized(kind, wrong)
    return found


def _unrecognized(kind: str, fault: str) -> StatusError:
    about = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
    return bad_request(f"{about}couldn't get version/kind; {fault}")


def check_kind(resource: Resource, obj: Object) -> None:
    """Reject a body with another apiVersion or kind; fill in missing ones."""
    version, kind = obj.get("apiVersion"), obj.get("kind")
    shown = kind or resource.kind
    fault = ""
    if version and version != resource.api_version:
        fault = (
            f'no kind "{shown}" is registered for version "{version}" '
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    elif kind and kind != resource.kind:
        fault = (
            f"converting ({resource.version}.{kind}) to "
            f"({resource.group or 'core'}.{resource.kind}): unknown conversion"
        )
    if fault:
        raise bad_request(
            f'{shown} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {fault}"
        )
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind


def clean(
    resource: Resource,
    obj: Object,
    release: str = RELEASES[0],
    *,
    strict: bool = False,
    fill: bool = True,
) -> list[str]:
    """Convert an object into stored form in place; return warnings for unknown fields.

    Fields that `release` knows, but whose gates are off, are dropped without a warning, as
    kube-apiserver does. `fill` adds the fields that are also written when empty; partial objects do
    not need them.
    """
    shape = type_table().of_resource(resource)
    gated = {} if release == RELEASES[0] else type_table().gated
    walk = _Walk(_ALWAYS_SHOWN if fill else {}, gated)
    try:
        if shape is not None:
            walk.struct(obj, shape, ())
        elif isinstance(obj.get("metadata"), dict):
            walk.struct(obj["metadata"], type_table().shape("meta.v1.ObjectMeta"), ("metadata",))
    except _WrongTypeError as fault:
        raise _undecodable(resource, str(fault)) from None
    unknown = [f'unknown field "{path}"' for path in walk.unknown]
    if unknown and strict:
        raise unknown_fields(resource, unknown)
    return unknown


def unknown_fields(resource: Resource, texts: list[str]) -> StatusError:
    """Return 400: strict validation found fields that the kind does not have."""
    fault = "strict decoding error: " + ", ".join(texts)
    return _undecodable(resource, fault)


def _undecodable(resource: Resource, fault: str) -> StatusError:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {fault}"
    )


# kube-apiserver: these fields are written out also when they are empty.
_ALWAYS_SHOWN: Final[dict[str, Object]] = {
    "core.v1.Event": {
        "eventTime": None,
        "firstTimestamp": None,
        "lastTimestamp": None,
        "source": {},
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "core.v1.PodTemplateSpec": {"metadata": {}},
    "batch.v1.JobTemplateSpec": {"metadata": {}},
    "storage.v1.CSINodeDriver": {"topologyKeys": None},
    "core.v1.PodCondition": {"lastProbeTime": None, "lastTransitionTime": None},
    "core.v1.NodeCondition": {"lastHeartbeatTime": None, "lastTransitionTime": None},
    "core.v1.NodeDaemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
    "core.v1.NodeSystemInfo": NO_NODE_INFO,
}


class _WrongTypeError(Exception):
    """A value of the wrong JSON type."""


class _Walk:
    def __init__(self, shown: dict[str, Object], gated: dict[str, frozenset[str]]) -> None:
        self.unknown: list[str] = []
        self._shown = shown
        self._gated = gated

    def struct(self, obj: Object, shape: TypeShape, path: _Path) -> None:
        fields = shape.fields or {}
        for name in list(obj):
            field = fields.get(name)
            value = obj[name]
            if field is None:
                if name not in self._gated.get(shape.name, ()):
                    self.unknown.append(_written((*path, name)))
                del obj[name]
            elif value is None:
                # The only one that kube-apiserver itself writes as null.
                if name not in {"lastProbeTime", "lastTransitionTime"}:
                    del obj[name]
            else:
                inner = field.shape
                known = value.__class__
                if (known is str and inner.name == "string") or (
                    known is int and inner.name in ("int32", "int64")
                ):
                    continue
                obj[name] = self.value(value, inner, (*path, name), shape)
                if value == [] or (value == {} and inner.inner is not None):
                    del obj[name]

        for name, empty in self._shown.get(shape.name, _NOTHING).items():
            if name not in obj:
                obj[name] = dict(empty) if isinstance(empty, dict) else empty

    def value(self, value: Any, shape: TypeShape, path: _Path, owner: TypeShape) -> Any:
        if shape.fields is not None:
            if not isinstance(value, dict):
                raise _wrong(value, shape, path, owner)
            self.struct(value, shape, path)
            return value
        if shape.inner is None:
            if value is None and shape.name == "string":
                return ""  # kube-apiserver: in a map or list null leaves a text empty
            check = _CHECKS[shape.name]
            try:
                return check(value)
            except TypeError:
                raise _wrong(value, shape, path, owner) from None
            except ValueError as fault:
                raise _WrongTypeError(str(fault)) from None
        if shape.is_list:
            if not isinstance(value, list):
                raise _wrong(value, shape, path, owner)
            for index, part in enumerate(value):
                value[index] = self.value(part, shape.inner, (*path, index), owner)
            return value
        if not isinstance(value, dict):
            raise _wrong(value, shape, path, owner)
        for name, part in value.items():
            value[name] = self.value(part, shape.inner, (*path, name), owner)
        return value


def _wrong(value: Any, shape: TypeShape, path: _Path, owner: TypeShape) -> _WrongTypeError:
    where = ".".join(step for step in path if isinstance(step, str))
    return _WrongTypeError(
        f"json: cannot unmarshal {_json_name(value)} into Go struct field "
        f"{owner.name.rpartition('.')[2]}.{where} of type {_go_name(shape)}"
    )


def _go_name(shape: TypeShape) -> str:
    if shape.inner is not None:
        return ("[]" if shape.is_list else "map[string]") + _go_name(shape.inner)
    if shape.name in _GO_NAMES:
        return _GO_NAMES[shape.name]
    return ".".join(shape.name.split(".")[-2:])


def _json_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", int: "number", float: "number", dict: "object", list: "array"}
    return names.get(type(value), "value")


def _written(path: _Path) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else str(step))
    return text


def _exactly(kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value.__class__ is not kind:
            raise TypeError
        return value

    return check


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _quantity(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return canonical(value)


def _int_or_string(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError
    return value


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    "any": lambda value: value,
    "bool": _exactly(bool),
    "bytes": _exactly(str),
    "int32": _exactly(int),
    "int64": _exactly(int),
    "intstr": _int_or_string,
    "microtime": _exactly(str),
    "number": _number,
    "quantity": _quantity,
    "string": _exactly(str),
    "time": _exactly(str),
}
