"""Regular expressions that match in time linear in the text, as RE2 promises.

A pattern becomes a program of characters, branches and assertions (R. Cox, "Regular Expression
Matching: the Virtual Machine Approach"); all alternatives run side by side, so nothing backtracks. What a
set of positions does with a character is remembered. Every step is paid for from the purse of the
evaluation, and a program is bounded in size.
"""

from functools import lru_cache
from typing import Any

from scheduler.cel.regexsyntax import Node, RegexError, parse_regex
from scheduler.cel.work import PURSE

_LARGEST_PROGRAM = 20_000
_MOST_REMEMBERED = 5_000

_CHAR, _SPLIT, _JUMP, _ASSERT, _MATCH = range(5)
_BEGIN, _END, _AFTER_NEWLINE, _BEFORE_NEWLINE, _BOUNDARY = 1, 2, 4, 8, 16
_HOLDS = {
    "^": (_BEGIN, True),
    "$": (_END, True),
    "^m": (_AFTER_NEWLINE, True),
    "$m": (_BEFORE_NEWLINE, True),
    "b": (_BOUNDARY, True),
    "B": (_BOUNDARY, False),
}

Threads = tuple[int, ...]


class Regex:
    """A compiled pattern."""

    def __init__(self, pattern: str) -> None:
        self._program: list[tuple[Any, ...]] = []
        self._emit(parse_regex(pattern))
        self._add(_MATCH)
        self._closures: dict[tuple[Threads, int], tuple[Threads, bool]] = {}
        self._steps: dict[tuple[Threads, str], Threads] = {}

    @staticmethod
    def compiled(pattern: str) -> "Regex":
        """Return the compiled pattern, kept for a while; RegexError if it is none."""
        return _compiled(pattern)

    def matches(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        return self._run(text, 0, anchored=False) is not None

    def find(self, text: str) -> str:
        """Return the first match, the leftmost and of those the preferred one; empty without any."""
        found = self._search(text, 0)
        return text[found[0] : found[1]] if found else ""

    def find_all(self, text: str, most: int = -1) -> list[str]:
        """Return the matches from left to right, at most `most` if that is not negative."""
        found: list[str] = []
        at, last_end = 0, -1
        while at <= len(text) and (most < 0 or len(found) < most):
            span = self._search(text, at)
            if span is None:
                break
            start, end = span
            if end > start or start != last_end:
                found.append(text[start:end])
            at = end if end > at else at + 1
            last_end = end
        return found

    def _search(self, text: str, start: int) -> tuple[int, int] | None:
        if self._run(text, start, anchored=False) is None:
            return None
        for at in range(start, len(text) + 1):
            end = self._run(text, at, anchored=True)
            if end is not None:
                return at, end
        return None

    def _run(self, text: str, start: int, *, anchored: bool) -> int | None:
        """Return where the preferred match from `start` ends; without anchor where any does."""
        threads: Threads = (0,)
        found: int | None = None
        for at in range(start, len(text) + 1):
            leaves, matched = self._closure(threads, self._context(text, at))
            if matched:
                found = at
                if not anchored:
                    return found
            if at == len(text) or (anchored and not leaves):
                break
            threads = self._step(leaves, text[at])
            if not anchored:
                threads = (*threads, 0)
        return found

    def _context(self, text: str, at: int) -> int:
        context = 0
        before = text[at - 1] if at else ""
        after = text[at] if at < len(text) else ""
        if not before:
            context |= _BEGIN
        if not after:
            context |= _END
        if before in ("", "\n"):
            context |= _AFTER_NEWLINE
        if after in ("", "\n"):
            context |= _BEFORE_NEWLINE
        return context | (_BOUNDARY if _is_word(before) != _is_word(after) else 0)

    def _closure(self, threads: Threads, context: int) -> tuple[Threads, bool]:
        """Return the characters that threads wait for, best first, and whether one has matched."""
        known = self._closures.get((threads, context))
        PURSE.spend(1)
        if known is not None:
            return known
        leaves: list[int] = []
        seen: set[int] = set()
        stack = list(reversed(threads))
        matched = False
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            step = self._program[at]
            if step[0] == _CHAR:
                leaves.append(at)
            elif step[0] == _MATCH:
                matched = True
                break
            elif step[0] == _SPLIT:
                stack += (step[2], step[1])
            elif step[0] == _JUMP:
                stack.append(step[1])
            elif bool(context & step[1]) == step[2]:
                stack.append(at + 1)
        PURSE.spend(len(seen))
        if len(self._closures) >= _MOST_REMEMBERED:
            self._closures.clear()
        result = (tuple(leaves), matched)
        self._closures[threads, context] = result
        return result

    def _step(self, leaves: Threads, rune: str) -> Threads:
        known = self._steps.get((leaves, rune))
        if known is not None:
            return known
        PURSE.spend(len(leaves))
        result = tuple(at + 1 for at in leaves if rune in self._program[at][1])
        if len(self._steps) >= _MOST_REMEMBERED:
            self._steps.clear()
        self._steps[leaves, rune] = result
        return result

    def _add(self, *step: Any) -> int:
        if len(self._program) >= _LARGEST_PROGRAM:
            raise RegexError("expression too large")
        self._program.append(step)
        return len(self._program) - 1

    def _emit(self, node: Node) -> None:
        kind = node[0]
        if kind == "char":
            self._add(_CHAR, node[1])
        elif kind == "cat":
            for part in node[1]:
                self._emit(part)
        elif kind == "alt":
            self._emit_choice(node[1])
        elif kind == "repeat":
            self._emit_repeat(node)
        elif kind == "assert":
            self._add(_ASSERT, *_HOLDS[node[1]])

    def _emit_choice(self, branches: list[Node]) -> None:
        jumps = []
        for branch in branches[:-1]:
            split = self._add(_SPLIT)
            self._emit(branch)
            jumps.append(self._add(_JUMP))
            self._program[split] = (_SPLIT, split + 1, len(self._program))
        self._emit(branches[-1])
        for jump in jumps:
            self._program[jump] = (_JUMP, len(self._program))

    def _emit_repeat(self, node: Node) -> None:
        _kind, part, low, high, greedy = node
        for _ in range(low):
            self._emit(part)
        if high is None:
            split = self._add(_SPLIT)
            self._emit(part)
            self._add(_JUMP, split)
            self._fork(split, greedy=greedy)
            return
        splits = []
        for _ in range(high - low):
            splits.append(self._add(_SPLIT))
            self._emit(part)
        for split in splits:
            self._fork(split, greedy=greedy)

    def _fork(self, split: int, *, greedy: bool) -> None:
        """Let a branch go into what follows it or past what has been emitted."""
        into, past = split + 1, len(self._program)
        self._program[split] = (_SPLIT, into, past) if greedy else (_SPLIT, past, into)


def _is_word(rune: str) -> bool:
    return rune == "_" or (rune != "" and rune.isascii() and rune.isalnum())


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Regex:
    return Regex(pattern)
