"""The forms of an answer: JSON, plain text, and Kubernetes' `Status` for refusals and faults.

Used by every handler here. This module fetches and decides nothing; it only writes, within
`LARGEST_PAGE_BYTES`, and on request masks values of keys that may contain secrets.
"""

from typing import Any

import msgspec
from aiohttp import web

LARGEST_PAGE_BYTES = 32 * 1024 * 1024

_SECRET_WORDS = ("token", "password", "secret", "authorization", "clientkey", "privatekey")


def text_page(text: str, code: int = 200) -> web.Response:
    """Answer with plain text."""
    headers = {"X-Content-Type-Options": "nosniff"}
    return web.Response(text=text, status=code, content_type="text/plain", headers=headers)


def json_page(record: object) -> web.Response:
    """Return a record as a JSON response; a record that is too large is refused with advice."""
    body = msgspec.json.encode(record)
    if len(body) > LARGEST_PAGE_BYTES:
        message = f"the answer has {len(body)} bytes, more than {LARGEST_PAGE_BYTES}: use ?limit="
        return status_page(413, "RequestEntityTooLarge", message)
    return web.Response(body=body, content_type="application/json")


def status_page(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    """Return a response with a Kubernetes `Status` of the failure."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    body = msgspec.json.encode(status)
    return web.Response(body=body, status=code, content_type="application/json", headers=headers)


def masked(record: object) -> Any:
    """Return the record as plain JSON values, with `***` for texts under names of secrets."""
    return _mask(msgspec.to_builtins(record))


def _mask(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "***" if isinstance(item, str) and item and is_secret(str(key)) else _mask(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_mask(item) for item in value]
    return value


def is_secret(name: str) -> bool:
    """Return whether a value under this name may be a secret."""
    plain = name.lower().replace("_", "").replace("-", "")
    return any(word in plain for word in _SECRET_WORDS)
