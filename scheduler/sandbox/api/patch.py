"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on raw objects.

Both return a new object and leave the one they are given alone. A patch that cannot be read is a 400, one that cannot be
applied a 422, as kube-apiserver answers. Strategic merge patch is in `strategic.py`, apply in `apply.py`.
"""

import copy
from typing import Any

from scheduler.sandbox.api.status import Object, StatusError, bad_request, failure

_MAX_OPERATIONS = 10_000


def json_patch(obj: Object, operations: Any) -> Object:
    """Apply a list of operations in order; all or none."""
    if not isinstance(operations, list):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch"
        )
    if len(operations) > _MAX_OPERATIONS:
        raise failure(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, "
            f"got {len(operations)}",
        )
    result: Any = copy.deepcopy(obj)
    for operation in operations:
        try:
            result = _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
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
    """422: the patch is well-formed but does not fit the object."""
    return failure(
        422, "Invalid", "the server rejected our request due to an error in our request", {}
    )


def _operate(document: Any, operation: Object) -> Any:
    name, path = operation["op"], _steps(operation["path"])
    if name == "test":
        if _read(document, path) != operation.get("value"):
            raise ValueError
        return document
    if name == "remove":
        _remove(document, path)
        return document
    if name == "replace":
        if not path:
            return operation["value"]
        _read(document, path)
        parent, key = _place(document, path)
        if isinstance(parent, list):
            parent[_index(key, len(parent) - 1)] = operation["value"]
        else:
            parent[key] = operation["value"]
        return document
    if name == "add":
        return _add(document, path, operation["value"])
    source = _steps(operation["from"])
    value = copy.deepcopy(_read(document, source))
    if name == "move":
        _remove(document, source)
    elif name != "copy":
        raise ValueError
    return _add(document, path, value)


def _steps(pointer: str) -> list[str]:
    if pointer == "":
        return []
    if not pointer.startswith("/"):
        raise ValueError
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/")]


def _read(document: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(document, list):
            document = document[_index(step, len(document) - 1)]
        else:
            document = document[step]
    return document


def _place(document: Any, path: list[str]) -> tuple[Any, str]:
    return _read(document, path[:-1]), path[-1]


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, key = _place(document, path)
    if isinstance(parent, list):
        parent.insert(len(parent) if key == "-" else _index(key, len(parent)), value)
    elif isinstance(parent, dict):
        parent[key] = value
    else:
        raise TypeError
    return document


def _remove(document: Any, path: list[str]) -> None:
    parent, key = _place(document, path)
    if isinstance(parent, list):
        del parent[_index(key, len(parent) - 1)]
    else:
        del parent[key]


def _index(text: str, highest: int) -> int:
    index = int(text)
    if not 0 <= index <= highest:
        raise IndexError
    return index
