"""Parse a request: resource, namespace, name, subresource, verb and options, from path and query.

`server.py` parses every resource request into a `ResourceRequest` and passes it to `reading`,
`watching`, `writing` or `subresources`. Nothing here reads the store.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote

from scheduler.sandbox.api.status import Cause, StatusError, bad_options, bad_request, failure
from scheduler.sandbox.kinds.kinds import NAMESPACES, Kinds, Resource

_TRUE: Final = frozenset({"true", "1", "True", "TRUE", "t", "T"})
_DRY_RUN: Final = "All"


class PathNotFoundError(Exception):
    """A path without any resource: answered with 404 in plain text, not with a Status."""


@dataclass(slots=True)
class ResourceRequest:
    """One request for a resource."""

    method: str
    resource: Resource
    namespace: str
    name: str
    subresource: str
    query: dict[str, str]
    user: str = ""
    accept: str = ""
    content_type: str = ""
    # The client's user agent.
    agent: str = ""
    body: bytes = b""
    # Why this user may not write a claim's allocation and reservations, or ''.
    may_not_bind: str = ""

    @property
    def is_watch(self) -> bool:
        """Return whether the client requests a stream of changes."""
        return self.query.get("watch", "") in _TRUE

    def flag(self, name: str) -> bool:
        """Return a boolean option."""
        return self.query.get(name, "") in _TRUE

    def option(self, name: str) -> str:
        """Return an option's text, empty when absent."""
        return self.query.get(name, "")

    def number(self, name: str) -> int:
        """Return a whole number, 0 when absent; 400 for any other text."""
        text = self.query.get(name, "")
        if not text:
            return 0
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    @property
    def dry_run(self) -> bool:
        """Return whether the request is a dry run; 422 for an unknown directive."""
        text = self.query.get("dryRun", "")
        if text and text != _DRY_RUN:
            fault = f'Unsupported value: ["{text}"]: supported values: "All"'
            raise bad_options(self._options_kind, Cause("FieldValueNotSupported", "dryRun", fault))
        return bool(text)

    @property
    def strict(self) -> bool:
        """Return whether unknown fields are an error."""
        return self.query.get("fieldValidation", "") == "Strict"

    @property
    def _options_kind(self) -> str:
        kinds = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
        return kinds.get(self.method, "DeleteOptions")


def parse(kinds: Kinds, method: str, path: str, query: str) -> ResourceRequest:
    """Read a path below /api or /apis; 404 for an unknown one."""
    parts = [unquote(part) if "%" in part else part for part in path.split("/") if part]
    if parts[0] == "api":
        group, version, rest = "", parts[1] if len(parts) > 1 else "", parts[2:]
    else:
        group, version, rest = parts[1], parts[2], parts[3:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in NAMESPACES.subresources:
        namespace, rest = rest[1], rest[2:]
    if not kinds.serves(group):
        raise PathNotFoundError
    resource = kinds.find(group, version, rest[0]) if rest else None
    if resource is None or len(rest) > 3:
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if namespace and not resource.namespaced:
        raise no_such_path()
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    return ResourceRequest(method, resource, namespace, name, subresource, _options(query))


def no_such_path() -> StatusError:
    """Return 404 for a path without a resource."""
    return failure(404, "NotFound", "the server could not find the requested resource", {})


def not_allowed() -> StatusError:
    """Return 405: the resource has no such verb."""
    return failure(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def _options(query: str) -> dict[str, str]:
    if not query:
        return {}
    return {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
