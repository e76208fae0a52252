"""The worst-case cost of a selector, estimated from its text; the API server rejects costs above
the limit.

Sizes come from literals, from the limits of what a device may hold (ResourceSlice validation) and
from the calls that made a value; a loop costs as often as its range may have elements. (Method:
cel-go, `checker/cost.go`.)
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from scheduler.cel.checking.callestimates import Argument, estimator, result_type
from scheduler.cel.checking.ranges import MOST, UNKNOWN, Range, fixed
from scheduler.cel.evaluation.costs import LIST_COST, MAP_COST, MESSAGE_COST
from scheduler.cel.parsing import syntax

Path = tuple[str, ...]

_ZERO = fixed(0)
_ONE = fixed(1)
# Most characters of a driver's name, a domain, an id and a value; most attributes and capacities.
_DRIVER, _DOMAIN, _ID, _VALUE, _NAMES = 63, 63, 32, 64, 32


class _Inside(NamedTuple):
    """The sizes of a container's elements."""

    is_list: bool
    key: Range
    value: Range


class _Local:
    """The size of a variable of a loop or a binding."""

    __slots__ = ("inside", "path", "size")

    def __init__(self, path: Path, size: Range | None, inside: _Inside | None) -> None:
        self.path = path
        self.size = size
        self.inside = inside


def max_cost(tree: syntax.SyntaxNode) -> int:
    """Return the worst cost of a typed tree, in CEL's cost units; at most 2**64-1."""
    return _Estimate().cost(tree).most


def _size_at(path: Path) -> Range | None:
    """Return the size of a part of the device."""
    if path == ("device",):
        return _ZERO
    if path[:1] != ("device",) or len(path) < 2:
        return None
    field, *rest = path[1:]
    if field in ("driver", "allowMultipleAllocations"):
        most = _DRIVER if field == "driver" else 1
        return None if rest else Range(0, most)
    if field not in ("attributes", "capacity"):
        return None
    if not rest:
        return Range(0, _NAMES)
    if len(rest) > 2 or rest[0] not in ("@values", "@items", "@keys"):
        return None
    if rest[0] == "@keys":
        return Range(0, _DOMAIN) if len(rest) == 1 else None
    if len(rest) == 1:
        return Range(0, _NAMES)
    if rest[1] == "@keys":
        return Range(0, _ID)
    if field == "attributes":
        return Range(0, _VALUE)
    return _ZERO if rest[1] in ("@values", "@items") else None


class _Estimate:
    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._insides: dict[int, _Inside] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._rules: dict[type[syntax.SyntaxNode], Callable[[Any], Range]] = {
            syntax.Literal: lambda _node: _ZERO,
            syntax.Ident: self._ident,
            syntax.Select: self._select,
            syntax.FunctionCall: self._call,
            syntax.ListLiteral: self._list,
            syntax.MapLiteral: self._map,
            syntax.Message: self._message,
            syntax.Fold: self._fold,
        }

    def cost(self, node: syntax.SyntaxNode) -> Range:
        """Return the estimated cost of a node with all its children."""
        return self._rules[type(node)](node)

    def _local(self, node: syntax.SyntaxNode) -> _Local | None:
        if type(node) is not syntax.Ident:
            return None
        stack = self._locals.get(node.name)
        return stack[-1] if stack else None

    def _path(self, node: syntax.SyntaxNode) -> Path:
        local = self._local(node)
        return local.path if local is not None else self._paths.get(id(node), ())

    def _size(self, node: syntax.SyntaxNode) -> Range | None:
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        known = _literal_size(node)
        if known is not None:
            return known
        known = _size_at(self._path(node))
        if known is not None:
            self._sizes[id(node)] = known
            return known
        known = result_type(node.type)
        if known is not None:
            return known
        local = self._local(node)
        return local.size if local is not None else None

    def _size_or_unknown(self, node: syntax.SyntaxNode) -> Range:
        return self._size(node) or UNKNOWN

    def _inside(self, node: syntax.SyntaxNode) -> _Inside | None:
        known = self._insides.get(id(node))
        if known is not None:
            return known
        local = self._local(node)
        return local.inside if local is not None else None

    def _copy_sizes(self, target: syntax.SyntaxNode, source: syntax.SyntaxNode) -> None:
        size = self._size(source)
        if size is not None:
            self._sizes[id(target)] = size
        inside = self._inside(source)
        if inside is not None:
            self._insides[id(target)] = inside

    def _ident(self, node: syntax.Ident) -> Range:
        local = self._local(node)
        self._paths[id(node)] = local.path if local is not None else (node.name,)
        return _ONE

    def _select(self, node: syntax.Select) -> Range:
        if node.constant is not None:
            return _ONE
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if node.operand.type.kind in ("map", "struct", "param"):
            cost = cost.plus(_ONE)
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _list(self, node: syntax.ListLiteral) -> Range:
        cost = fixed(LIST_COST)
        size = Range(MOST if node.elements else 0, 0)
        for element in node.elements:
            cost = cost.plus(self.cost(element))
            size = size.union(self._size_or_unknown(element))
        self._insides[id(node)] = _Inside(is_list=True, key=_ONE, value=size)
        return cost

    def _map(self, node: syntax.MapLiteral) -> Range:
        cost = fixed(MAP_COST)
        keys = values = Range(MOST if node.entries else 0, 0)
        for key, value in node.entries:
            cost = cost.plus(self.cost(key)).plus(self.cost(value))
            keys = keys.union(self._size_or_unknown(key))
            values = values.union(self._size_or_unknown(value))
        self._insides[id(node)] = _Inside(is_list=False, key=keys, value=values)
        return cost

    def _message(self, node: syntax.Message) -> Range:
        cost = fixed(MESSAGE_COST)
        for value in node.values:
            cost = cost.plus(self.cost(value))
        return cost

    def _call(self, node: syntax.FunctionCall) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0]).plus(_ONE)
            self._copy_sizes(node, node.args[0])
            return cost
        arg_costs = [self.cost(arg) for arg in node.args]
        args = [self._argument(arg) for arg in node.args]
        if node.function == "_?._":
            return arg_costs[0].plus(_ONE)
        target_cost = _ZERO
        target = None
        if node.target is not None:
            target_cost = self.cost(node.target)
            target = self._argument(node.target)
        worst = Range(MOST, 0)
        size: Range | None = None
        for overload in node.overloads:
            cost, result = self._overload_cost(node, overload.id, target, args, arg_costs)
            worst = worst.union(cost)
            if result is not None:
                size = result if size is None else size.union(result)
            if overload.id in ("index_list", "index_map"):
                inside = self._inside(node.args[0])
                size = inside.value if inside is not None else None
                part = "@items" if overload.id == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), part)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return target_cost.plus(worst)

    def _argument(self, node: syntax.SyntaxNode) -> Argument:
        path = self._path(node)
        if path[:1] in ((syntax.ACCUMULATOR,), (syntax.ACCUMULATOR_NAME,)):
            path = ()
        known = self._size(node)
        if known is None and path:
            known = _size_at(path)
        items = _size_at((*path, "@items")) if path else None
        return Argument(node, known, items)

    def _overload_cost(
        self,
        node: syntax.FunctionCall,
        overload: str,
        target: Argument | None,
        args: list[Argument],
        arg_costs: list[Range],
    ) -> tuple[Range, Range | None]:
        """Return cost and size of the result if this overload serves the call."""
        if overload in ("logical_or", "logical_and"):
            return Range(arg_costs[0].least, arg_costs[0].plus(arg_costs[1]).most), None
        if overload == "conditional":
            return self._choice_cost(node, arg_costs)
        if overload in ("add_string", "add_bytes", "add_list"):
            return self._sum_cost(node, overload, arg_costs)
        cost, size = estimator(node.function, overload)(target, args) or (_ONE, None)
        for each in arg_costs:
            cost = cost.plus(each)
        return cost, size

    def _choice_cost(
        self, node: syntax.FunctionCall, arg_costs: list[Range]
    ) -> tuple[Range, Range | None]:
        _test, first, second = node.args
        size = self._size_or_unknown(first).union(self._size_or_unknown(second))
        self._join_insides(node, first, second)
        return arg_costs[0].plus(arg_costs[1].union(arg_costs[2])), size

    def _sum_cost(
        self, node: syntax.FunctionCall, overload: str, arg_costs: list[Range]
    ) -> tuple[Range, Range | None]:
        first, second = node.args
        size = self._size_or_unknown(first).plus(self._size_or_unknown(second))
        self._join_insides(node, first, second)
        cost = _ONE if overload == "add_list" else size.scaled(0.1)
        return cost.plus(arg_costs[0]).plus(arg_costs[1]), size

    def _join_insides(
        self, node: syntax.SyntaxNode, first: syntax.SyntaxNode, second: syntax.SyntaxNode
    ) -> None:
        mine, theirs = self._inside(first), self._inside(second)
        if mine is not None and theirs is not None:
            self._insides[id(node)] = _Inside(
                is_list=mine.is_list,
                key=mine.key.union(theirs.key),
                value=mine.value.union(theirs.value),
            )

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _pop(self, *names: str) -> None:
        for name in names:
            if name:
                self._locals[name].pop()

    def _fold(self, node: syntax.Fold) -> Range:
        cost = self.cost(node.range).plus(self.cost(node.init))
        accu = _Local(self._path(node.init), self._size(node.init), self._inside(node.init))
        self._push(node.accu, accu)
        if node.binds:
            cost = cost.plus(self.cost(node.result))
            self._pop(node.accu)
            self._copy_sizes(node, node.result)
            return cost
        self._push_loop(node)
        each = self.cost(node.condition).plus(self.cost(node.step))
        self._pop(node.var, node.var2)
        cost = cost.plus(self.cost(node.result))
        self._pop(node.accu)
        count = self._size_or_unknown(node.range)
        if type(node.init) is syntax.Literal:
            size = self._size(node.init)
            if size is not None:
                self._sizes[id(node)] = size
        elif type(node.init) in (syntax.ListLiteral, syntax.MapLiteral):
            self._sizes[id(node)] = count
            inside = self._inside(node.step)
            if inside is not None:
                self._insides[id(node)] = inside
        return cost.plus(count.times(each))

    def _push_loop(self, node: syntax.Fold) -> None:
        """Bring the loop's variables into scope."""
        inside = self._inside(node.range)
        path = self._path(node.range)
        is_list = inside.is_list if inside is not None else node.range.type.kind == "list"
        key = inside.key if inside is not None else None
        value = inside.value if inside is not None else None
        if node.var2:
            self._push(node.var, _Local((*path, "@indices" if is_list else "@keys"), key, None))
            part = "@items" if is_list else "@values"
            self._push(node.var2, _Local((*path, part), value, None))
        elif is_list:
            self._push(node.var, _Local((*path, "@items"), value, None))
        else:
            self._push(node.var, _Local((*path, "@keys"), key, None))


def _literal_size(node: syntax.SyntaxNode) -> Range | None:
    if type(node) is syntax.Literal:
        return fixed(len(node.value)) if type(node.value) in (str, bytes) else _ONE
    if type(node) is syntax.ListLiteral:
        return fixed(len(node.elements))
    return fixed(len(node.entries)) if type(node) is syntax.MapLiteral else None
