"""binding, eviction, scale and the other subresources that are more than a part of an object.

`server.py` calls this for every subresource except status. Texts and codes are kube-apiserver's:
schedulers and drains react to them.
"""

from typing import Final

import msgspec

from scheduler.base.clock import rfc3339
from scheduler.sandbox.access.access import AccessControl
from scheduler.sandbox.api import budgets, scaling
from scheduler.sandbox.api.decoding import clean, read_body
from scheduler.sandbox.api.request import ResourceRequest, not_allowed
from scheduler.sandbox.api.status import (
    Cause,
    Object,
    StatusError,
    bad_request,
    conflict,
    failure,
    invalid,
    invalid_value,
    not_supported,
    precondition,
    required,
)
from scheduler.sandbox.api.writing import ApiAnswer, patch, update
from scheduler.sandbox.kinds.kinds import BINDINGS, NAMESPACES, PODS, SERVICEACCOUNTS, Resource
from scheduler.sandbox.kinds.podadmission import topology_labels
from scheduler.sandbox.store import metadata
from scheduler.sandbox.store.store import ObjectStore

_encode = msgspec.json.Encoder().encode
_BOUND: Final = _encode(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)
_TOKEN_REQUEST: Final = Resource(
    "authentication.k8s.io", "v1", "TokenRequest", "tokenrequests", "tokenrequest"
)
_TOKEN_LIFETIME_S: Final = 3600
_SHORTEST_TOKEN_S: Final = 600
_POD_BINDING: Final = Resource("", "v1", "Binding", "pods/binding", "binding")


def handle(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Answer a request for a subresource other than status."""
    if call.subresource == "binding" and call.method == "POST":
        return bind(store, call, _body(call, BINDINGS))
    if call.subresource == "eviction" and call.method == "POST":
        return budgets.evict(store, call, read_body(call.body, call.content_type))
    if call.subresource == "scale":
        return scaling.scale(store, call)
    if call.subresource in ("ephemeralcontainers", "resize"):
        return patch(store, call) if call.method == "PATCH" else update(store, call)
    if call.subresource == "finalize" and call.resource is NAMESPACES:
        return finalize(store, call)
    if call.subresource == "log" and call.method == "GET":
        store.get(call.resource, call.namespace, call.name)
        return ApiAnswer(200, b"")
    raise not_allowed()


def _body(call: ResourceRequest, resource: Resource) -> Object:
    obj = read_body(call.body, call.content_type)
    kind = obj.get("kind")
    if kind and kind != resource.kind:
        raise bad_request(f"expected a {resource.kind}, got a {kind}")
    clean(resource, obj)
    return obj


def bind_by_collection(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle POST to /bindings: the pod is named in the body."""
    obj = _body(call, BINDINGS)
    call.name = (obj.get("metadata") or {}).get("name", "")
    return bind(store, call, obj)


def bind(store: ObjectStore, call: ResourceRequest, binding: Object) -> ApiAnswer:
    """Assign a pod to a node, once."""
    target = binding.get("target") or {}
    meta = binding.get("metadata") or {}
    _check_target(call, meta, target)
    old = store.get(PODS, call.namespace, call.name)
    pod = old.obj
    _check_bindable(call.name, pod, meta)
    if call.dry_run:
        return ApiAnswer(201, _BOUND)
    status = dict(pod.get("status") or {})
    status.pop("nominatedNodeName", None)
    status["conditions"] = _scheduled(status.get("conditions") or [], store.now())
    kept = dict(pod["metadata"])
    if meta.get("annotations"):
        kept["annotations"] = {**(kept.get("annotations") or {}), **meta["annotations"]}
    labels = topology_labels(store, target["name"])
    if labels:
        kept["labels"] = {**(kept.get("labels") or {}), **labels}
    new = {
        **pod,
        "metadata": kept,
        "spec": {**pod["spec"], "nodeName": target["name"]},
        "status": status,
    }
    store.replace(PODS, old, new)
    return ApiAnswer(201, _BOUND)


def _check_target(call: ResourceRequest, meta: Object, target: Object) -> None:
    causes: list[Cause] = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(not_supported("target.kind", target.get("kind"), ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:
        # kube-apiserver: this validation error is returned as a plain 500 without a reason.
        text = ", ".join(f"{cause.field}: {cause.message}" for cause in causes)
        raise failure(500, "", text if len(causes) == 1 else f"[{text}]")
    name = meta.get("name")
    if name and name != call.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.name})"
        )


def _check_bindable(name: str, pod: Object, meta: Object) -> None:
    uid = meta.get("uid")
    if uid and uid != pod["metadata"]["uid"]:
        raise metadata.uid_mismatch(PODS, pod["metadata"], uid)
    version = meta.get("resourceVersion")
    if version and version != pod["metadata"]["resourceVersion"]:
        raise precondition(
            PODS,
            name,
            pod["metadata"]["namespace"],
            f"ResourceVersion in precondition: {version}, "
            f"ResourceVersion in object meta: {pod['metadata']['resourceVersion']}",
        )
    if "deletionTimestamp" in pod["metadata"]:
        raise _refused(name, f"pod {name} is being deleted, cannot be assigned to a host")
    node = pod["spec"].get("nodeName")
    if node:
        raise _refused(name, f'pod {name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise _refused(name, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(name: str, text: str) -> StatusError:
    return conflict(_POD_BINDING, name, text)


def _scheduled(conditions: list[Object], now: str) -> list[Object]:
    condition: Object = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    for current in conditions:
        if current.get("type") == "PodScheduled" and current.get("status") == "True":
            condition["lastTransitionTime"] = current.get("lastTransitionTime")
    others = [current for current in conditions if current.get("type") != "PodScheduled"]
    return [*others, condition]


def issue_token(store: ObjectStore, access: AccessControl, call: ResourceRequest) -> ApiAnswer:
    """Handle POST of a TokenRequest: return a token of the ServiceAccount with an expiry."""
    body = read_body(call.body, call.content_type)
    account = store.get(SERVICEACCOUNTS, call.namespace, call.name)
    spec = {"expirationSeconds": _TOKEN_LIFETIME_S, **(body.get("spec") or {})}
    lifetime_s = spec["expirationSeconds"]
    if lifetime_s < _SHORTEST_TOKEN_S:
        cause = invalid_value(
            "spec.expirationSeconds", lifetime_s, "may not specify a duration less than 10 minutes"
        )
        raise invalid(_TOKEN_REQUEST, "", [cause])
    spec.setdefault("audiences", ["https://kubernetes.default.svc"])
    token, end_s = access.issue(call.namespace, call.name, account.uid, lifetime_s)
    answer = {
        "kind": _TOKEN_REQUEST.kind,
        "apiVersion": _TOKEN_REQUEST.api_version,
        "metadata": {"name": call.name, "namespace": call.namespace},
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": rfc3339(end_s)},
    }
    return ApiAnswer(201, _encode(answer))


def finalize(store: ObjectStore, call: ResourceRequest) -> ApiAnswer:
    """Handle PUT of a namespace's finalizers; removing the last one removes a deleted namespace."""
    obj = read_body(call.body, call.content_type)
    old = store.get(NAMESPACES, "", call.name)
    finalizers = (obj.get("spec") or {}).get("finalizers") or []
    spec = {**(old.obj.get("spec") or {}), "finalizers": finalizers}
    stored = store.replace(NAMESPACES, old, {**old.obj, "spec": spec})
    return ApiAnswer(200, NAMESPACES.head + stored.tail())
