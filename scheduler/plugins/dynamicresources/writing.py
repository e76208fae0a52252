"""The writes of DynamicResources before a pod is bound: allocations, reservations, new claims.

Generators that `pre_bind` passes on; the engine answers. Claims are changed by patches with the
version they were decided on: the API server rejects one after another writer's change, and then the
claim is read again. A write whose answer is lost is looked up, never guessed: a device that may
have been allocated stays allocated.
"""

from base64 import b64decode
from collections.abc import Callable, Generator
from typing import Any, Final

import msgspec

from scheduler.base.protobuf import content, fields
from scheduler.framework.calls import ApiCall, BindStep, CallResult, WaitUntil
from scheduler.objects.claims import (
    EXTENDED_RESOURCE_CLAIM,
    FINALIZER,
    AllocationResult,
    ConsumerReference,
    ResourceClaim,
)
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources.extended import ExtendedClaim
from scheduler.plugins.dynamicresources.podclaims import is_reserved_for

# kube-scheduler's retries after a conflict.
TRIES: Final = 5
# How often, and at which interval, a write without an answer is looked up.
LOOKS: Final = 5
LOOK_AGAIN_S: Final = 1.0
MERGE: Final = "application/merge-patch+json"
IMMUTABLE: Final = "field is immutable"
STRATEGIC: Final = "application/strategic-merge-patch+json"
NAME_PREFIX_LENGTH: Final = 58

Steps = Generator[BindStep, CallResult, ResourceClaim]
PROTOBUF = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_RAW, _METADATA, _FINALIZERS = 2, 1, 14


class WriteError(Exception):
    """The reason why a claim was not written; with `is_doubtful` the result is unknown.

    If the claim is read at resource version `settled_by` or later, a doubtful write has either
    arrived or never will.
    """

    def __init__(self, text: str, *, is_doubtful: bool = False, settled_by: str = "") -> None:
        super().__init__(text)
        self.is_doubtful = is_doubtful
        self.settled_by = settled_by


class _ConflictError(Exception):
    """Another writer has changed the claim since `version`; with `is_doubtful` it is unknown
    whether our write came first.
    """

    def __init__(self, text: str, version: str, *, is_doubtful: bool) -> None:
        super().__init__(text)
        self.version = version
        self.is_doubtful = is_doubtful


def path_of(claim: ResourceClaim) -> str:
    """Return the URL path of a claim."""
    return f"{collection(claim.metadata.namespace)}/{claim.metadata.name}"


def collection(namespace: str) -> str:
    """Return the URL path of the claims of a namespace."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def write(
    claim: ResourceClaim, allocation: AllocationResult | None, user: ConsumerReference
) -> Steps:
    """Write a claim's allocation (None: already allocated) and its consumer; WriteError."""
    current: ResourceClaim | None = claim
    last, version, doubtful = "", claim.metadata.resource_version, ""
    for _ in range(TRIES):
        if current is None:
            try:
                current = yield from _read(claim)
            except WriteError as fault:
                fault.settled_by = _following(version)
                raise
            if _is_done(current, allocation, user):
                return current
        try:
            return (yield from _write_once(current, allocation, user))
        except _ConflictError as conflict:
            last, version = str(conflict), conflict.version
            doubtful = version if conflict.is_doubtful else doubtful
            current = None
    # An attempt on an older version is rejected.
    raise WriteError(last, is_doubtful=doubtful == version, settled_by=_following(version))


def make(
    pod: Pod, extended: ExtendedClaim, new_name: Callable[[], str]
) -> Generator[BindStep, CallResult, ResourceClaim]:
    """Create the claim for a pod's extended resources; WriteError."""
    meta = pod.metadata
    prefix = f"{meta.name[: NAME_PREFIX_LENGTH - len('-extended-resources-')]}-extended-resources-"
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
    }
    # With a name of our own, a claim whose answer is lost can be found again.
    name = prefix + new_name()
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "generateName": prefix,
            "namespace": meta.namespace,
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [owner],
        },
        "spec": msgspec.to_builtins(extended.spec),
    }
    words = f"create claim for extended resources {meta.namespace}/{name}: "
    answer = yield ApiCall("POST", collection(meta.namespace), body)
    if answer.ok:
        return _claim(answer)
    if answer.code and answer.code < 500:
        raise WriteError(words + _problem(answer))
    found = yield from _looked_up(f"{collection(meta.namespace)}/{name}")
    if found is None:
        raise WriteError(words + _problem(answer))
    return found


def write_pod_status(
    pod: Pod, claim: ResourceClaim, extended: ExtendedClaim
) -> Generator[BindStep, CallResult, None]:
    """Write to a pod which requests of a claim serve its extended resources; WriteError."""
    status = {
        "resourceClaimName": claim.metadata.name,
        "requestMappings": [msgspec.to_builtins(one) for one in extended.mappings],
    }
    meta = pod.metadata
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/status"
    body = {"metadata": {"uid": meta.uid}, "status": {"extendedResourceClaimStatus": status}}
    answer = yield ApiCall("PATCH", path, body, STRATEGIC)
    if not answer.ok:
        raise WriteError(f"update pod {pod.key} ExtendedResourceClaimStatus: {_problem(answer)}")


def unreserve_call(claim: ResourceClaim, user: ConsumerReference) -> ApiCall:
    """Return the call that removes a consumer from a claim, independent of the claim's version."""
    body = {
        "metadata": {"uid": claim.metadata.uid},
        "status": {"reservedFor": [{"$patch": "delete", "uid": user.uid}]},
    }
    return ApiCall("PATCH", f"{path_of(claim)}/status", body, STRATEGIC)


def deallocate_call(claim: ResourceClaim) -> ApiCall:
    """Return the call that frees a claim's devices, if it is unchanged."""
    status = {"allocation": None, "reservedFor": None, "devices": None}
    return ApiCall("PATCH", f"{path_of(claim)}/status", _patch(claim, status=status), MERGE)


def delete_calls(claim: ResourceClaim) -> tuple[ApiCall, ...]:
    """Return the calls that delete a claim for extended resources."""
    kept = [name for name in claim.metadata.finalizers if name != FINALIZER]
    unprotected = {"metadata": {"uid": claim.metadata.uid, "finalizers": kept}}
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": claim.metadata.uid},
    }
    calls = [ApiCall("DELETE", path_of(claim), options)]
    if len(kept) < len(claim.metadata.finalizers):
        calls.insert(0, ApiCall("PATCH", path_of(claim), unprotected, MERGE))
    return tuple(calls)


def _write_once(
    claim: ResourceClaim, allocation: AllocationResult | None, user: ConsumerReference
) -> Steps:
    key = claim.key
    if claim.metadata.deletion_timestamp is not None:
        raise WriteError(f"claim {key} got deleted in the meantime")
    doing = f"add reservation to claim {key}: "
    status: dict[str, Any] = {}
    if allocation is not None and _has_got(claim, allocation):
        allocation = None  # by another pod of the group that shares the claim
    if allocation is not None:
        if claim.status.allocation is not None:
            raise WriteError(f"claim {key} got allocated elsewhere in the meantime")
        if FINALIZER not in claim.metadata.finalizers:
            claim = yield from _protect(claim)
            if claim.status.allocation is not None:
                raise WriteError(f"claim {key} got allocated elsewhere in the meantime")
        doing = f"add allocation and reservation to claim {key}: "
        status["allocation"] = msgspec.to_builtins(allocation)
    elif claim.status.allocation is None:
        raise WriteError(f"claim {key} got deallocated elsewhere in the meantime")
    status["reservedFor"] = msgspec.to_builtins((*claim.status.reserved_for, user))
    body = _patch(claim, status=status)
    answer = yield ApiCall("PATCH", f"{path_of(claim)}/status", body, MERGE)
    return _taken(answer, doing, claim)


def _protect(claim: ResourceClaim) -> Steps:
    """Add the finalizer that prevents deletion of a claim in use."""
    doing = f"add finalizer to claim {claim.key}: "
    body = _patch(claim, finalizers=[*claim.metadata.finalizers, FINALIZER])
    answer = yield ApiCall("PATCH", path_of(claim), body, MERGE)
    if answer.code != 422 or IMMUTABLE not in answer.message:
        return _taken(answer, doing, claim)
    # Its parameters change in JSON; see `protobuf`.
    read = yield ApiCall("GET", path_of(claim), content_type=PROTOBUF)
    if not read.ok:
        return _taken(read, doing, claim)
    # A decision log stores bytes as text.
    data = b64decode(read.body) if isinstance(read.body, str) else bytes(read.body or b"")
    try:
        whole = with_finalizer(data, FINALIZER)
    except ValueError as fault:
        raise WriteError(f"{doing}{fault}") from fault
    return _taken((yield ApiCall("PUT", path_of(claim), whole, PROTOBUF)), doing, claim)


def _taken(answer: CallResult, doing: str, claim: ResourceClaim) -> ResourceClaim:
    """Return the claim in the response to a write of `claim`.

    _ConflictError if the claim must be read again, WriteError if another read cannot help.
    """
    if answer.ok:
        return _claim(answer)
    if answer.code == 409 or not answer.code or answer.code >= 500:
        version = claim.metadata.resource_version
        raise _ConflictError(doing + _problem(answer), version, is_doubtful=answer.code != 409)
    raise WriteError(doing + _problem(answer))


def _read(claim: ResourceClaim) -> Steps:
    """Read a claim again; WriteError if its uid differs or no response arrives."""
    found = yield from _looked_up(path_of(claim))
    if found is None or (claim.metadata.uid and found.metadata.uid != claim.metadata.uid):
        raise WriteError(
            f"get updated claim {claim.key} after conflict: "
            f'resourceclaims.resource.k8s.io "{claim.metadata.name}" not found'
        )
    return found


def _looked_up(path: str) -> Generator[BindStep, CallResult, ResourceClaim | None]:
    """Read a claim with retries; None if it does not exist, WriteError without a response."""
    answer = CallResult(0)
    for place in range(LOOKS):
        if place:
            yield WaitUntil(_never, (), LOOK_AGAIN_S)
        answer = yield ApiCall("GET", path)
        if answer.ok:
            return _claim(answer)
        if answer.code == 404:
            return None
    raise WriteError(f"{path}: {_problem(answer)}", is_doubtful=True)


def _is_done(
    claim: ResourceClaim, allocation: AllocationResult | None, user: ConsumerReference
) -> bool:
    """Return whether a write without a response was carried out."""
    got = claim.status.allocation
    if got is None or not is_reserved_for(user, claim):
        return False
    return allocation is None or _has_got(claim, allocation)


def _has_got(claim: ResourceClaim, allocation: AllocationResult) -> bool:
    got = claim.status.allocation
    return got is not None and got.devices.results == allocation.devices.results


def _patch(
    claim: ResourceClaim, *, finalizers: list[str] | None = None, status: Any = None
) -> dict[str, Any]:
    """Return a patch that applies only to the known uid and version of the claim."""
    meta = claim.metadata
    metadata: dict[str, Any] = {"uid": meta.uid}
    if meta.resource_version:
        metadata["resourceVersion"] = meta.resource_version
    if finalizers is not None:
        metadata["finalizers"] = finalizers
    return {"metadata": metadata} if status is None else {"metadata": metadata, "status": status}


def _claim(answer: CallResult) -> ResourceClaim:
    body = answer.body if isinstance(answer.body, dict) else {}
    return msgspec.convert(body, ResourceClaim)


def _problem(answer: CallResult) -> str:
    return answer.message or answer.reason or "no answer"


def _following(version: str) -> str:
    """Return the smallest newer resource version; versions are numbers (KEP-5504)."""
    return str(int(version) + 1) if version.isdecimal() else ""


def _never() -> bool:
    return False


def with_finalizer(data: bytes, name: str) -> bytes:
    """Return an object with one more finalizer and all other bytes unchanged.

    Parameters of drivers are opaque bytes. In JSON they come back in another spelling, and writing
    that back counts as a change of the claim's immutable spec. If a patch is rejected for that
    reason, the object itself is read and written. (Format: Kubernetes API concepts, "Protobuf
    encoding"; the field numbers are those of runtime.Unknown and ObjectMeta.) ValueError if `data`
    is no object.
    """
    if not data.startswith(_MAGIC):
        raise ValueError("not an object in protobuf form")
    more = content(_FINALIZERS, name.encode())
    return _MAGIC + _appended(data[len(_MAGIC) :], (_RAW, _METADATA), more)


def _appended(data: bytes, path: tuple[int, ...], more: bytes) -> bytes:
    """Return a message with `more` at the end of the message at `path` of field numbers."""
    if not path:
        return data + more
    written, is_found = [], False
    for field in fields(data):
        if field.number == path[0] and field.has_length:
            is_found = True
            written.append(content(field.number, _appended(bytes(field.value), path[1:], more)))
        else:
            written.append(field.whole)
    if not is_found:
        raise ValueError(f"the object has no field {path[0]}")
    return b"".join(written)
