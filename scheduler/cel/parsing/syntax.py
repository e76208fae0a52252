"""The syntax tree of a selector, shared by parser, checker and planner.

`at` is the offset of a node in code points, for messages. The checker fills in `type`, and for
calls the `overloads` that may serve them; nothing else changes a tree once it is parsed.
"""

from collections.abc import Callable, Iterator
from typing import Any

from scheduler.cel.checking.types import Type


class SyntaxNode:
    """A part of the text; `type` is known once the tree is checked."""

    __slots__ = ("at", "depth", "size", "type")

    at: int
    depth: int
    size: int
    type: Type

    def children(self) -> "Iterator[SyntaxNode]":
        """Yield the parts of this part."""
        return iter(())

    def _place(self, at: int) -> None:
        self.at = at
        self.depth = self.size = 1
        for child in self.children():
            self.size += child.size
            self.depth = max(self.depth, child.depth + 1)


class Literal(SyntaxNode):
    """A constant; `value` as the evaluator holds it."""

    __slots__ = ("value",)

    def __init__(self, at: int, value: Any) -> None:
        self.value = value
        self._place(at)


class Ident(SyntaxNode):
    """A name; `constant` is the type it names (if any), `slot` the index of its value at run
    time.
    """

    __slots__ = ("constant", "name", "slot")

    def __init__(self, at: int, name: str) -> None:
        self.name = name
        self.constant: Type | None = None
        self.slot = -1
        self._place(at)


class Select(SyntaxNode):
    """A field of a value; `test` for `has()`."""

    __slots__ = ("constant", "field", "operand", "test")

    def __init__(self, at: int, operand: SyntaxNode, field: str, *, test: bool = False) -> None:
        self.operand = operand
        self.field = field
        self.test = test
        self.constant: Type | None = None
        self._place(at)

    def children(self) -> Iterator[SyntaxNode]:
        """Yield the operand."""
        yield self.operand


class FunctionCall(SyntaxNode):
    """A call of a function, an operator, or a method of `target`."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(
        self, at: int, function: str, args: list[SyntaxNode], target: SyntaxNode | None = None
    ) -> None:
        self.function = function
        self.args = args
        self.target = target
        self.overloads: tuple[Any, ...] = ()
        self._place(at)

    def children(self) -> Iterator[SyntaxNode]:
        """Yield target and arguments."""
        if self.target is not None:
            yield self.target
        yield from self.args


class ListLiteral(SyntaxNode):
    """A list; `optional` holds the indices of elements that may be absent."""

    __slots__ = ("elements", "optional")

    def __init__(
        self, at: int, elements: list[SyntaxNode], optional: frozenset[int] = frozenset()
    ) -> None:
        self.elements = elements
        self.optional = optional
        self._place(at)

    def children(self) -> Iterator[SyntaxNode]:
        """Yield the elements."""
        yield from self.elements


class MapLiteral(SyntaxNode):
    """A map; `optional` holds the indices of entries that may be absent."""

    __slots__ = ("entries", "optional")

    def __init__(
        self,
        at: int,
        entries: list[tuple[SyntaxNode, SyntaxNode]],
        optional: frozenset[int] = frozenset(),
    ) -> None:
        self.entries = entries
        self.optional = optional
        self._place(at)

    def children(self) -> Iterator[SyntaxNode]:
        """Yield keys and values in turn."""
        for key, value in self.entries:
            yield key
            yield value


class Message(SyntaxNode):
    """A message `Name{field: value}`; no message can be made in a selector."""

    __slots__ = ("name", "values")

    def __init__(self, at: int, name: str, values: list[SyntaxNode]) -> None:
        self.name = name
        self.values = values
        self._place(at)

    def children(self) -> Iterator[SyntaxNode]:
        """Yield the values."""
        yield from self.values


class Fold(SyntaxNode):
    """The expansion of a macro: `accu` starts at `init`, then `step` for each element while
    `condition`.
    """

    __slots__ = (
        "accu",
        "accu_slot",
        "condition",
        "init",
        "range",
        "result",
        "step",
        "var",
        "var2",
        "var2_slot",
        "var_slot",
    )

    def __init__(
        self,
        at: int,
        *,
        over: SyntaxNode,
        var: str,
        accu: str,
        init: SyntaxNode,
        condition: SyntaxNode,
        step: SyntaxNode,
        result: SyntaxNode,
        var2: str = "",
    ) -> None:
        self.range = over
        self.var = var
        self.var2 = var2
        self.accu = accu
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result
        self.var_slot = self.var2_slot = self.accu_slot = -1
        self._place(at)

    def children(self) -> Iterator[SyntaxNode]:
        """Yield the parts in the order in which they are checked."""
        yield from (self.range, self.init, self.condition, self.step, self.result)

    @property
    def binds(self) -> bool:
        """Return whether this only gives a value a name (`cel.bind`)."""
        return (
            type(self.range) is ListLiteral
            and not self.range.elements
            and type(self.condition) is Literal
            and self.condition.value is False
            and self.accu != ACCUMULATOR_NAME
        )


ACCUMULATOR = "@result"
ACCUMULATOR_NAME = "__result__"


def copied(node: SyntaxNode) -> SyntaxNode:
    """Return a copy of the tree, so that both copies can be checked on their own."""
    kind = type(node)
    return _COPIERS[kind](node)


def _copied_list(nodes: list[SyntaxNode]) -> list[SyntaxNode]:
    return [copied(node) for node in nodes]


def _copied_fold(node: Any) -> Fold:
    return Fold(
        node.at,
        over=copied(node.range),
        var=node.var,
        var2=node.var2,
        accu=node.accu,
        init=copied(node.init),
        condition=copied(node.condition),
        step=copied(node.step),
        result=copied(node.result),
    )


_COPIERS: dict[type[SyntaxNode], Callable[[Any], SyntaxNode]] = {
    Literal: lambda n: Literal(n.at, n.value),
    Ident: lambda n: Ident(n.at, n.name),
    Select: lambda n: Select(n.at, copied(n.operand), n.field, test=n.test),
    FunctionCall: lambda n: FunctionCall(
        n.at, n.function, _copied_list(n.args), None if n.target is None else copied(n.target)
    ),
    ListLiteral: lambda n: ListLiteral(n.at, _copied_list(n.elements), n.optional),
    MapLiteral: lambda n: MapLiteral(
        n.at, [(copied(key), copied(value)) for key, value in n.entries], n.optional
    ),
    Message: lambda n: Message(n.at, n.name, _copied_list(n.values)),
    Fold: _copied_fold,
}


def balanced(
    function: str, terms: list[SyntaxNode], operators: list[int], low: int, high: int
) -> SyntaxNode:
    """Return a chain of one operator as a balanced tree."""
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else balanced(function, terms, operators, low, middle - 1)
    right = (
        terms[middle + 1]
        if middle == high
        else balanced(function, terms, operators, middle + 1, high)
    )
    return FunctionCall(operators[middle], function, [left, right])
