"""The scale subresource of workloads and of custom resources that declare one.

`subresources.py` calls `scale`; a Scale is made from and written back to the object's own fields.
"""

from typing import Any, Final

import msgspec

from scheduler.sandbox.api.decoding import read_body
from scheduler.sandbox.api.jsonpath import read
from scheduler.sandbox.api.patching.patch import json_patch, merge_patch
from scheduler.sandbox.api.request import ResourceRequest, not_allowed
from scheduler.sandbox.api.status import Object, invalid, invalid_value
from scheduler.sandbox.api.writing import JSON_PATCH, ApiAnswer
from scheduler.sandbox.store.collection import Stored
from scheduler.sandbox.store.store import ObjectStore

_encode = msgspec.json.Encoder().encode
_BUILT_IN: Final = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": "",
}


def scale(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """GET, PUT or PATCH of a Scale."""
    old = store.get(call.resource, call.namespace, call.name)
    paths = store.rules.scale_paths(call.resource) or _BUILT_IN
    current = _scale_of(old, paths)
    if call.method == "GET":
        return ApiAnswer(200, _encode(current))
    if call.method == "PUT":
        wanted = read_body(call.body, call.content_type)
    elif call.method == "PATCH":
        content: Any = read_body_any(call)
        media = call.content_type.partition(";")[0].strip()
        wanted = (
            json_patch(current, content) if media == JSON_PATCH else merge_patch(current, content)
        )
    else:
        raise not_allowed()
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        cause = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid(call.resource, call.name, [cause])
    obj = _written(old.obj, paths["specReplicasPath"].strip(".").split("."), replicas)
    version = (wanted.get("metadata") or {}).get("resourceVersion")
    meta = dict(obj["metadata"])
    if call.method == "PUT" and version:
        meta["resourceVersion"] = version
    stored = store.update(call.resource, {**obj, "metadata": meta}, dry_run=call.dry_run)
    return ApiAnswer(200, _encode(_scale_of(stored, paths)))


def read_body_any(call: ResourceRequest) -> Any:
    """Return a patch body of any JSON type."""
    return msgspec.json.decode(call.body)


def _scale_of(stored: Stored, paths: Object) -> Object:
    obj = stored.obj
    meta = obj["metadata"]
    shown = {
        name: meta[name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in meta
    }
    status: Object = {"replicas": _number(obj, paths["statusReplicasPath"])}
    selector = _selector(obj, paths)
    if selector:
        status["selector"] = selector
    replicas = _number(obj, paths["specReplicasPath"])
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _number(obj: Object, path: str) -> int:
    found = read(obj, path)
    return int(found[0]) if found else 0


def _selector(obj: Object, paths: Object) -> str:
    path = paths.get("labelSelectorPath")
    if path:
        found = read(obj, path)
        return str(found[0]) if found else ""
    selector = (obj.get("spec") or {}).get("selector") or {}
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def _written(obj: Object, path: list[str], value: int) -> Object:
    step, rest = path[0], path[1:]
    inner = _written(obj.get(step) or {}, rest, value) if rest else value
    return {**obj, step: inner}
