"""create, update, patch, delete and deletecollection of whole objects and their status.

`server.py` calls one function per method; each returns an `ApiAnswer`. Bodies are decoded strictly
here, rules and storage are the store's. A patch is read, applied and written in one step, so it
never loses a race.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import yaml

from scheduler.sandbox.api import reading
from scheduler.sandbox.api.conversion import from_storage, to_storage
from scheduler.sandbox.api.decoding import check_kind, clean, read_body, unknown_fields
from scheduler.sandbox.api.patching import written
from scheduler.sandbox.api.patching.apply import apply_object
from scheduler.sandbox.api.patching.patch import json_patch, merge_patch
from scheduler.sandbox.api.patching.strategic import strategic_merge
from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.selectors import matcher
from scheduler.sandbox.api.status import (
    Cause,
    Object,
    StatusError,
    bad_options,
    bad_request,
    failure,
    forbidden_field,
    invalid,
    invalid_value,
    not_found,
    not_supported,
    success,
)
from scheduler.sandbox.kinds.kinds import CONFIGMAPS, EVENTS_V1, LEASES, NAMESPACES, Resource
from scheduler.sandbox.kinds.objectchecks import check_event
from scheduler.sandbox.kinds.typetable import type_table
from scheduler.sandbox.store.metadata import check_unrenamed
from scheduler.sandbox.store.store import Deletion, ObjectStore

_encode = msgspec.json.Encoder().encode
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
_STATUS_PARTS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
APPLY_PATCH: Final = "application/apply-patch+yaml"


@dataclass(slots=True)
class ApiAnswer:
    """A finished answer: HTTP status, JSON bytes, warnings about the request."""

    code: int
    body: bytes
    warnings: list[str] = field(default_factory=list)


def create(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle POST of an object; 201."""
    obj = read_body(call.body, call.content_type, call.resource.kind)
    warnings = decode_into(store, call, obj)
    if (obj.get("metadata") or {}).get("resourceVersion"):
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    if call.resource is EVENTS_V1 and (causes := check_event(obj)):
        raise invalid(call.resource, (obj.get("metadata") or {}).get("name", ""), causes)
    _note_writer(store, call, obj)
    return _created(store, call, obj, warnings, owned=True)


def update(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle PUT of an object or its status; 200, or 201 where a PUT may create."""
    obj = read_body(call.body, call.content_type, call.resource.kind)
    warnings = decode_into(store, call, obj)
    _check_name(call, obj)
    _check_binding(store, call, obj)
    if call.resource.custom and not obj["metadata"].get("resourceVersion"):
        raise _version_missing(call)
    _note_writer(store, call, obj)
    if _makes(store, call, obj):
        return _created(store, call, obj, warnings, owned=True)
    return _updated(store, call, obj, warnings, owned=True)


def _makes(store: ObjectStore, call: ResourceRequest, obj: Object) -> bool:
    """Return whether a PUT creates the object: a lease that does not exist, without a version."""
    if call.resource.storage != LEASES.storage or obj["metadata"].get("resourceVersion"):
        return False
    return store.find(call.resource, call.namespace, call.name) is None


def _created(
    store: ObjectStore,
    call: ResourceRequest,
    obj: Object,
    warnings: list[str],
    *,
    owned: bool = False,
) -> ApiAnswer:
    stored = store.create(
        call.resource,
        to_storage(call.resource, obj),
        call.namespace,
        dry_run=call.dry_run,
        owned=owned,
    )
    return ApiAnswer(201, reading.body_of(call.resource, stored), warnings)


def _updated(
    store: ObjectStore,
    call: ResourceRequest,
    obj: Object,
    warnings: list[str],
    *,
    owned: bool = False,
) -> ApiAnswer:
    stored = store.update(
        call.resource,
        to_storage(call.resource, obj),
        subresource=call.subresource,
        dry_run=call.dry_run,
        owned=owned,
    )
    return ApiAnswer(200, reading.body_of(call.resource, stored), warnings)


def _version_missing(call: ResourceRequest) -> StatusError:
    # kube-apiserver: has the plural where the kind belongs.
    named = replace(call.resource, kind=call.resource.plural)
    cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
    return invalid(named, call.name, [cause])


def patch(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle PATCH of an object or its status in any of the four patch types."""
    media = call.content_type.partition(";")[0].strip()
    if media == APPLY_PATCH:
        return _apply(store, call)
    old = store.get(call.resource, call.namespace, call.name)
    before = from_storage(call.resource, old.obj)
    if call.subresource == "status" and media != JSON_PATCH:
        # No other field can change, so no other field must be merged, checked and pruned.
        before = {name: part for name, part in before.items() if name in _STATUS_PARTS}
    obj = _patched(call.resource, before, media, call.body)
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    warnings = decode_into(store, call, obj)
    _check_name(call, obj)
    check_unrenamed(call.resource, obj, before, store.kinds.release)
    _check_binding(store, call, obj)
    _note_writer(store, call, obj)
    return _updated(store, call, obj, warnings)


def _patched(resource: Resource, before: Object, media: str, body: bytes) -> Object:
    if media == STRATEGIC_PATCH and resource.custom:
        media = ""
    if media not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise _unsupported(resource)
    try:
        content: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        raise bad_request("error decoding patch: unexpected end of JSON input") from None
    if media == JSON_PATCH:
        return json_patch(before, content)
    if not isinstance(content, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type "
            "map[string]interface {}"
        )
    if media == MERGE_PATCH:
        merged: Object = merge_patch(before, content)
        return merged
    return strategic_merge(before, content, type_table().of_resource(resource))


def _unsupported(resource: Resource) -> StatusError:
    if not resource.custom:
        return failure(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    return failure(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}",
    )


def _apply(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    manager = call.option("fieldManager")
    if not manager:
        fault = "Required value: is required for apply patch"
        raise bad_options("PatchOptions", Cause("FieldValueRequired", "fieldManager", fault))
    try:
        config = yaml.safe_load(call.body)
    except yaml.YAMLError as fault:
        raise bad_request(f"error decoding YAML: {fault}") from fault
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: the body is not an object")
    warnings = decode_into(store, call, config, fill=False)
    _check_name(call, config)
    old = store.find(call.resource, call.namespace, call.name)
    merged = apply_object(
        store, call.resource, config, old, manager, force=call.flag("force"), sub=call.subresource
    )
    clean(call.resource, merged)
    _check_binding(store, call, merged)
    if old is None:
        if call.subresource:
            raise not_found(call.resource, call.name)
        return _created(store, call, merged, warnings)
    return _updated(store, call, merged, warnings)


def delete(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle DELETE of one object: return its last state while it has finalizers, else a Status."""
    options = deletion_of(call)
    before = store.get(call.resource, call.namespace, call.name)
    stored = store.delete(call.resource, call.namespace, call.name, options)
    current = store.find(call.resource, call.namespace, call.name)
    if _answers_with_object(call.resource) or (current is not None and not options.dry_run):
        return ApiAnswer(200, reading.body_of(call.resource, stored))
    return ApiAnswer(200, _encode(success(call.resource, call.name, before.uid)))


def delete_collection(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle DELETE of a collection; return the list of the deleted objects."""
    options = deletion_of(call)
    accepts = matcher(call.resource, call.option("labelSelector"), call.option("fieldSelector"))
    removed = [
        store.delete(call.resource, stored.namespace, stored.name, options)
        for stored in store.list(call.resource, call.namespace)
        if accepts is None or accepts(stored.obj)
    ]
    return ApiAnswer(
        200, reading.list_body(call.resource, reading.ListPage(removed, store.version))
    )


def deletion_of(call: ResourceRequest) -> Deletion:
    """Return the options of a delete from query and body; 400 and 422 for invalid ones."""
    body = read_body(call.body, call.content_type) if call.body else {}
    conditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if grace is None and call.option("gracePeriodSeconds"):
        grace = call.number("gracePeriodSeconds")
    if grace is not None and grace < 0:
        grace = 1
    propagation = body.get("propagationPolicy") or call.option("propagationPolicy")
    if propagation not in (None, "", "Orphan", "Background", "Foreground"):
        allowed = ("Foreground", "Background", "Orphan", "nil")
        raise bad_options("DeleteOptions", not_supported("propagationPolicy", propagation, allowed))
    orphan = body.get("orphanDependents")
    if orphan is None and call.option("orphanDependents"):
        orphan = call.flag("orphanDependents")
    if orphan and not propagation:
        propagation = "Orphan"
    return Deletion(
        grace_period_s=grace,
        uid=conditions.get("uid") or "",
        resource_version=conditions.get("resourceVersion") or "",
        propagation=propagation or "",
        dry_run=call.dry_run or bool(body.get("dryRun")),
    )


def decode_into(
    store: ObjectStore, call: ResourceRequest, obj: Object, *, fill: bool = True
) -> list[str]:
    """Check and clean a body in place; returns warnings."""
    check_kind(call.resource, obj)
    if not isinstance(obj.get("metadata", {}), dict | None):
        raise bad_request("metadata must be an object")
    warnings = clean(call.resource, obj, store.kinds.release, strict=call.strict, fill=fill)
    if call.resource.custom:
        removed = store.rules.prune(call.resource, obj)
        unknown = [f'unknown field "{path}"' for path in removed]
        if unknown and call.strict:
            raise unknown_fields(call.resource, unknown)
        warnings += unknown
    return [] if call.option("fieldValidation") == "Ignore" else warnings


def _check_binding(store: ObjectStore, call: ResourceRequest, obj: Object) -> None:
    """Reject changes of a claim's allocation and reservations by users without that right."""
    if not call.may_not_bind:
        return
    old = store.find(call.resource, call.namespace, call.name)
    before = (old.obj.get("status") or {}) if old is not None else {}
    status = obj.get("status") or {}
    if any(status.get(part) != before.get(part) for part in ("allocation", "reservedFor")):
        cause = forbidden_field("status.allocation", call.may_not_bind)
        raise invalid(call.resource, call.name, [cause])


def _note_writer(store: ObjectStore, call: ResourceRequest, obj: Object) -> None:
    """Record which manager sets which fields, for kinds where that is stored."""
    if call.resource.storage != CONFIGMAPS.storage:
        return
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    old = store.find(call.resource, call.namespace, call.name) if call.name else None
    manager = call.option("fieldManager") or call.agent.partition("/")[0]
    written.note(obj, None if old is None else old.obj, manager, store.now())


def _check_name(call: ResourceRequest, obj: Object) -> None:
    meta = obj.get("metadata")
    if meta is None:
        meta = obj["metadata"] = {}
    sent = meta.get("name")
    if sent and sent != call.name:
        raise bad_request(
            f"the name of the object ({sent}) does not match the name on the URL ({call.name})"
        )
    if not sent and call.method == "PUT":
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: "
            "name must be provided"
        )
    meta["name"] = call.name
    if call.resource.namespaced:
        if meta.get("namespace", call.namespace) != call.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        meta["namespace"] = call.namespace
    _check_version(meta)


def _check_version(meta: Object) -> None:
    version = meta.get("resourceVersion")
    if version and not version.isdigit():
        # kube-apiserver: returned as a plain 500 without a reason.
        raise failure(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')


def _answers_with_object(resource: Resource) -> bool:
    """Return whether a completed deletion is answered with the object, as kube-apiserver does for
    some kinds.
    """
    return resource.storage in _OBJECT_AFTER_DELETE


_OBJECT_AFTER_DELETE: Final = frozenset(
    {
        "pods",
        "services",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "resourcequotas",
        "storageclasses.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        NAMESPACES.storage,
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
    }
)
