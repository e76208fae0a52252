"""YAML text → plain data, quickly, with the lines on which objects begin.

Snapshots are large and not ours: size, depth and number of values are bounded, an alias counts as
what it stands for, values are only what JSON has. Scalars mean what they mean in configuration files.
Called by `documents`; knows nothing of Kubernetes but that a list keeps its objects in `items`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import yaml

from scheduler.base.errors import InputError
from scheduler.config.document import plain_scalar

MAX_BYTES: Final = 32 << 20
MAX_DEPTH: Final = 100
MAX_VALUES: Final = 8_000_000

# libyaml where it is there: the loader in Python takes minutes for a file at the limit.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_COLLECTION_TAGS = (None, "!", f"{_TAG}map", f"{_TAG}seq")
_TEXT_TAGS = ("!", f"{_TAG}str")
_SCALAR_TAGS = (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null", f"{_TAG}timestamp")

_meaning = lru_cache(maxsize=65536)(plain_scalar)


class Document(NamedTuple):
    """A document: its value, its line, and the lines of the objects in its `items`."""

    value: Any
    line: int
    item_lines: tuple[int, ...] = ()


def parse(data: bytes, name: str) -> Iterator[Document]:
    """Yield the documents of a file called `name`; InputError says what is wrong on which line."""
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{len(data)} bytes of YAML; the most is {MAX_BYTES} "
            "(larger snapshots are read as JSON: kubectl get ... -o json)",
            where=name,
        )
    try:
        yield from _Builder(name).documents(yaml.parse(data, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise InputError(f"not YAML: {error.problem or 'unreadable'}", where=where) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise InputError(f"not YAML: {str(error).splitlines()[0]}", where=name) from error


class _Frame:
    """A collection that is still open; `first` is the count of values when it was opened."""

    __slots__ = ("anchor", "first", "has_key", "key", "merged", "value")

    def __init__(self, value: Any, anchor: str | None, first: int) -> None:
        self.value = value
        self.anchor = anchor
        self.first = first
        self.key = ""
        self.has_key = False
        self.merged: list[Any] = []


class _Builder:
    """Turns parser events into plain data without recursion."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.values = 0
        self.item_lines: list[int] = []

    def documents(self, events: Iterator[Any]) -> Iterator[Document]:
        """Yield each document as it is complete."""
        line = 1
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
                if not self.open:
                    line = event.start_mark.line + 1
                self._begin(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
                value = self._end(event)
                if not self.open:
                    yield Document(value, line, tuple(self.item_lines))
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                self.anchors, self.item_lines = {}, []

    def _scalar(self, event: Any) -> None:
        self.values += 1
        text, tag = event.value, event.tag
        if tag is not None and tag not in _TEXT_TAGS and tag not in _SCALAR_TAGS:
            raise self._error(f'the tag "{tag}" is not allowed', event)
        is_plain = event.implicit[0] or tag in _SCALAR_TAGS
        if not self.open:
            if is_plain and plain_scalar(text) is None:
                return  # an empty document
            raise self._error("expected an object", event)
        frame = self.open[-1]
        if not frame.has_key and type(frame.value) is dict:
            if text in frame.value:
                raise self._error(f'duplicate field "{text}"', event)
            frame.key, frame.has_key = text, True
            return
        value = _meaning(text) if is_plain else text
        if event.anchor:
            self.anchors[event.anchor] = (value, 1)
        self._place(value, event)

    def _begin(self, event: Any, value: Any) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES} values", event)
        depth = len(self.open)
        if depth >= MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", event)
        if event.tag not in _COLLECTION_TAGS:
            raise self._error(f'the tag "{event.tag}" is not allowed', event)
        if depth and not self.open[-1].has_key and type(self.open[-1].value) is dict:
            raise self._error("a field name must be plain text", event)
        if depth == 2 and self.open[0].key == "items":
            self.item_lines.append(event.start_mark.line + 1)
        self.open.append(_Frame(value, event.anchor, self.values))

    def _end(self, event: Any) -> Any:
        frame = self.open.pop()
        for source in frame.merged:
            for key, inner in source.items():
                frame.value.setdefault(key, inner)
        if frame.anchor:
            self.anchors[frame.anchor] = (frame.value, self.values - frame.first + 1)
        if self.open:
            self._place(frame.value, event)
        return frame.value

    def _alias(self, event: Any) -> None:
        value, size = self.anchors.get(event.anchor, (None, 0))
        if not size:
            text = f'the alias "*{event.anchor}" stands for nothing before it'
            raise self._error(text, event)
        self.values += size
        if self.values > MAX_VALUES:
            raise self._error(f"more than {MAX_VALUES} values", event)
        if not self.open or (not self.open[-1].has_key and type(self.open[-1].value) is dict):
            raise self._error("a field name must be plain text", event)
        if len(self.open) == 2 and self.open[0].key == "items":
            self.item_lines.append(event.start_mark.line + 1)
        self._place(value, event)

    def _place(self, value: Any, event: Any) -> None:
        """Put a complete value into the collection around it."""
        frame = self.open[-1]
        if type(frame.value) is list:
            frame.value.append(value)
            return
        frame.has_key = False
        if frame.key != "<<":
            frame.value[frame.key] = value
            return
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._error('"<<" merges mappings only', event)
        frame.merged.extend(sources)

    def _error(self, text: str, event: Any) -> InputError:
        mark = event.start_mark
        return InputError(text, where=f"{self.name}:{mark.line + 1}:{mark.column + 1}")
