"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on raw objects.

Both return a new object and do not change their argument. An unreadable patch is a 400, an
inapplicable one a 422, as in kube-apiserver. Strategic merge patch is in `strategic.py`, apply in
`apply.py`.
"""

from typing import Any, Final

import jsonpatch
from jsonpatch import JsonPatchException
from jsonpointer import JsonPointerException

from scheduler.sandbox.api.status import Object, StatusError, bad_request, failure

_MAX_OPERATIONS = 10_000
# The library's exceptions for invalid operations.
_MALFORMED: Final = (KeyError, IndexError, ValueError, TypeError, AttributeError)


def json_patch(obj: Object, operations: Any) -> Object:
    """Apply a list of operations in order; all or none."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "jsonpatch.Patch"
        )
    if len(operations) > _MAX_OPERATIONS:
        raise failure(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, "
            f"got {len(operations)}",
        )
    try:
        result = jsonpatch.apply_patch(obj, operations)
    except (JsonPatchException, JsonPointerException, *_MALFORMED):
        raise rejected() from None
    if not isinstance(result, dict):
        raise rejected()
    return result


def merge_patch(obj: Any, patch: Any) -> Any:
    """Merge `patch` over `obj`: objects recurse, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(obj) if isinstance(obj, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def rejected() -> StatusError:
    """Return 422: the patch is well-formed but does not fit the object."""
    return failure(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )
