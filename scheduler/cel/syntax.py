"""The tree of a selector's text: what the parser makes, the checker types, the planner compiles.

`at` is the offset of a node in code points, for messages. The checker fills in `type`, and for calls the
`overloads` that may serve them; nothing else changes a tree once it is parsed.
"""

from collections.abc import Callable, Iterator
from typing import Any

from scheduler.cel.types import Type


class Node:
    """A part of the text; `type` is known once the tree is checked."""

    __slots__ = ("at", "depth", "size", "type")

    at: int
    depth: int
    size: int
    type: Type

    def children(self) -> "Iterator[Node]":
        """Yield the parts of this part."""
        return iter(())

    def _place(self, at: int) -> None:
        self.at = at
        self.depth = self.size = 1
        for child in self.children():
            self.size += child.size
            self.depth = max(self.depth, child.depth + 1)


class Literal(Node):
    """A constant; `value` as the evaluator holds it."""

    __slots__ = ("value",)

    def __init__(self, at: int, value: Any) -> None:
        self.value = value
        self._place(at)


class Ident(Node):
    """A name; `constant` is the type it names, if it names one, `slot` where its value is kept."""

    __slots__ = ("constant", "name", "slot")

    def __init__(self, at: int, name: str) -> None:
        self.name = name
        self.constant: Type | None = None
        self.slot = -1
        self._place(at)


class Select(Node):
    """A field of a value; `test` for `has()`."""

    __slots__ = ("constant", "field", "operand", "test")

    def __init__(self, at: int, operand: Node, field: str, *, test: bool = False) -> None:
        self.operand = operand
        self.field = field
        self.test = test
        self.constant: Type | None = None
        self._place(at)

    def children(self) -> Iterator[Node]:
        """Yield the operand."""
        yield self.operand


class Call(Node):
    """A call of a function, an operator, or a method of `target`."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(
        self, at: int, function: str, args: list[Node], target: Node | None = None
    ) -> None:
        self.function = function
        self.args = args
        self.target = target
        self.overloads: tuple[Any, ...] = ()
        self._place(at)

    def children(self) -> Iterator[Node]:
        """Yield target and arguments."""
        if self.target is not None:
            yield self.target
        yield from self.args


class ListLiteral(Node):
    """A list; `optional` holds the indices of elements that may be absent."""

    __slots__ = ("elements", "optional")

    def __init__(
        self, at: int, elements: list[Node], optional: frozenset[int] = frozenset()
    ) -> None:
        self.elements = elements
        self.optional = optional
        self._place(at)

    def children(self) -> Iterator[Node]:
        """Yield the elements."""
        yield from self.elements


class MapLiteral(Node):
    """A map; `optional` holds the indices of entries that may be absent."""

    __slots__ = ("entries", "optional")

    def __init__(
        self, at: int, entries: list[tuple[Node, Node]], optional: frozenset[int] = frozenset()
    ) -> None:
        self.entries = entries
        self.optional = optional
        self._place(at)

    def children(self) -> Iterator[Node]:
        """Yield keys and values in turn."""
        for key, value in self.entries:
            yield key
            yield value


class Message(Node):
    """A message `Name{field: value}`; no message can be made in a selector."""

    __slots__ = ("name", "values")

    def __init__(self, at: int, name: str, values: list[Node]) -> None:
        self.name = name
        self.values = values
        self._place(at)

    def children(self) -> Iterator[Node]:
        """Yield the values."""
        yield from self.values


class Fold(Node):
    """What a macro becomes: `accu` starts at `init`, then `step` for each element while `condition`."""

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
        over: Node,
        var: str,
        accu: str,
        init: Node,
        condition: Node,
        step: Node,
        result: Node,
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

    def children(self) -> Iterator[Node]:
        """Yield the parts in the order in which they are checked."""
        yield from (self.range, self.init, self.condition, self.step, self.result)

    @property
    def binds(self) -> bool:
        """Whether this only gives a value a name (`cel.bind`)."""
        return (
            type(self.range) is ListLiteral
            and not self.range.elements
            and type(self.condition) is Literal
            and self.condition.value is False
            and self.accu != ACCUMULATOR_NAME
        )


ACCUMULATOR = "@result"
ACCUMULATOR_NAME = "__result__"


def copied(node: Node) -> Node:
    """Return a copy of the tree, so that both copies can be checked on their own."""
    kind = type(node)
    return _COPIERS[kind](node)


def _copied_list(nodes: list[Node]) -> list[Node]:
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


_COPIERS: dict[type[Node], Callable[[Any], Node]] = {
    Literal: lambda n: Literal(n.at, n.value),
    Ident: lambda n: Ident(n.at, n.name),
    Select: lambda n: Select(n.at, copied(n.operand), n.field, test=n.test),
    Call: lambda n: Call(
        n.at, n.function, _copied_list(n.args), None if n.target is None else copied(n.target)
    ),
    ListLiteral: lambda n: ListLiteral(n.at, _copied_list(n.elements), n.optional),
    MapLiteral: lambda n: MapLiteral(
        n.at, [(copied(key), copied(value)) for key, value in n.entries], n.optional
    ),
    Message: lambda n: Message(n.at, n.name, _copied_list(n.values)),
    Fold: _copied_fold,
}


def balanced(function: str, terms: list[Node], operators: list[int], low: int, high: int) -> Node:
    """Return a chain of one operator as a tree that is as flat as it can be."""
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else balanced(function, terms, operators, low, middle - 1)
    right = (
        terms[middle + 1]
        if middle == high
        else balanced(function, terms, operators, middle + 1, high)
    )
    return Call(operators[middle], function, [left, right])
