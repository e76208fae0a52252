"""Selectors with replaced texts, for anonymization that must keep the results of comparisons."""

import json
from collections.abc import Callable

from scheduler.cel.parsing.lexer import tokens
from scheduler.cel.parsing.literals import string_value
from scheduler.cel.parsing.problems import SelectorProblems


def replace_texts(text: str, other: Callable[[str], str]) -> str:
    """Return a selector with each string literal replaced; CelCompileError if it has no tokens."""
    problems = SelectorProblems(text)
    found = tokens(text, problems)
    problems.raise_any()
    for token in reversed(found):
        if token.kind != "string":
            continue
        old = string_value(token.text)
        new = other(old)
        if new != old:
            end = token.at + len(token.text)
            text = text[: token.at] + json.dumps(new, ensure_ascii=False) + text[end:]
    return text
