"""Mistakes in a text and their positions, in the format of upstream's compiler.

Parser, checker and validators report here; `raise_any` ends the compilation if there is a problem.
"""

from typing import NoReturn

from scheduler.cel.errors import CelCompileError

NOWHERE = -1
_MOST = 100


class SelectorProblems:
    """The problems of one text, in the order in which they were found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[int, int, str]] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, at: int, message: str) -> None:
        """Add a problem at an offset in code points; NOWHERE if it concerns the whole text."""
        self._count += 1
        if self._count <= _MOST:
            line, column = self._place(at)
            self._found.append((line, column, message))

    def fail(self, at: int, message: str) -> NoReturn:
        """Add a problem and stop parsing."""
        self.add(at, message)
        self.raise_any()
        raise AssertionError  # raise_any raised

    def raise_any(self) -> None:
        """Raise CelCompileError if there is a problem."""
        if not self._count:
            return
        found = sorted(self._found, key=lambda problem: problem[:2])
        shown = [self._shown(line, column, message) for line, column, message in found]
        if self._count > _MOST:
            shown.append(f"{self._count - _MOST} more errors were truncated")
        raise CelCompileError("compilation failed: " + "\n".join(shown))

    def _place(self, at: int) -> tuple[int, int]:
        """Return the line, counted from 1, and the column, counted from 0; -1 for NOWHERE."""
        if at == NOWHERE:
            return -1, -1
        before = self._text[:at]
        return before.count("\n") + 1, at - (before.rfind("\n") + 1)

    def _shown(self, line: int, column: int, message: str) -> str:
        head = f"ERROR: <input>:{line}:{column + 1}: {message}"
        if line < 1:
            return head
        if not self._text:
            return f"ERROR: <input>:{line}:0: {message}"
        # Wide characters of the text get wide signs below them, as upstream prints them.
        source = self._text.split("\n")[line - 1].replace("\t", " ")
        dots = "".join("." if ord(rune) < 0x80 else "\uff0e" for rune in source[:column])
        wide = column < len(source) and ord(source[column]) >= 0x80
        pointer = "\uff3e" if wide else "^"
        return f"{head}\n | {source}\n | {dots}{pointer}"
