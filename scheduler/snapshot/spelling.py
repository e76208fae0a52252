"""Fields of a pod that the Kubernetes API does not have: misspelled, or at the wrong level.

Decoding skips them, so a pod with `nodeSelektor` would be scheduled without its selector. Called by
`snapshot` for pods without uid; an API server would have rejected or dropped such a field. The
names are those of the field table that ships with the package, generated from an API server's
OpenAPI document, and those that Kubernetes 1.37 added: an API server drops these while their gates
are off, and scheduling does not read them.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.base.text import did_you_mean

_Fields = dict[str, str]
_POD: Final = "core.v1.Pod"


class _Table(msgspec.Struct, frozen=True):
    types: dict[str, _Fields]
    gated: dict[str, frozenset[str]] = {}


def check_spelling(pod: Any) -> None:
    """Raise ObjectError with the path of the first unknown field of a plain pod.

    Values are not checked: the decoder rejects wrong types. Nor is the status, which no person
    writes and which differs between versions of Kubernetes.
    """
    _check({name: value for name, value in pod.items() if name != "status"}, _POD, "")


def _check(value: Any, of_type: str, path: str) -> None:
    if isinstance(value, list | tuple):
        for index, one in enumerate(value):
            _check(one, of_type, f"{path}[{index}]")
    elif isinstance(value, dict):
        fields = _types()[of_type]
        for name, inner in value.items():
            if name not in fields:
                where = f"{path}.{name}" if path else str(name)
                raise ObjectError(
                    f"{where}: a pod has no such field{did_you_mean(str(name), fields)}"
                )
            inner_type = fields[name]
            if inner_type:
                _check(inner, inner_type, f"{path}.{name}" if path else name)


@cache
def _types() -> dict[str, _Fields]:
    """Return the table: type → field → the field's type, '' for a plain value or a map."""
    raw = _read("types.json").types
    found = {
        name: {f: _behind(code, raw) for f, code in fields.items()} for name, fields in raw.items()
    }
    for name, gated in _read("types-1.37.json").gated.items():
        found[name] |= dict.fromkeys(gated, "")
    return found


def _read(name: str) -> _Table:
    file = resources.files("scheduler.objects").joinpath(name)
    return msgspec.json.decode(file.read_bytes(), type=_Table)


def _behind(code: str, types: Mapping[str, object]) -> str:
    """Return the type of a field, or of each value of its list, if it has its own; else ''."""
    name = code.partition(" ")[0].rstrip("!").removeprefix("[]")
    return name if name in types else ""
