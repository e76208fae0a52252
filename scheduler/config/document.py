"""YAML or JSON text → trees of `DocumentNode`, each with its line and column.

The text is untrusted; `base.yamltext` determines which part of YAML is read. Called by decode;
independent of the structs.
"""

import re
from typing import Any, Final

from scheduler.base.yamltext import Position, YamlError, YamlReader, place
from scheduler.config.problems import Problems, ReadingStep

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 64
MAX_VALUES: Final = 100_000


class DocumentNode:
    """A value with its position: `value` is a scalar, a list of nodes or a dict of nodes.

    `keys` holds the position of each key of a mapping.
    """

    __slots__ = ("at", "keys", "value")

    def __init__(self, value: Any, at: Position, keys: dict[str, Position] | None = None) -> None:
        self.value = value
        self.at = at
        self.keys = keys or {}

    def plain(self) -> Any:
        """Return the value as lists, dicts and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def position(self, path: str) -> Position:
        """Return the position of `path` (`profiles[0].plugins`), or of its nearest existing
        parent.
        """
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

    def find(self, path: str) -> "DocumentNode | None":
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


def parse(text: str, problems: Problems) -> list[DocumentNode]:
    """Return the documents of `text`; problems go to the collector, which raises at the end.

    Duplicate fields are collected; a syntax error ends the reading.
    """
    documents: list[DocumentNode] = []
    try:
        _check_size(text)
        documents.extend(_Nodes(problems).read(text))
    except YamlError as error:
        problems.add(ReadingStep.DECODE, error.text, error.at or (1, 1))
    problems.raise_if_any()
    return documents


def _check_size(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise YamlError("not UTF-8 text", (line, 1)) from None
    if size > MAX_BYTES:
        raise YamlError(f"the file has {size} bytes; the most is {MAX_BYTES}", (1, 1))


class _Nodes(YamlReader[DocumentNode]):
    """Builds nodes for the YAML reader."""

    def __init__(self, problems: Problems) -> None:
        super().__init__(MAX_DEPTH, MAX_VALUES)
        self._problems = problems

    def made(self, value: Any, event: Any, keys: dict[str, Position]) -> DocumentNode:
        return DocumentNode(value, place(event.start_mark), keys)

    def fields(self, value: DocumentNode) -> dict[str, tuple[DocumentNode, Position]] | None:
        if not isinstance(value.value, dict):
            return None
        return {key: (inner, value.keys[key]) for key, inner in value.value.items()}

    def elements(self, value: DocumentNode) -> list[DocumentNode]:
        return list(value.value) if isinstance(value.value, list) else [value]

    def duplicate(self, text: str, at: Position) -> None:
        self._problems.add(ReadingStep.DECODE, text, at)
