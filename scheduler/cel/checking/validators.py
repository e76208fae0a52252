"""Checks of literals in a typed tree, as kube-apiserver makes them since 1.29.

Durations, moments, patterns and format strings that are written out must be right; a list or a map
must not mix types, except within the arguments of `format`.
"""

from scheduler.cel.checking import types
from scheduler.cel.checking.types import Type, shown, unwrapped
from scheduler.cel.evaluation.formatting import WRONG, FormatError, clauses
from scheduler.cel.evaluation.regex import Regex, RegexError
from scheduler.cel.evaluation.timetext import read_duration, read_timestamp
from scheduler.cel.parsing.problems import SelectorProblems
from scheduler.cel.parsing.syntax import FunctionCall, ListLiteral, Literal, MapLiteral, SyntaxNode

_BY_CLAUSE = {
    "s": frozenset(
        [
            "list",
            "map",
            "int",
            "uint",
            "double",
            "bool",
            "string",
            "timestamp",
            "bytes",
            "duration",
            "type",
            "null",
            "dyn",
        ]
    ),
    "d": frozenset({"int", "uint", "dyn"}),
    "f": frozenset({"double", "string", "dyn"}),
    "e": frozenset({"double", "string", "dyn"}),
    "b": frozenset({"int", "uint", "bool", "dyn"}),
    "x": frozenset({"int", "uint", "string", "bytes", "dyn"}),
    "X": frozenset({"int", "uint", "string", "bytes", "dyn"}),
    "o": frozenset({"int", "uint", "dyn"}),
}


def validate(tree: SyntaxNode, problems: SelectorProblems) -> None:
    """Check the literals of a tree; raise CelCompileError with all mistakes."""
    found: list[tuple[SyntaxNode, bool]] = []
    stack = [(tree, False)]
    while stack:
        node, in_format = stack.pop()
        found.append((node, in_format))
        in_format = in_format or (type(node) is FunctionCall and node.function == "format")
        stack.extend((child, in_format) for child in node.children())
    found.reverse()  # what lies deeper comes first, then from left to right, as upstream
    for function in ("duration", "timestamp", "matches"):
        for node, _in_format in found:
            if type(node) is FunctionCall and node.function == function:
                _check_literal(node, problems)
    for node, in_format in found:
        if type(node) is ListLiteral and not in_format:
            _check_list(node, problems)
    for node, in_format in found:
        if type(node) is MapLiteral and not in_format:
            _check_map(node, problems)
    for node, _in_format in found:
        if type(node) is FunctionCall and node.function == "format":
            _check_template(node, problems)
    problems.raise_any()


def _check_literal(node: FunctionCall, problems: SelectorProblems) -> None:
    first = node.args[0] if node.args else None
    if type(first) is Literal and not _readable(node.function, first.value):
        problems.add(first.at, f"invalid {node.function} argument")


def _check_template(node: FunctionCall, problems: SelectorProblems) -> None:
    first = node.args[0] if node.args else None
    template = node.target.value if type(node.target) is Literal else None
    if type(first) is ListLiteral and type(template) is str:
        _check_format(node, template, first.elements, problems)


def _readable(function: str, value: object) -> bool:
    if function == "matches":
        try:
            Regex.compiled(str(value))
        except RegexError:
            return False
        return True
    if type(value) is not str:
        return function == "timestamp"
    read = read_duration if function == "duration" else read_timestamp
    return read(value) is not None


def _check_format(
    node: FunctionCall, template: str, args: list[SyntaxNode], problems: SelectorProblems
) -> None:
    used = 0
    try:
        for _literal, clause, _precision in clauses(template, len(args)):
            bad = _unfit(clause, args[used]) if clause else None
            if bad is not None:
                problems.add(bad.at, f"error during formatting: {WRONG[clause]}{bad.type.name}")
                return
            used += bool(clause)
    except FormatError as error:
        problems.add(node.at, str(error))
        return
    if len(args) > used:
        problems.add(
            node.at,
            f"too many arguments supplied to string.format (expected {used}, got {len(args)})",
        )


def _unfit(clause: str, arg: SyntaxNode) -> SyntaxNode | None:
    """Return the part of an argument that a clause cannot show."""
    if arg.type.kind not in _BY_CLAUSE[clause]:
        return arg
    if clause != "s" or type(arg) not in (ListLiteral, MapLiteral):
        return None
    return next((bad for part in arg.children() if (bad := _unfit("s", part))), None)


def _check_list(node: ListLiteral, problems: SelectorProblems) -> None:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        kind = unwrapped(element.type)[0] if index in node.optional else element.type
        if first is None:
            first = kind
        elif not _compatible(first, kind):
            problems.add(element.at, f"expected type '{shown(first)}' but found '{shown(kind)}'")
            return


def _check_map(node: MapLiteral, problems: SelectorProblems) -> None:
    firsts: tuple[Type, Type] | None = None
    for index, (key, value) in enumerate(node.entries):
        kind = unwrapped(value.type)[0] if index in node.optional else value.type
        if firsts is None:
            firsts = (key.type, kind)
            continue
        for part, expected, found in ((key, firsts[0], key.type), (value, firsts[1], kind)):
            if not _compatible(expected, found):
                problems.add(
                    part.at, f"expected type '{shown(expected)}' but found '{shown(found)}'"
                )


def _compatible(first: Type, second: Type) -> bool:
    """Return whether two types are equal up to the names of their parameters."""
    if first.kind == types.DYN.kind and second.kind == types.DYN.kind:
        return True
    return first.same(second)
