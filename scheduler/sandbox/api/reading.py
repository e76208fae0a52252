"""get and list: bytes from the store, whole, in pages, as a table or as metadata only.

`server.py` calls `get` and `list_objects`. Objects are not copied and not encoded twice: a response
is assembled from the stored bytes. Continue tokens name a version and a key, and later pages show
the list as it was at that version.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from scheduler.sandbox.api import tables
from scheduler.sandbox.api.conversion import tail_of
from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.selectors import Matcher, matcher
from scheduler.sandbox.api.status import (
    Object,
    StatusError,
    bad_options,
    bad_request,
    failure,
    forbidden_field,
    not_supported,
)
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.store.collection import Stored
from scheduler.sandbox.store.store import ObjectStore

_encode = msgspec.json.Encoder().encode
# A token of a dropped list continues in the current one.
_ANY_VERSION = -1
_PARTIAL = '{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",'


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list and the token of the next one."""

    items: Sequence[Stored]
    version: int
    token: str = ""
    remaining: int | None = None


def get(store: ObjectStore, call: ResourceRequest) -> bytes:
    """Return the bytes of one object in the requested format."""
    stored = store.get(call.resource, call.namespace, call.name)
    form = tables.form_of(call.accept)
    if form == tables.TABLE:
        return tables.table(
            store, call.resource, [stored], _single(stored), call.option("includeObject")
        )
    if form == tables.METADATA:
        return metadata_of(stored)
    return body_of(call.resource, stored)


def body_of(resource: Resource, stored: Stored) -> bytes:
    """Return an object's bytes in the requested API version."""
    return resource.head + tail_of(resource, stored)


def metadata_of(stored: Stored) -> bytes:
    """Return an object's metadata alone."""
    return _PARTIAL.encode() + b'"metadata":' + _encode(stored.obj["metadata"]) + b"}"


def list_objects(store: ObjectStore, call: ResourceRequest) -> bytes:
    """Return the bytes of a list in the requested format."""
    page = page_of(store, call)
    meta = _list_meta(page)
    form = tables.form_of(call.accept)
    if form == tables.TABLE:
        return tables.table(store, call.resource, page.items, meta, call.option("includeObject"))
    if form == tables.METADATA:
        head = b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":'
        items = b",".join(metadata_of(stored) for stored in page.items)
        return head + _encode(meta) + b',"items":[' + items + b"]}"
    return list_body(call.resource, page)


def list_body(resource: Resource, page: ListPage) -> bytes:
    """Return a page as a typed list."""
    head = f'{{"kind":"{resource.list_kind}","apiVersion":"{resource.api_version}","metadata":'
    # kube-apiserver: items of a built-in list do not state their kind, custom resources do.
    opening = resource.head if resource.custom else b"{"
    items = b",".join([opening + tail_of(resource, stored) for stored in page.items])
    return head.encode() + _encode(_list_meta(page)) + b',"items":[' + items + b"]}"


def page_of(store: ObjectStore, call: ResourceRequest) -> ListPage:
    """Return the objects of a list request."""
    limit = call.number("limit")
    token = call.option("continue")
    accepts = matcher(call.resource, call.option("labelSelector"), call.option("fieldSelector"))
    version = check_version(store, call)
    start = ""
    if token:
        if call.option("resourceVersion") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        reported, start = _read_token(token)
        version = None if reported == _ANY_VERSION else reported
    items = _at(store, call, version, start)
    shown = store.version if version is None else version
    if start:
        items = [stored for stored in items if stored.key >= start]
    if accepts is None and not limit:
        return ListPage(items, shown)
    return _cut(items, shown, limit, accepts)


def check_version(store: ObjectStore, call: ResourceRequest) -> int | None:
    """Return the exact version that a list requests, None for the newest; 400, 410 or 504
    otherwise.
    """
    text, match = call.option("resourceVersion"), call.option("resourceVersionMatch")
    if match and not text:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise bad_options("ListOptions", forbidden_field("resourceVersionMatch", text))
    if match and match not in ("Exact", "NotOlderThan"):
        known = ("", "Exact", "NotOlderThan")
        raise bad_options("ListOptions", not_supported("resourceVersionMatch", match, known))
    if not text or text == "0":
        return None
    version = parse_version(text)
    if version > store.version:
        raise too_large(version, store.version)
    if match == "Exact" or (call.number("limit") and not match):
        return version
    return None


def parse_version(text: str) -> int:
    """Return a resource version as a number; 400 for any other text."""
    try:
        return int(text)
    except ValueError:
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": '
            f'strconv.ParseUint: parsing "{text}": invalid syntax'
        ) from None


def too_large(version: int, current: int) -> StatusError:
    """Return 504: the client names a version that this server has not reached."""
    details: Object = {
        "causes": [
            {
                "reason": "ResourceVersionTooLarge",
                "message": "Too large resource version",
            }
        ],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {version}, current: {current}"
    return failure(504, "Timeout", message, details)


def _at(
    store: ObjectStore, call: ResourceRequest, version: int | None, start: str
) -> Sequence[Stored]:
    if version is None:
        return store.list(call.resource, call.namespace)
    try:
        return store.list_at(call.resource, call.namespace, version)
    except StatusError as fault:
        if fault.code == 410 and call.option("continue"):
            raise _forgotten(start) from None
        if fault.code == 410:
            text = "The resourceVersion for the provided list is too old."
            raise failure(410, "Expired", text) from None
        raise


def _forgotten(start: str) -> StatusError:
    """Return 410 for a page of a dropped list, with a token that continues in the current one."""
    gone = failure(
        410,
        "Expired",
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new "
        "list without the continue parameter, or use the continue token in this response to "
        "retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent "
        "list - objects "
        "that were created, modified, or deleted between the time the first chunk was returned "
        "and now may show "
        "up in the list.",
    )
    gone.status["metadata"] = {"continue": _write_token(_ANY_VERSION, start)}
    return gone


def _cut(items: Sequence[Stored], version: int, limit: int, accepts: Matcher | None) -> ListPage:
    if accepts is not None and not limit:
        return ListPage([stored for stored in items if accepts(stored.obj)], version)
    found: list[Stored] = []
    for index, stored in enumerate(items):
        if accepts is not None and not accepts(stored.obj):
            continue
        if len(found) == limit:
            remaining = len(items) - index if accepts is None else None
            return ListPage(found, version, _write_token(version, stored.key), remaining)
        found.append(stored)
    return ListPage(found, version)


def _write_token(version: int, start: str) -> str:
    text = _encode({"v": "meta.k8s.io/v1", "rv": version, "start": start})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        content = msgspec.json.decode(text)
        return int(content["rv"]), str(content["start"])
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError):
        raise bad_request(
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0"
        ) from None


def _list_meta(page: ListPage) -> Object:
    meta: Object = {"resourceVersion": str(page.version)}
    if page.token:
        meta["continue"] = page.token
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
    return meta


def _single(stored: Stored) -> Object:
    return {"resourceVersion": str(stored.obj["metadata"]["resourceVersion"])}
