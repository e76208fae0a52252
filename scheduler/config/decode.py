"""Trees of nodes → structs, strictly: unknown fields, wrong types and missing fields are problems.

Walks node tree and struct type side by side, so that all mistakes of a document are found in one
pass, each with line, column and path. Scalars are converted by msgspec, which also checks the
limits in their annotations. As in Kubernetes, a null field counts as unset.
"""

from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from scheduler.base.text import did_you_mean
from scheduler.config.document import DocumentNode
from scheduler.config.problems import Problems, ReadingStep

T = TypeVar("T")

# Replaces an invalid value after its problem was recorded; the walk continues.
_WRONG: Final = object()

_WORDS: Final = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
}


def decode(
    node: DocumentNode, into: type[T], problems: Problems, *, path: str = "", context: str = ""
) -> T | None:
    """Return `node` as a struct `into`, or None when `problems` has grown.

    `path` is the path of `node` in its document; `context` is put before each text.
    """
    value = _Walk(problems, context).value(node, into, path)
    return None if value is _WRONG else value


class _Walk:
    def __init__(self, problems: Problems, context: str) -> None:
        self.problems = problems
        self.context = context

    def value(self, node: DocumentNode, tp: Any, path: str) -> Any:
        """Return one value converted to the declared type `tp`."""
        tp, limits = _unwrap(tp)
        origin = get_origin(tp) or tp
        if tp is Any:
            return node.plain()
        if origin in (Union, UnionType):
            return self._union(node, tp, path)
        if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
            return self._struct(node, tp, path)
        if origin in (list, set, frozenset, tuple) and _has_one_inner_type(tp):
            return self._sequence(node, tp, origin, path)
        if origin is dict and get_args(tp):
            return self._mapping(node, get_args(tp)[1], path)
        return self._leaf(node, Annotated[tp, *limits] if limits else tp, tp, path)

    def _struct(self, node: DocumentNode, tp: Any, path: str) -> Any:
        if not isinstance(node.value, dict):
            return self._expected("an object", node, path)
        fields = {field.encode_name: field for field in msgspec.structs.fields(tp)}
        given: dict[str, Any] = {}
        is_wrong = False
        for key, child in node.value.items():
            if key not in fields:
                hint = did_you_mean(key, fields)
                self._add(f'unknown field "{_join(path, key)}"', node.keys[key], hint)
                is_wrong = True
            elif child.value is not None:
                value = self.value(child, fields[key].type, _join(path, key))
                is_wrong |= value is _WRONG
                given[fields[key].name] = value
        for key, field in fields.items():
            if field.required and field.name not in given:
                self._add(f'missing field "{_join(path, key)}"', node.at)
                is_wrong = True
        if is_wrong:
            return _WRONG
        try:
            return tp(**given)
        except (TypeError, ValueError) as error:
            # A struct may validate itself in __post_init__.
            return self._add(f"{path}: {error}" if path else str(error), node.at)

    def _sequence(self, node: DocumentNode, tp: Any, origin: type, path: str) -> Any:
        if not isinstance(node.value, list):
            return self._expected("a list", node, path)
        inner = get_args(tp)[0]
        values = [
            self.value(child, inner, f"{path}[{index}]") for index, child in enumerate(node.value)
        ]
        return _WRONG if any(value is _WRONG for value in values) else origin(values)

    def _mapping(self, node: DocumentNode, inner: Any, path: str) -> Any:
        if not isinstance(node.value, dict):
            return self._expected("an object", node, path)
        values = {
            key: self.value(child, inner, _join(path, key)) for key, child in node.value.items()
        }
        return _WRONG if any(value is _WRONG for value in values.values()) else values

    def _union(self, node: DocumentNode, tp: Any, path: str) -> Any:
        if node.value is None and NoneType in get_args(tp):
            return None
        options = [option for option in get_args(tp) if option not in (NoneType, msgspec.UnsetType)]
        if len(options) == 1:
            return self.value(node, options[0], path)
        return self._leaf(node, tp, tp, path)

    def _leaf(self, node: DocumentNode, tp: Any, bare: Any, path: str) -> Any:
        plain = node.plain()
        if bare is int and isinstance(plain, float) and plain.is_integer():
            plain = int(plain)
        title = next((m.title for m in _limits(tp) if m.title), None) or _WORDS.get(bare)
        if bare in _WORDS and not _fits(plain, bare):
            return self._expected(title or "another type", node, path)
        try:
            return msgspec.convert(plain, tp)
        except msgspec.ValidationError as error:
            if title and title not in _WORDS.values():
                return self._expected(title, node, path)
            head, _, inner = str(error).partition(" - at `$")
            place = f"{path}{inner.rstrip('`')}"
            return self._add(f"{place}: {head[0].lower()}{head[1:]}", node.at)

    def _expected(self, what: str, node: DocumentNode, path: str) -> Any:
        place = f"{path}: " if path else ""
        return self._add(f"{place}expected {what}, got {_shown(node.value)}", node.at)

    def _add(self, text: str, at: tuple[int, int], hint: str = "") -> Any:
        self.problems.add(ReadingStep.DECODE, self.context + text, at, hint=hint)
        return _WRONG


def _has_one_inner_type(tp: Any) -> bool:
    inner = get_args(tp)
    return len(inner) == 1 or inner[1:] == (Ellipsis,)


def _unwrap(tp: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split `Annotated[X, ...]` into X and its limits."""
    if get_origin(tp) is Annotated:
        return tp.__origin__, tp.__metadata__
    return tp, ()


def _limits(tp: Any) -> tuple[msgspec.Meta, ...]:
    return tuple(item for item in _unwrap(tp)[1] if isinstance(item, msgspec.Meta))


def _fits(plain: Any, tp: type) -> bool:
    if isinstance(plain, bool):
        return tp is bool
    return isinstance(plain, (int, float) if tp is float else tp)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: Any) -> str:
    """Return a short description of a value for an error message, never a whole tree."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, str):
        text = value if len(value) <= 40 else f"{value[:40]}..."
        return f'the text "{text}"'
    return msgspec.json.encode(value).decode() if not isinstance(value, int) else str(value).lower()
