"""From text to tokens: CEL's lexical grammar (cel-spec, `CEL.g4`).

Invalid characters are reported and skipped, so that one stray sign does not hide other problems.
"""

import re
from typing import NamedTuple

from scheduler.cel.parsing.problems import SelectorProblems

_ESCAPE = (
    r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7][0-7])"
)
_STRING = "|".join(
    (
        r'[rR]"""(?:(?!""").)*"""',
        r"[rR]'''(?:(?!''').)*'''",
        rf'"""(?:{_ESCAPE}|(?!""")[^\\])*"""',
        rf"'''(?:{_ESCAPE}|(?!''')[^\\])*'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
    )
)
_TOKEN = re.compile(
    "|".join(
        (
            r"(?P<space>[\t \r\n\f]+|//[^\n]*)",
            (
                r"(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+"
                r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
            ),
            r"(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])",
            r"(?P<int>0x[0-9a-fA-F]+|[0-9]+)",
            rf"(?P<bytes>[bB](?:{_STRING}))",
            rf"(?P<string>{_STRING})",
            r"(?P<word>[A-Za-z_][A-Za-z0-9_]*)",
            r"(?P<escaped>`[A-Za-z0-9_.\-/ ]+`)",
            r"(?P<sign>==|!=|<=|>=|&&|\|\||[\[\](){}<>.,\-!?:+*/%])",
        )
    ),
    re.DOTALL,
)
_OPEN_QUOTE = re.compile(r"""[bB]?[rR]?(?:"|')[^\n\r]*""")
_TWO_SIGNS = re.compile(r"[=&|][^\n]?")

KEYWORDS = frozenset({"in", "true", "false", "null"})


class Token(NamedTuple):
    """A token: `kind` is its class, or for signs and keywords the text itself."""

    kind: str
    text: str
    at: int


def tokens(text: str, problems: SelectorProblems) -> list[Token]:
    """Return the tokens of a text with `<EOF>` at the end; report invalid characters."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            at = _stray(text, at, problems)
            continue
        kind = match.lastgroup or ""
        if kind != "space":
            word = match[0]
            is_itself = kind == "sign" or (kind == "word" and word in KEYWORDS)
            found.append(Token(word if is_itself else kind, word, at))
        at = match.end()
    found.append(Token("<EOF>", "<EOF>", len(text)))
    return found


def _stray(text: str, at: int, problems: SelectorProblems) -> int:
    """Report the invalid characters at `at`; return the position after them."""
    match = _OPEN_QUOTE.match(text, at) or _TWO_SIGNS.match(text, at)
    stray = match[0] if match else text[at]
    shown = stray.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    problems.add(at, f"Syntax error: token recognition error at: '{shown}'")
    return at + len(stray)
