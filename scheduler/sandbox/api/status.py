"""The error type of the sandbox: a Kubernetes `Status` as an exception.

Every other sandbox module raises `StatusError` through the functions here, so that reasons, codes
and texts are in one place and equal kube-apiserver's. The server turns it into a response;
in-process clients (simulated kubelets, controllers) read `reason`. Nothing here depends on HTTP
beyond the status code.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from scheduler.base.errors import ApiError
from scheduler.sandbox.kinds.kinds import Resource

Object: TypeAlias = dict[str, Any]

# kube-apiserver's storage paths that differ from the resource's name; used in messages only.
_STORED_AS: Final = {
    "nodes": "minions",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "ingresses.networking.k8s.io": "ingress",
}


class StatusError(ApiError):
    """A rejected request: `status` is the `v1.Status` object that a client receives."""

    def __init__(self, status: Object) -> None:
        super().__init__(status["message"], code=status["code"], reason=status.get("reason", ""))
        self.status = status


class Cause(NamedTuple):
    """One invalid field: `reason` is a field error type such as `FieldValueRequired`."""

    reason: str
    field: str
    message: str


class AsJson:
    """A value that messages show as JSON, as the API server shows structs and maps."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __str__(self) -> str:
        """Return the JSON text."""
        return msgspec.json.encode(self._value).decode()


def required(field: str, detail: str = "") -> Cause:
    """Return the cause for a missing required field."""
    return Cause("FieldValueRequired", field, _join("Required value", detail))


def invalid_value(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    return Cause("FieldValueInvalid", field, f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: Any, allowed: Sequence[str]) -> Cause:
    """Return the cause for a value outside the allowed ones."""
    words = ", ".join(f'"{word}"' for word in allowed)
    return Cause(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {_shown(value)}: supported values: {words}",
    )


def forbidden_field(field: str, detail: str) -> Cause:
    """Return the cause for a field that may not be set or changed here."""
    return Cause("FieldValueForbidden", field, f"Forbidden: {detail}")


def not_found(resource: Resource, name: str) -> StatusError:
    """Return 404: no such object."""
    message = f'{resource.qualified} "{name}" not found'
    return failure(404, "NotFound", message, _details(resource, name))


def already_exists(resource: Resource, name: str) -> StatusError:
    """Return 409: the name is in use."""
    message = f'{resource.qualified} "{name}" already exists'
    return failure(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, text: str) -> StatusError:
    """Return 409: the write lost a race or a precondition failed."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {text}'
    return failure(409, "Conflict", message, _details(resource, name))


def stale(resource: Resource, name: str) -> StatusError:
    """Return 409: the request's resourceVersion is not the current one."""
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try "
        "again",
    )


def precondition(resource: Resource, name: str, namespace: str, text: str) -> StatusError:
    """Return 409: the request's uid or version is another one."""
    path = _STORED_AS.get(resource.storage, resource.plural)
    if resource.custom:
        path = f"{resource.group}/{resource.plural}"
    key = "/".join(part for part in ("/registry", path, namespace, name) if part)
    return conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: {text}",
    )


def delete_precondition(resource: Resource, name: str, text: str) -> StatusError:
    """Return 409: a deletion names another uid or version.

    The message has the kind, not the resource.
    """
    message = f'Operation cannot be fulfilled on {resource.kind} "{name}": {text}'
    return failure(409, "Conflict", message, {"name": name, "kind": resource.kind})


def invalid(resource: Resource, name: str, causes: Iterable[Cause]) -> StatusError:
    """Return 422: the object fails validation; one cause per field."""
    found = list(causes)
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in found))
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    kind = resource.kind + (f".{resource.group}" if resource.group else "")
    details: Object = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.kind
    details["causes"] = [_shown_cause(cause) for cause in found]
    return failure(422, "Invalid", f'{kind} "{name}" is invalid: {joined}', details)


def bad_options(kind: str, cause: Cause) -> StatusError:
    """Return 422: the options of a request (`ListOptions`, `CreateOptions`, ...) are not
    acceptable.
    """
    details: Object = {"group": "meta.k8s.io", "kind": kind, "causes": [_shown_cause(cause)]}
    message = f'{kind}.meta.k8s.io "" is invalid: {cause.field}: {cause.message}'
    return failure(422, "Invalid", message, details)


def forbidden(resource: Resource, name: str, text: str, cause: Cause | None = None) -> StatusError:
    """Return 403: admission rejects the request."""
    message = f'{resource.qualified} "{name}" is forbidden: {text}'
    details = _details(resource, name)
    if cause is not None:
        details["causes"] = [_shown_cause(cause)]
    return failure(403, "Forbidden", message, details)


def bad_request(message: str) -> StatusError:
    """Return 400: the request itself is malformed."""
    return failure(400, "BadRequest", message)


def expired(message: str) -> StatusError:
    """Return 410: the requested version or continue token is no longer stored."""
    return failure(410, "Expired", message)


def too_many_requests(message: str, retry_after_s: int, cause: Cause | None = None) -> StatusError:
    """Return 429: retry later; for evictions that a disruption budget blocks."""
    details: Object = {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
    if cause is not None:
        details["causes"] = [{"reason": cause.reason, "message": cause.message}]
    return failure(429, "TooManyRequests", message, details)


def failure(code: int, reason: str, message: str, details: Object | None = None) -> StatusError:
    """Return an error with any code and reason."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    status["code"] = code
    return StatusError(status)


def success(resource: Resource, name: str, uid: str) -> Object:
    """Return the `Status` that answers a completed deletion."""
    details = _details(resource, name)
    details["uid"] = uid
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }


def _shown_cause(cause: Cause) -> Object:
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def _details(resource: Resource, name: str) -> Object:
    details: Object = {"name": name}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return details


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value)


def _join(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head
