"""YAML or JSON text → trees of `Node`, each of which knows its line and column.

The text is untrusted: size, depth and number of values are bounded, aliases count as what they stand
for, and values are only what JSON has (no tags, no dates, no infinities). Plain scalars follow YAML
1.1, as kubectl and kube-scheduler read them. Called by decode; knows nothing of the structs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import yaml

from scheduler.config.problems import Problems, Stage

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 100_000

# libyaml where it is there: the loader in Python takes seconds for a file at the limit.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_BOOLS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_INT = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0b[01]+|0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = (f"{_TAG}int", f"{_TAG}float", f"{_TAG}bool", f"{_TAG}null", None, "!")

Position: TypeAlias = tuple[int, int]


class Node:
    """A value with its place: `value` is a scalar, a list of nodes or a dict of nodes.

    `keys` holds the position of each key of a mapping; `size` counts the values below and here.
    """

    __slots__ = ("at", "is_merge", "keys", "size", "value")

    def __init__(self, value: Any, at: Position) -> None:
        self.value = value
        self.at = at
        self.keys: dict[str, Position] = {}
        self.size = 1
        self.is_merge = False

    def plain(self) -> Any:
        """Return the value as lists, dicts and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def position(self, path: str) -> Position:
        """Return where `path` (`profiles[0].plugins`) stands, or its nearest parent that does."""
        node, at = self, self.at
        for part in re.findall(r"\[\d+\]|[^.\[\]]+", path):
            value = node.value
            if part[0] == "[":
                if not isinstance(value, list) or int(part[1:-1]) >= len(value):
                    break
                node = value[int(part[1:-1])]
                at = node.at
            else:
                if not isinstance(value, dict) or part not in value:
                    break
                at = node.keys[part]
                node = value[part]
        return at

    def find(self, path: str) -> Node | None:
        """Return the node at exactly `path`, or None."""
        node = self
        for part in re.findall(r"\[\d+\]|[^.\[\]]+", path):
            inner = node.value
            if part[0] == "[" and isinstance(inner, list) and int(part[1:-1]) < len(inner):
                node = inner[int(part[1:-1])]
            elif isinstance(inner, dict) and part in inner:
                node = inner[part]
            else:
                return None
        return node


class _UnreadableError(Exception):
    """Reading cannot go on; becomes a problem at its position."""

    def __init__(self, text: str, at: Position) -> None:
        super().__init__(text)
        self.text = text
        self.at = at


def parse(text: str, problems: Problems) -> list[Node]:
    """Return the documents of `text`; problems go to the collector, which raises at the end.

    Duplicate fields are collected; whatever makes the rest unreadable ends the reading.
    """
    documents: list[Node] = []
    try:
        _check_size(text)
        documents.extend(_Builder(problems).documents(yaml.parse(text, Loader=_LOADER)))
    except _UnreadableError as error:
        problems.add(Stage.DECODE, error.text, error.at)
    except yaml.MarkedYAMLError as error:
        problems.add(Stage.DECODE, _yaml_text(error), _mark(error.problem_mark))
    except yaml.YAMLError as error:
        problems.add(Stage.DECODE, f"not YAML: {str(error).splitlines()[0]}", (1, 1))
    problems.raise_if_any()
    return documents


def _check_size(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise _UnreadableError("not UTF-8 text", (line, 1)) from None
    if size > MAX_BYTES:
        raise _UnreadableError(f"the file has {size} bytes; the most is {MAX_BYTES}", (1, 1))


class _Frame:
    """A collection that is still open."""

    __slots__ = ("anchor", "key", "merged", "node")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.key: Node | None = None
        self.merged: list[Node] = []


class _Builder:
    """Turns parser events into nodes without recursion."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.anchors: dict[str, Node] = {}
        self.open: list[_Frame] = []
        self.values = 0

    def documents(self, events: Iterator[Any]) -> Iterator[Node]:
        """Yield the root of each document."""
        for event in events:
            root: Node | None = None
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors = {}
            elif isinstance(event, yaml.NodeEvent):
                root = self._node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                root = self._close()
            if root is not None:
                yield root

    def _node(self, event: Any) -> Node | None:
        """Take a scalar, an alias or the start of a collection; return it when it is a root."""
        at = _mark(event.start_mark)
        self._count(1, at)
        frame = self.open[-1] if self.open else None
        if frame and frame.key is None and isinstance(frame.node.value, dict):
            if not isinstance(event, yaml.ScalarEvent):
                raise _UnreadableError("a field name must be plain text", at)
            frame.key = Node(event.value, at)
            frame.key.is_merge = event.value == "<<" and event.implicit[0]
            return None
        if isinstance(event, yaml.AliasEvent):
            return self._place(self._alias(event, at))
        if isinstance(event, yaml.ScalarEvent):
            node = Node(_scalar(event, at), at)
            if event.anchor:
                self.anchors[event.anchor] = node
            return self._place(node)
        if len(self.open) >= MAX_DEPTH:
            raise _UnreadableError(f"nested deeper than {MAX_DEPTH} levels", at)
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise _UnreadableError(f'the tag "{event.tag}" is not allowed', at)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self.open.append(_Frame(Node({} if is_mapping else [], at), event.anchor))
        return None

    def _count(self, values: int, at: Position) -> None:
        self.values += values
        if self.values > MAX_VALUES:
            raise _UnreadableError(f"more than {MAX_VALUES} values", at)

    def _alias(self, event: Any, at: Position) -> Node:
        node = self.anchors.get(event.anchor)
        if node is None:
            raise _UnreadableError(f'the alias "*{event.anchor}" stands for nothing before it', at)
        self._count(node.size, at)
        return node

    def _close(self) -> Node | None:
        frame = self.open.pop()
        node = frame.node
        for source in frame.merged:
            for key, value in source.value.items():
                if key not in node.value:
                    node.value[key] = value
                    node.keys[key] = source.keys[key]
                    node.size += value.size
        if frame.anchor:
            self.anchors[frame.anchor] = node
        return self._place(node)

    def _place(self, node: Node) -> Node | None:
        """Put a complete value into the collection around it; return it when there is none."""
        if not self.open:
            return node
        frame = self.open[-1]
        frame.node.size += node.size
        if isinstance(frame.node.value, list):
            frame.node.value.append(node)
            return None
        key = frame.key
        frame.key = None
        if key is None:
            raise _UnreadableError("a field name must be plain text", node.at)
        if key.is_merge:
            frame.merged.extend(_merge_sources(node, key.at))
        elif key.value in frame.node.value:
            self.problems.add(Stage.DECODE, f'duplicate field "{key.value}"', key.at)
        else:
            frame.node.value[key.value] = node
            frame.node.keys[key.value] = key.at
        return None


def _merge_sources(node: Node, at: Position) -> list[Node]:
    """Return the mappings that a `<<` key stands for, nearest first."""
    sources = node.value if isinstance(node.value, list) else [node]
    if not all(isinstance(source.value, dict) for source in sources):
        raise _UnreadableError('"<<" merges mappings only', at)
    return list(sources)


def _scalar(event: Any, at: Position) -> Any:
    """Return what a scalar means: null, bool, int, float or text."""
    text: str = event.value
    if event.tag not in (*_SCALAR_TAGS, f"{_TAG}str"):
        raise _UnreadableError(f'the tag "{event.tag}" is not allowed', at)
    is_plain = event.implicit[0] or event.tag in _SCALAR_TAGS[:4]
    return plain_scalar(text) if is_plain else text


def plain_scalar(text: str) -> Any:
    """Return what an unquoted scalar means: null, bool, int, float or text."""
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


def _mark(mark: Any) -> Position:
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _yaml_text(error: yaml.MarkedYAMLError) -> str:
    context = f" ({error.context})" if error.context else ""
    return f"not YAML: {error.problem or 'unreadable'}{context}"
