"""The syntax of regular expressions as Go (RE2) reads it, with Go's words for what is wrong.

Returns a tree of tuples: ("char", CharSet), ("cat", [..]), ("alt", [..]), ("repeat", node, low, high,
greedy), ("assert", kind), ("empty",). No look-around and no back-references, as in RE2; names of
scripts (`Greek`) are not known here.
"""

import re
from typing import Any

from scheduler.cel.charsets import (
    LAST,
    CharSet,
    Ranges,
    is_category,
    perl_class,
    posix_class,
)

Node = tuple[Any, ...]

_MOST_REPEATS = 1000
_DEEPEST = 100
_SIMPLE = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_REPEAT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAME = re.compile(r"[A-Za-z0-9_]+")
_META = frozenset("\\.+*?()|[]{}^$")


class RegexError(ValueError):
    """The text is no regular expression; the message is Go's."""

    def __init__(self, reason: str, part: str = "") -> None:
        super().__init__(f"error parsing regexp: {reason}" + (f": `{part}`" if part else ""))


def parse_regex(pattern: str) -> Node:
    """Return the tree of a regular expression; RegexError if the text is none."""
    return _Reader(pattern).whole()


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()
        self._names: set[str] = set()

    def whole(self) -> Node:
        node = self._alternatives()
        if self._at < len(self._text):
            raise RegexError("unexpected )", self._text)
        return node

    def _more(self) -> bool:
        return self._at < len(self._text)

    def _looking_at(self, sign: str) -> bool:
        return self._text.startswith(sign, self._at)

    def _alternatives(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RegexError("expression nests too deeply", self._text)
        flags = self._flags
        branches = [self._branch()]
        while self._more() and self._text[self._at] == "|":
            self._at += 1
            branches.append(self._branch())
        self._flags = flags
        self._depth -= 1
        return branches[0] if len(branches) == 1 else ("alt", branches)

    def _branch(self) -> Node:
        parts: list[Node] = []
        repeated_from = -1  # where the operator before this one begins
        while self._more() and self._text[self._at] not in "|)":
            start = self._at
            repeat = self._repetition()
            if repeat is None:
                parts.extend(self._atom())
                repeated_from = -1
                continue
            operator = self._text[start : self._at]
            if not parts:
                raise RegexError("missing argument to repetition operator", operator)
            if repeated_from >= 0:
                raise RegexError(
                    "invalid nested repetition operator", self._text[repeated_from : self._at]
                )
            repeated_from = start
            low, high, greedy = repeat
            node = ("repeat", parts.pop(), low, high, greedy)
            if _repeats(node) > _MOST_REPEATS:
                raise RegexError("invalid repeat count", operator)
            parts.append(node)
        return parts[0] if len(parts) == 1 else ("cat", parts)

    def _repetition(self) -> tuple[int, int | None, bool] | None:
        """Return the bounds of a repetition operator that comes next."""
        sign = self._text[self._at]
        bounds: tuple[int, int | None]
        if sign in "*+?":
            self._at += 1
            bounds = {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        elif sign == "{" and (match := _REPEAT.match(self._text, self._at)):
            low = int(match[1][:5])
            high = int(match[3][:5]) if match[3] else (None if match[2] else low)
            if low > _MOST_REPEATS or (high is not None and (high > _MOST_REPEATS or high < low)):
                raise RegexError("invalid repeat count", match[0])
            self._at = match.end()
            bounds = (low, high)
        else:
            return None
        lazy = self._looking_at("?")
        self._at += lazy
        return (*bounds, lazy == ("U" in self._flags))

    def _atom(self) -> list[Node]:
        sign = self._text[self._at]
        if sign == "(":
            return self._group()
        if sign == "[":
            return [("char", self._char_class())]
        if sign == "\\":
            return self._escape()
        self._at += 1
        if sign == ".":
            every = [(0, LAST)] if "s" in self._flags else [(0, 9), (11, LAST)]
            return [("char", CharSet(every))]
        if sign == "^":
            return [("assert", "^m" if "m" in self._flags else "^")]
        if sign == "$":
            return [("assert", "$m" if "m" in self._flags else "$")]
        return [self._literal(ord(sign))]

    def _literal(self, code: int) -> Node:
        return ("char", CharSet([(code, code)], fold="i" in self._flags))

    def _group(self) -> list[Node]:
        start = self._at
        self._at += 1
        if self._looking_at("?"):
            if self._looking_at("?P<") or self._looking_at("?<"):
                self._group_name(start)
            elif (flags := self._group_flags(start)) is not None:
                self._flags = flags
                return []
        node = self._alternatives() if not self._pending else self._flagged(self._pending)
        if not self._looking_at(")"):
            raise RegexError("missing closing )", self._text)
        self._at += 1
        return [node]

    _pending: list[frozenset[str]] | None = None

    def _flagged(self, pending: list[frozenset[str]]) -> Node:
        self._pending = None
        outer = self._flags
        self._flags = pending[0]
        node = self._alternatives()
        self._flags = outer
        return node

    def _group_name(self, start: int) -> None:
        opening = 3 if self._looking_at("?P<") else 2
        end = self._text.find(">", self._at)
        if end < 0:
            raise RegexError("invalid named capture", self._text[start:])
        name = self._text[self._at + opening : end]
        if not _NAME.fullmatch(name):
            raise RegexError("invalid named capture", self._text[start : end + 1])
        if name in self._names:
            raise RegexError("duplicate capture group name", name)
        self._names.add(name)
        self._at = end + 1

    def _group_flags(self, start: int) -> frozenset[str] | None:
        """Read `?flags` and `?flags:`; return the flags of the first, leave those of the second."""
        self._at += 1
        flags = set(self._flags)
        off = seen = False
        while self._more():
            sign = self._text[self._at]
            self._at += 1
            if sign in "imsU":
                seen = True
                flags.discard(sign) if off else flags.add(sign)
            elif sign == "-" and not off:
                off, seen = True, False
            elif sign in ":)" and (seen or not off):
                if sign == ")":
                    return frozenset(flags)
                self._pending = [frozenset(flags)]
                return None
            else:
                break
        else:
            raise RegexError("missing closing )", self._text)
        raise RegexError("invalid or unsupported Perl syntax", self._text[start : self._at])

    def _escape(self) -> list[Node]:
        start = self._at
        if self._at + 1 >= len(self._text):
            raise RegexError("trailing backslash at end of expression")
        letter = self._text[self._at + 1]
        if letter in "AzbB":
            self._at += 2
            return [("assert", {"A": "^", "z": "$", "b": "b", "B": "B"}[letter])]
        if letter == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            return [self._literal(ord(rune)) for rune in quoted]
        ranges: Ranges = []
        categories: list[tuple[str, bool]] = []
        if self._class_escape(ranges, categories):
            return [("char", CharSet(ranges, categories, fold="i" in self._flags))]
        return [self._literal(self._escaped_code(start))]

    def _class_escape(self, ranges: Ranges, categories: list[tuple[str, bool]]) -> bool:
        """Read a class of Perl or Unicode into a set; False if something else comes."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter and letter in "dDsSwW":
            ranges.extend(perl_class(letter))
            self._at += 2
            return True
        if not letter or letter not in "pP":
            return False
        start = self._at
        name = self._text[self._at + 2 : self._at + 3]
        self._at += 3
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise RegexError("invalid character class range", self._text[start:])
            name = self._text[self._at : end]
            self._at = end + 1
        out = (letter == "P") != name.startswith("^")
        name = name.removeprefix("^")
        if not is_category(name):
            raise RegexError("invalid character class range", self._text[start : self._at])
        categories.append((name, out))
        return True

    def _escaped_code(self, start: int) -> int:
        letter = self._text[self._at + 1 : self._at + 2]
        if not letter:
            raise RegexError("trailing backslash at end of expression")
        self._at += 2
        if letter in _SIMPLE:
            return _SIMPLE[letter]
        if letter == "x":
            match = re.compile(r"([0-9a-fA-F]{2})|\{([0-9a-fA-F]{1,8})\}").match(
                self._text, self._at
            )
            if match and int(match[1] or match[2], 16) <= LAST:
                self._at = match.end()
                return int(match[1] or match[2], 16)
        elif letter in "01234567":
            more = re.compile("[0-7]{0,2}").match(self._text, self._at)
            digits = more[0] if more else ""
            if letter == "0" or digits:
                self._at += len(digits)
                return int(letter + digits, 8)
        elif letter in _META or (ord(letter) < 0x80 and not letter.isalnum() and letter != "_"):
            return ord(letter)
        raise RegexError("invalid escape sequence", self._text[start : self._at])

    def _char_class(self) -> CharSet:
        start = self._at
        self._at += 1
        negated = self._looking_at("^")
        self._at += negated
        ranges: Ranges = []
        categories: list[tuple[str, bool]] = []
        first = True
        while first or not self._looking_at("]"):
            if not self._more():
                raise RegexError("missing closing ]", self._text[start:])
            self._class_item(start, first, ranges, categories)
            first = False
        self._at += 1
        return CharSet(ranges, categories, negated=negated, fold="i" in self._flags)

    def _class_item(
        self, start: int, first: bool, ranges: Ranges, categories: list[tuple[str, bool]]
    ) -> None:
        del first
        if self._looking_at("[:") and (end := self._text.find(":]", self._at + 2)) >= 0:
            name = self._text[self._at + 2 : end]
            posix = posix_class(name)
            if posix is None:
                raise RegexError("invalid character class range", self._text[self._at : end + 2])
            ranges.extend(posix)
            self._at = end + 2
            return
        if self._looking_at("\\") and self._class_escape(ranges, categories):
            return
        item = self._at
        low = high = self._class_code(start)
        following = self._text[self._at + 1 : self._at + 2]
        if self._looking_at("-") and following and following != "]":
            self._at += 1
            high = self._class_code(start)
            if high < low:
                raise RegexError("invalid character class range", self._text[item : self._at])
        elif self._looking_at("-") and not following:
            raise RegexError("missing closing ]", self._text[start:])
        ranges.append((low, high))

    def _class_code(self, start: int) -> int:
        if not self._more():
            raise RegexError("missing closing ]", self._text[start:])
        if self._looking_at("\\"):
            return self._escaped_code(self._at)
        self._at += 1
        return ord(self._text[self._at - 1])


def _repeats(node: Node) -> int:
    """Return how often the innermost part of nested repetitions is written out."""
    if node[0] == "repeat":
        low, high = node[2], node[3]
        times = max(low if high is None else high, 1) if (low, high) != (0, None) else 1
        return times * _repeats(node[1])
    if node[0] in ("cat", "alt"):
        return max((_repeats(part) for part in node[1]), default=1)
    return 1
