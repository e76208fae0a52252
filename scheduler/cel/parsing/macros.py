"""Macros: calls that stand for a loop or a test and are written out before types are checked.

Each expander gets the target and the arguments of a call and returns the expanded tree, or None if
the call is no macro; `MacroError` describes an invalid argument.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel.parsing.syntax import (
    ACCUMULATOR,
    ACCUMULATOR_NAME,
    Fold,
    FunctionCall,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    SyntaxNode,
    copied,
)

UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"
_LARGEST_TWICE = 2000


class MacroError(Exception):
    """An invalid argument of a macro."""

    def __init__(self, node: SyntaxNode, message: str) -> None:
        super().__init__(message)
        self.node = node
        self.message = message


Expander = Callable[[int, SyntaxNode, list[SyntaxNode]], SyntaxNode | None]


def _accu(at: int) -> Ident:
    return Ident(at, ACCUMULATOR)


def _loop_variable(node: SyntaxNode, complaint: str) -> str:
    if type(node) is not Ident:
        raise MacroError(node, complaint)
    return node.name


def _one_variable(node: SyntaxNode, complaint: str) -> str:
    name = _loop_variable(node, complaint)
    if name in (ACCUMULATOR, ACCUMULATOR_NAME):
        raise MacroError(node, "iteration variable overwrites accumulator variable")
    return name


def _two_variables(args: list[SyntaxNode]) -> tuple[str, str]:
    first = _loop_variable(args[0], "argument must be a simple name")
    second = _loop_variable(args[1], "argument must be a simple name")
    if first == second:
        raise MacroError(args[1], f"duplicate variable name: {first}")
    _one_variable(args[0], "")
    _one_variable(args[1], "")
    return first, second


def _fold(
    at: int, over: SyntaxNode, names: tuple[str, str], init: SyntaxNode, parts: list[SyntaxNode]
) -> Fold:
    condition, step, result = parts
    return Fold(
        at,
        over=over,
        var=names[0],
        var2=names[1],
        accu=ACCUMULATOR,
        init=init,
        condition=condition,
        step=step,
        result=result,
    )


def _all(at: int, over: SyntaxNode, names: tuple[str, str], test: SyntaxNode) -> Fold:
    going = FunctionCall(at, "@not_strictly_false", [_accu(at)])
    step = FunctionCall(at, "_&&_", [_accu(at), test])
    return _fold(at, over, names, Literal(at, value=True), [going, step, _accu(at)])


def _exists(at: int, over: SyntaxNode, names: tuple[str, str], test: SyntaxNode) -> Fold:
    going = FunctionCall(at, "@not_strictly_false", [FunctionCall(at, "!_", [_accu(at)])])
    step = FunctionCall(at, "_||_", [_accu(at), test])
    return _fold(at, over, names, Literal(at, value=False), [going, step, _accu(at)])


def _exists_one(at: int, over: SyntaxNode, names: tuple[str, str], test: SyntaxNode) -> Fold:
    more = FunctionCall(at, "_+_", [_accu(at), Literal(at, 1)])
    step = FunctionCall(at, "_?_:_", [test, more, _accu(at)])
    result = FunctionCall(at, "_==_", [_accu(at), Literal(at, 1)])
    return _fold(at, over, names, Literal(at, 0), [Literal(at, value=True), step, result])


Quantifier = Callable[[int, SyntaxNode, tuple[str, str], SyntaxNode], Fold]


def _over_one(quantifier: Quantifier) -> Expander:
    def expand(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
        name = _one_variable(args[0], "argument must be a simple name")
        return quantifier(at, target, (name, ""), args[1])

    return expand


def _over_two(quantifier: Quantifier) -> Expander:
    def expand(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
        return quantifier(at, target, _two_variables(args), args[2])

    return expand


def _collect(
    at: int,
    over: SyntaxNode,
    names: tuple[str, str],
    step: SyntaxNode,
    test: SyntaxNode | None,
    init: SyntaxNode,
) -> Fold:
    """Return a loop that grows its accumulator by `step`, for elements that pass `test`."""
    if test is not None:
        step = FunctionCall(at, "_?_:_", [test, step, _accu(at)])
    return _fold(at, over, names, init, [Literal(at, value=True), step, _accu(at)])


def _appended(at: int, element: SyntaxNode) -> FunctionCall:
    return FunctionCall(at, "_+_", [_accu(at), ListLiteral(at, [element])])


def _map(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    name = _one_variable(args[0], "argument is not an identifier")
    test = args[1] if len(args) == 3 else None
    return _collect(at, target, (name, ""), _appended(at, args[-1]), test, ListLiteral(at, []))


def _filter(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    name = _one_variable(args[0], "argument is not an identifier")
    return _collect(at, target, (name, ""), _appended(at, args[0]), args[1], ListLiteral(at, []))


def _transform_list(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    names = _two_variables(args)
    test = args[2] if len(args) == 4 else None
    return _collect(at, target, names, _appended(at, args[-1]), test, ListLiteral(at, []))


def _transform_map(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    names = _two_variables(args)
    test = args[2] if len(args) == 4 else None
    step = FunctionCall(at, "cel.@mapInsert", [_accu(at), Ident(at, names[0]), args[-1]])
    return _collect(at, target, names, step, test, MapLiteral(at, []))


def _transform_entry(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    names = _two_variables(args)
    test = args[2] if len(args) == 4 else None
    step = FunctionCall(at, "cel.@mapInsert", [_accu(at), args[-1]])
    return _collect(at, target, names, step, test, MapLiteral(at, []))


def _bound(at: int, name: str, init: SyntaxNode, result: SyntaxNode) -> Fold:
    return Fold(
        at,
        over=ListLiteral(at, []),
        var=UNUSED,
        accu=name,
        init=init,
        condition=Literal(at, value=False),
        step=Ident(at, name),
        result=result,
    )


def _bind(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode | None:
    if type(target) is not Ident or target.name != "cel":
        return None
    name = _loop_variable(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(at, name, args[1], args[2])


def _twice(target: SyntaxNode) -> SyntaxNode:
    """Return a copy of a target that is needed twice; without a limit, chains of copies would
    double at each link.
    """
    if target.size > _LARGEST_TWICE:
        raise MacroError(target, "expression is too large to be the target of this macro")
    return copied(target)


def _opt_map(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    name = _loop_variable(args[0], "optMap() variable name must be a simple identifier")
    value = FunctionCall(at, "value", [], _twice(target))
    made = FunctionCall(at, "optional.of", [_bound(at, name, value, args[1])])
    has_value = FunctionCall(at, "hasValue", [], target)
    return FunctionCall(at, "_?_:_", [has_value, made, FunctionCall(at, "optional.none", [])])


def _opt_flat_map(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    name = _loop_variable(args[0], "optFlatMap() variable name must be a simple identifier")
    value = FunctionCall(at, "value", [], _twice(target))
    has_value = FunctionCall(at, "hasValue", [], target)
    bound = _bound(at, name, value, args[1])
    return FunctionCall(at, "_?_:_", [has_value, bound, FunctionCall(at, "optional.none", [])])


def _sort_by(at: int, target: SyntaxNode, args: list[SyntaxNode]) -> SyntaxNode:
    if not isinstance(target, (ListLiteral, Select, Ident, Fold, FunctionCall)):
        raise MacroError(
            target,
            "sortBy can only be applied to a list, identifier, comprehension, call or select "
            "expression",
        )
    keys = _map(at, Ident(at, _SORT_INPUT), args)
    call = FunctionCall(at, "@sortByAssociatedKeys", [keys], Ident(at, _SORT_INPUT))
    return _bound(at, _SORT_INPUT, target, call)


def has(at: int, args: list[SyntaxNode]) -> SyntaxNode:
    """Return the tree that tests whether a field is present."""
    select = args[0]
    if type(select) is not Select:
        raise MacroError(select, "invalid argument to has() macro")
    return Select(at, select.operand, select.field, test=True)


# By name and number of arguments; all are written as methods, `has` is not.
RECEIVER_MACROS: dict[tuple[str, int], Expander] = {
    ("all", 2): _over_one(_all),
    ("all", 3): _over_two(_all),
    ("exists", 2): _over_one(_exists),
    ("exists", 3): _over_two(_exists),
    ("exists_one", 2): _over_one(_exists_one),
    ("exists_one", 3): _over_two(_exists_one),
    ("existsOne", 2): _over_one(_exists_one),
    ("existsOne", 3): _over_two(_exists_one),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_entry,
    ("transformMapEntry", 4): _transform_entry,
    ("bind", 3): _bind,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_flat_map,
    ("sortBy", 2): _sort_by,
}
