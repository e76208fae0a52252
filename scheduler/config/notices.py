"""Notices: changes made while reading a file, and effects that may be unexpected. Never errors."""

import msgspec

from scheduler.config.document import DocumentNode


class Notice(msgspec.Struct, frozen=True):
    """One line for the operator of the scheduler, with its position in the file if it has one."""

    text: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


class Notices:
    """Collects notices while one document is read."""

    def __init__(self, file: str, root: DocumentNode | None) -> None:
        self._file = file
        self._root = root
        self.found: list[Notice] = []

    def add(self, text: str, path: str = "") -> None:
        """Add `text` about the field at `path`."""
        where = self._file
        if self._root is not None:
            line, column = self._root.position(path)
            where = f"{self._file}:{line}:{column}"
        self.found.append(Notice(text, where))

    def without_effect(self, what: str, reason: str, path: str = "") -> None:
        """Add a notice that a setting is accepted without effect."""
        self.add(f"{what} is accepted without effect: {reason}", path)
