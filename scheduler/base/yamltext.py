"""YAML (or JSON) text → values with positions, within bounds: the only parser of user files.

The text is untrusted: depth and number of values are bounded, an alias counts as the value it
refers to, and values are limited to JSON's types (no tags, no dates, no infinities). Plain scalars
follow YAML 1.1, as kubectl and kube-scheduler read them. A subclass of `YamlReader` defines the
type of a value; this module does not depend on Kubernetes.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Generic, TypeAlias, TypeVar

import yaml

# libyaml where it is there: the loader in Python takes minutes for a file at the limit.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_BOOLS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0b[01]+|0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_TAG = "tag:yaml.org,2002:"
_COLLECTION_TAGS: Final = (None, "!", f"{_TAG}map", f"{_TAG}seq")
_TEXT_TAGS: Final = (None, "!", f"{_TAG}str")
_SCALAR_TAGS: Final = tuple(
    f"{_TAG}{kind}" for kind in ("int", "float", "bool", "null", "timestamp")
)

# Line and column, from 1.
Position: TypeAlias = tuple[int, int]
V = TypeVar("V")


class YamlError(Exception):
    """The reason why the rest of a text is unreadable, with its position if known."""

    def __init__(self, text: str, at: Position | None) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


class Frame(Generic[V]):
    """A collection that is still open; `first` is the count of values when it was opened."""

    __slots__ = ("at", "first", "is_merge", "key", "keys", "merged", "start", "value")

    def __init__(self, start: Any, value: Any, first: int) -> None:
        self.start = start
        self.value: Any = value
        self.first = first
        # The key of the next value.
        self.key: str | None = None
        self.at: Position = (1, 1)
        self.is_merge = False
        self.keys: dict[str, Position] = {}
        self.merged: list[V] = []


class YamlReader(Generic[V]):
    """Turns parser events into values without recursion; `V` is the type of a value."""

    def __init__(self, max_depth: int, max_values: int) -> None:
        self._max_depth = max_depth
        self._max_values = max_values
        self._anchors: dict[str, tuple[V, int]] = {}
        self._values = 0
        self.open: list[Frame[V]] = []

    # For subclasses.

    def made(self, value: Any, event: Any, keys: dict[str, Position]) -> V:
        """Return the value of a scalar, list or dict that begins at `event`, with its keys'
        positions.
        """
        raise NotImplementedError

    def fields(self, value: V) -> dict[str, tuple[V, Position]] | None:
        """Return the fields of a mapping with the places of their keys; None for anything else."""
        raise NotImplementedError

    def elements(self, value: V) -> list[V]:
        """Return the elements of a list; anything else is alone."""
        raise NotImplementedError

    def begins(self, event: Any) -> None:
        """Take note of a collection or an alias before it is read."""

    def duplicate(self, text: str, at: Position) -> None:
        """Record a duplicate field; the first one counts."""
        raise YamlError(text, at)

    # For callers.

    def read(self, text: str | bytes) -> Iterator[V]:
        """Yield the root of each document; raise YamlError."""
        try:
            for event in yaml.parse(text, Loader=_LOADER):
                root = self._take(event)
                if root is not None:
                    yield root
        except yaml.MarkedYAMLError as error:
            context = f" ({error.context})" if error.context else ""
            where = place(error.problem_mark) if error.problem_mark else None
            raise YamlError(f"not YAML: {error.problem or 'unreadable'}{context}", where) from error
        except (yaml.YAMLError, UnicodeError) as error:
            raise YamlError(f"not YAML: {str(error).splitlines()[0]}", None) from error

    def _take(self, event: Any) -> V | None:
        """Take one event; return the root that it completes."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            return self._scalar(event)
        if kind is yaml.MappingStartEvent:
            self._begin(event, {})
        elif kind is yaml.SequenceStartEvent:
            self._begin(event, [])
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            return self._end()
        elif kind is yaml.AliasEvent:
            return self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._anchors = {}
        return None

    def _awaits_key(self) -> bool:
        return bool(self.open) and self.open[-1].key is None and type(self.open[-1].value) is dict

    def _scalar(self, event: Any) -> V | None:
        self._count(1, event)
        text, tag = event.value, event.tag
        if self._awaits_key():
            frame = self.open[-1]
            frame.key, frame.at = text, place(event.start_mark)
            frame.is_merge = text == "<<" and event.implicit[0]
            return None
        if tag not in _TEXT_TAGS and tag not in _SCALAR_TAGS:
            raise _error(f'the tag "{tag}" is not allowed', event)
        is_plain = event.implicit[0] or tag in _SCALAR_TAGS
        value = self.made(plain_scalar(text) if is_plain else text, event, {})
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        return self._place(value)

    def _begin(self, event: Any, value: Any) -> None:
        self._count(1, event)
        if self._awaits_key():
            raise _error("a field name must be plain text", event)
        if len(self.open) >= self._max_depth:
            raise _error(f"nested deeper than {self._max_depth} levels", event)
        if event.tag not in _COLLECTION_TAGS:
            raise _error(f'the tag "{event.tag}" is not allowed', event)
        self.begins(event)
        self.open.append(Frame(event, value, self._values))

    def _alias(self, event: Any) -> V | None:
        if self._awaits_key():
            raise _error("a field name must be plain text", event)
        if event.anchor not in self._anchors:
            text = f'the alias "*{event.anchor}" stands for nothing before it'
            raise _error(text, event)
        value, size = self._anchors[event.anchor]
        self._count(size, event)
        self.begins(event)
        return self._place(value)

    def _end(self) -> V | None:
        frame = self.open.pop()
        for source in frame.merged:
            for key, (value, at) in (self.fields(source) or {}).items():
                if key not in frame.value:
                    frame.value[key] = value
                    frame.keys[key] = at
        made = self.made(frame.value, frame.start, frame.keys)
        if frame.start.anchor:
            self._anchors[frame.start.anchor] = (made, self._values - frame.first + 1)
        return self._place(made)

    def _place(self, value: V) -> V | None:
        """Put a complete value into the collection around it; return it when there is none."""
        if not self.open:
            return value
        frame = self.open[-1]
        if frame.key is None:
            frame.value.append(value)
            return None
        key, frame.key = frame.key, None
        if frame.is_merge:
            sources = self.elements(value)
            if any(self.fields(source) is None for source in sources):
                raise YamlError('"<<" merges mappings only', frame.at)
            frame.merged.extend(sources)
        elif key in frame.value:
            self.duplicate(f'duplicate field "{key}"', frame.at)
        else:
            frame.value[key] = value
            frame.keys[key] = frame.at
        return None

    def _count(self, values: int, event: Any) -> None:
        self._values += values
        if self._values > self._max_values:
            raise _error(f"more than {self._max_values} values", event)


def place(mark: Any) -> Position:
    """Return the position of a mark of the parser."""
    return mark.line + 1, mark.column + 1


def _error(text: str, event: Any) -> YamlError:
    return YamlError(text, place(event.start_mark))


@lru_cache(maxsize=65536)
def plain_scalar(text: str) -> Any:
    """Return the value of an unquoted scalar: null, bool, int, float or text."""
    if text in _NULLS:
        return None
    if text.lower() in _BOOLS and text in (text.lower(), text.upper(), text.capitalize()):
        return _BOOLS[text.lower()]
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if abs(number) != float("inf") else text
    return text


def _integer(text: str) -> int:
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        # YAML 1.1: a leading zero means octal.
        return int(text.replace("0", "0o", 1), 8)
    return int(text, 0)
