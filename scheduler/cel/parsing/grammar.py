"""Tokens of the grammar: reserved words, precedence of operators, starts of operands."""

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
PRECEDENCE = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
FUNCTION_OF = {"in": "@in", **{sign: f"_{sign}_" for sign in PRECEDENCE if sign != "in"}}
STARTS = frozenset(
    (
        "[",
        "{",
        "(",
        ".",
        "-",
        "!",
        "true",
        "false",
        "null",
        "float",
        "int",
        "uint",
        "string",
        "bytes",
        "word",
    )
)
CLOSED = "')'"
CONSTANTS = {"true": True, "false": False, "null": None}


def start_words(more: str) -> str:
    """Return the list of tokens that may start an operand, in upstream's notation."""
    closing = "')', " if more == CLOSED else ""
    question = "'?', " if more == "'?'" else ""
    return (
        f"{{'[', '{{', '(', {closing}'.', '-', '!', {question}'true', 'false', 'null', "
        "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
    )
