"""YAML text → plain data, quickly, with the line of each object.

Snapshots are large and untrusted; `base.yamltext` determines how they are read and bounded. Scalars
have the same meaning as in configuration files. Called by `documents`; the only knowledge of
Kubernetes is that a list has its objects in `items`.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from scheduler.base.errors import InputError
from scheduler.base.yamltext import Position, YamlError, YamlReader, place

MAX_BYTES: Final = 32 << 20
MAX_DEPTH: Final = 100
MAX_VALUES: Final = 8_000_000


class Document(NamedTuple):
    """A document: its value, its line, and the lines of the objects in its `items`."""

    value: Any
    line: int
    item_lines: tuple[int, ...] = ()


def parse(data: bytes, name: str) -> Iterator[Document]:
    """Yield the documents of a file called `name`; InputError states fault and line."""
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{len(data)} bytes of YAML; the most is {MAX_BYTES} "
            "(larger snapshots are read as JSON: kubectl get ... -o json)",
            where=name,
        )
    reader = _Plain(MAX_DEPTH, MAX_VALUES)
    try:
        for value in reader.read(data):
            yield Document(value, reader.line, tuple(reader.item_lines))
    except YamlError as error:
        where = name if error.at is None else f"{name}:{error.at[0]}:{error.at[1]}"
        raise InputError(error.text, where=where) from error


class _Plain(YamlReader[Any]):
    """Build plain data; `line` is that on which the last document begins."""

    def __init__(self, max_depth: int, max_values: int) -> None:
        super().__init__(max_depth, max_values)
        self.line = 1
        self.item_lines: list[int] = []

    def made(self, value: Any, event: Any, keys: dict[str, Position]) -> Any:  # noqa: ARG002
        if not self.open and value is not None:  # an empty document contains no object
            at = place(event.start_mark)
            if not isinstance(value, dict | list):
                raise YamlError("expected an object", at)
            self.line = at[0]
        return value

    def begins(self, event: Any) -> None:
        if not self.open:
            self.item_lines = []
        elif len(self.open) == 2 and self.open[0].key == "items":
            self.item_lines.append(event.start_mark.line + 1)

    def fields(self, value: Any) -> dict[str, tuple[Any, Position]] | None:
        if not isinstance(value, dict):
            return None
        return {key: (inner, (1, 1)) for key, inner in value.items()}

    def elements(self, value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]
