"""Types of a tree: every name is resolved, every call gets the overloads that may serve it.

The rules are cel-go's (Hindley-Milner with `dyn`); its oddities are kept, since they determine
which expressions an API server accepts. Loop variables get slots, so that evaluation looks nothing
up by name.
"""

from collections.abc import Callable
from typing import Any

from scheduler.cel.checking import types
from scheduler.cel.checking.types import (
    Type,
    Unifier,
    list_of,
    map_of,
    optional_of,
    shown,
    unwrapped,
)
from scheduler.cel.evaluation.values import type_of
from scheduler.cel.functions import FUNCTIONS
from scheduler.cel.library import Function, Overload
from scheduler.cel.parsing import syntax
from scheduler.cel.parsing.problems import SelectorProblems

DEVICE_FIELDS = {
    "driver": types.STRING,
    "attributes": map_of(types.STRING, map_of(types.STRING, types.ANY)),
    "capacity": map_of(types.STRING, map_of(types.STRING, types.QUANTITY)),
    "allowMultipleAllocations": types.BOOL,
}
# The device where attributes may be lists, and the functions that exist only there.
DEVICE_FIELDS_WITH_LISTS = DEVICE_FIELDS | {
    "attributes": map_of(types.STRING, map_of(types.STRING, types.DYN))
}
OF_LISTS = frozenset({"includes"})
DEVICE_SLOT = 0


class Variable:
    """A name in scope: its type, and the slot that its value is in."""

    __slots__ = ("slot", "type")

    def __init__(self, kind: Type, slot: int) -> None:
        self.type = kind
        self.slot = slot


def check(
    tree: syntax.SyntaxNode, problems: SelectorProblems, *, lists: bool = False
) -> tuple[Type, int]:
    """Type a tree in place; return its type and the number of slots. Raises CelCompileError.

    `lists`: attributes of the device may be lists.
    """
    checker = _Checker(problems, lists=lists)
    checker.check(tree)
    problems.raise_any()
    _settle(tree, checker.unifier)
    return tree.type, checker.slots


def _settle(tree: syntax.SyntaxNode, unifier: Unifier) -> None:
    """Replace type parameters by the types inferred for them; the others become dynamic."""
    stack = [tree]
    while stack:
        node = stack.pop()
        node.type = unifier.substitute(node.type, free_is_dynamic=True)
        if type(node) is not syntax.Select or node.constant is None:  # `a.b` may be one name
            stack.extend(node.children())


def qualified_name(node: syntax.SyntaxNode) -> str:
    """Return `a.b.c` where a node is just names; empty otherwise."""
    parts: list[str] = []
    while type(node) is syntax.Select and not node.test:
        parts.append(node.field)
        node = node.operand
    if type(node) is not syntax.Ident:
        return ""
    return ".".join((node.name, *reversed(parts)))


class _Checker:
    def __init__(self, problems: SelectorProblems, *, lists: bool) -> None:
        self._problems = problems
        self._device = DEVICE_FIELDS_WITH_LISTS if lists else DEVICE_FIELDS
        self._absent = frozenset() if lists else OF_LISTS
        self.unifier = Unifier()
        self._scope: dict[str, list[Variable]] = {"device": [Variable(types.DEVICE, DEVICE_SLOT)]}
        self.slots = 1
        self._rules: dict[type[syntax.SyntaxNode], Callable[[Any], Type]] = {
            syntax.Literal: lambda node: type_of(node.value),
            syntax.Ident: self._ident,
            syntax.Select: self._select,
            syntax.FunctionCall: self._call,
            syntax.ListLiteral: self._list,
            syntax.MapLiteral: self._map,
            syntax.Message: self._message,
            syntax.Fold: self._fold,
        }

    def check(self, node: syntax.SyntaxNode) -> None:
        """Type a node and all below it."""
        node.type = self._rules[type(node)](node)

    def _undeclared(self, node: syntax.SyntaxNode, name: str) -> Type:
        message = f"undeclared reference to '{name}' (in container '')"
        self._problems.add(node.at, message)
        return types.ERROR

    def _mismatch(self, node: syntax.SyntaxNode, expected: Type, found: Type) -> None:
        self._problems.add(node.at, f"expected type '{shown(expected)}' but found '{shown(found)}'")

    def _ident(self, node: syntax.Ident) -> Type:
        name = node.name.removeprefix(".")
        known = self._scope.get(name)
        if known:
            node.name = name
            node.slot = known[-1].slot
            return known[-1].type
        named = types.NAMED_TYPES.get(name)
        if named is not None:
            node.constant = named
            return Type("type", "type", named)
        return self._undeclared(node, node.name)

    def _select(self, node: syntax.Select) -> Type:
        name = qualified_name(node)
        named = types.NAMED_TYPES.get(name) if name else None
        if named is not None:
            node.constant = named
            return Type("type", "type", named)
        found = self._field(node, node.operand, node.field, optional=False)
        return types.BOOL if node.test else self.unifier.substitute(found)

    def _field(
        self, node: syntax.SyntaxNode, operand: syntax.SyntaxNode, field: str, *, optional: bool
    ) -> Type:
        self.check(operand)
        target, was_optional = unwrapped(self.unifier.substitute(operand.type))
        result = types.DYN
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            result = self._struct_field(node, target, field)
        elif target.kind == "param":
            self.unifier.assignable(types.DYN, target)
        elif target.kind not in ("dyn", "any", "error"):
            self._problems.add(node.at, f"type '{shown(target)}' does not support field selection")
        return optional_of(result) if was_optional or optional else result

    def _struct_field(self, node: syntax.SyntaxNode, target: Type, field: str) -> Type:
        if target.name == types.DEVICE.name:
            if field in self._device:
                return self._device[field]
            self._problems.add(node.at, f"undefined field '{field}'")
        else:
            self._problems.add(node.at, f"unexpected failed resolution of '{target.name}'")
        return types.ERROR

    def _call(self, node: syntax.FunctionCall) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            field.type = types.STRING
            name = str(getattr(field, "value", ""))
            return self.unifier.substitute(self._field(node, node.args[0], name, optional=True))
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            return self._plain_call(node)
        prefix = qualified_name(node.target).removeprefix(".")
        function = self._function(f"{prefix}.{node.function}") if prefix else None
        if function is not None:
            node.function = function.name
            node.target = None
            return self._resolve(node, function)
        self.check(node.target)
        function = self._function(node.function)
        if function is None:
            return self._undeclared(node, node.function)
        return self._resolve(node, function)

    def _function(self, name: str) -> Function | None:
        return None if name in self._absent else FUNCTIONS.get(name)

    def _plain_call(self, node: syntax.FunctionCall) -> Type:
        function = self._function(node.function.removeprefix("."))
        if function is None:
            return self._undeclared(node, node.function)
        node.function = function.name
        return self._resolve(node, function)

    def _resolve(self, node: syntax.FunctionCall, function: Function) -> Type:
        """Find the overloads that the types of the arguments leave."""
        args = [arg.type for arg in node.args]
        if node.target is not None:
            args.insert(0, node.target.type)
        if function.name in ("_&&_", "_||_"):
            return self._logical(node, function)
        result: Type | None = None
        found: list[Overload] = []
        for overload in function.overloads:
            if overload.member != (node.target is not None):
                continue
            wanted, given = self._instance(overload)
            if not self.unifier.all_assignable(args, wanted):
                continue
            found.append(overload)
            given = self.unifier.substitute(given)
            if result is None:
                result = given
            elif not types.is_dynamic(result) and not given.same(result):
                result = types.DYN
        if result is None:
            return self._no_overload(node, function, args)
        node.overloads = tuple(found)
        return result

    def _no_overload(self, node: syntax.FunctionCall, function: Function, args: list[Type]) -> Type:
        kinds = [shown(self.unifier.substitute(kind, free_is_dynamic=True)) for kind in args]
        target = f"{kinds.pop(0)}." if node.target is not None else ""
        self._problems.add(
            node.at,
            f"found no matching overload for '{function.name}' applied to "
            f"'{target}({', '.join(kinds)})'",
        )
        return types.ERROR

    def _logical(self, node: syntax.FunctionCall, function: Function) -> Type:
        wrong = False
        for arg in node.args:
            if not self.unifier.assignable(arg.type, types.BOOL):
                self._mismatch(arg, types.BOOL, arg.type)
                wrong = True
        node.overloads = tuple(function.overloads)
        return types.ERROR if wrong else types.BOOL

    def _instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Return the signature with parameters of its own."""
        if not overload.generic:
            return overload.args, overload.result
        fresh = {name: self.unifier.fresh() for name in overload.generic}
        return (
            tuple(_renamed(kind, fresh) for kind in overload.args),
            _renamed(overload.result, fresh),
        )

    def _joined(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        # Types that do not agree are reported by the validators, which know the exceptions.
        return self.unifier.join(previous, current) or types.DYN

    def _element(self, node: syntax.SyntaxNode, *, optional: bool) -> Type:
        self.check(node)
        if not optional:
            return node.type
        inner, is_optional = unwrapped(node.type)
        if not is_optional and not types.is_dynamic(inner):
            self._mismatch(node, optional_of(inner), inner)
        return inner

    def _list(self, node: syntax.ListLiteral) -> Type:
        element: Type | None = None
        for index, item in enumerate(node.elements):
            kind = self._element(item, optional=index in node.optional)
            element = self._joined(element, kind)
        return list_of(element or self.unifier.fresh())

    def _map(self, node: syntax.MapLiteral) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for index, (key, value) in enumerate(node.entries):
            self.check(key)
            key_type = self._joined(key_type, key.type)
            kind = self._element(value, optional=index in node.optional)
            value_type = self._joined(value_type, kind)
        return map_of(key_type or self.unifier.fresh(), value_type or self.unifier.fresh())

    def _message(self, node: syntax.Message) -> Type:
        name = node.name.removeprefix(".")
        known = self._scope.get(name)
        if known:
            self._problems.add(node.at, f"'{known[-1].type.name}' is not a type")
        elif name in types.NAMED_TYPES:
            self._problems.add(node.at, f"'{name}' is not a message type")
        else:
            return self._undeclared(node, node.name)
        for value in node.values:
            self.check(value)
        return types.ERROR

    def _fold(self, node: syntax.Fold) -> Type:
        self.check(node.range)
        self.check(node.init)
        over = self.unifier.substitute(node.range.type)
        node.accu_slot = self._enter(node.accu, node.init.type)
        first, second = self._loop_types(node, over)
        node.var_slot = self._enter(node.var, first)
        if node.var2:
            node.var2_slot = self._enter(node.var2, second)
        self.check(node.condition)
        self._assert(node.condition, types.BOOL)
        self.check(node.step)
        self._assert(node.step, node.init.type)
        self._leave(node.var)
        if node.var2:
            self._leave(node.var2)
        self.check(node.result)
        self._leave(node.accu)
        return self.unifier.substitute(node.result.type)

    def _loop_types(self, node: syntax.Fold, over: Type) -> tuple[Type, Type]:
        """Return the types of the loop's variables."""
        if over.kind == "list":
            element = over.params[0]
            return (types.INT, element) if node.var2 else (element, element)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in ("dyn", "error", "param"):
            self.unifier.assignable(types.DYN, over)
            return types.DYN, types.DYN
        self._problems.add(
            node.range.at,
            f"expression of type '{shown(over)}' cannot be range of a comprehension "
            "(must be list, map, or dynamic)",
        )
        return types.ERROR, types.ERROR

    def _assert(self, node: syntax.SyntaxNode, kind: Type) -> None:
        if not self.unifier.assignable(kind, node.type):
            self._mismatch(node, kind, node.type)

    def _enter(self, name: str, kind: Type) -> int:
        slot = self.slots
        self.slots += 1
        self._scope.setdefault(name, []).append(Variable(kind, slot))
        return slot

    def _leave(self, name: str) -> None:
        self._scope[name].pop()


def _renamed(kind: Type, fresh: dict[str, Type]) -> Type:
    if kind.kind == "param":
        return fresh[kind.name]
    if not kind.params:
        return kind
    return Type(kind.kind, kind.name, *(_renamed(param, fresh) for param in kind.params))
