"""From a typed tree to closures: each node becomes a function of the run that returns its value.

The cost of a tree is charged while it runs, node by node as in cel-go's interpreter: 1 for names
and links of chains, for calls by their arguments, a base cost for new lists and maps, 0 for
constants. Lists, maps and conversions of constants are computed here, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.cel.errors import CelCompileError
from scheduler.cel.evaluation.attributes import AttributeLink, Chain, ConditionalAttribute
from scheduler.cel.evaluation.calls import call_step, membership_step
from scheduler.cel.evaluation.costs import LIST_COST, MAP_COST
from scheduler.cel.evaluation.loops import fold_step
from scheduler.cel.evaluation.regex import Regex, RegexError
from scheduler.cel.evaluation.run import EvaluationState, Step
from scheduler.cel.evaluation.values import (
    NO_OVERLOAD,
    NONE,
    EvaluationFault,
    Optional,
    equal,
    key_of,
    shown_value,
)
from scheduler.cel.functions import FUNCTIONS
from scheduler.cel.parsing import syntax

_CONVERSIONS = frozenset(
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"]
)


class Planned(msgspec.Struct, eq=False):
    """A node that is compiled: a constant, a chain that may still grow, or a step."""

    _step: Step | None = None
    chain: Chain | None = None
    constant: bool = False
    value: Any = None
    tests: bool = False

    @property
    def step(self) -> Step:
        """Return the step that evaluates the node; the chain is complete then."""
        if self._step is None:
            self._step = self._made()
        return self._step

    def _made(self) -> Step:
        if self.chain is None:
            value = self.value
            return lambda _run: value
        resolve = self.chain.resolver()
        if type(self.chain) is ConditionalAttribute:
            return resolve
        return _has_step(resolve) if self.tests else _chain_step(resolve)


def _chain_step(resolve: Step) -> Step:
    def evaluate(run: EvaluationState) -> Any:
        value = resolve(run)
        run.pay(1)
        return value

    return evaluate


def _has_step(resolve: Step) -> Step:
    def evaluate(run: EvaluationState) -> Any:
        value = resolve(run)
        return value.present if type(value) is Optional else value

    return evaluate


def plan(tree: syntax.SyntaxNode) -> Step:
    """Return the step that evaluates a typed tree; CelCompileError if a constant part of it
    fails.
    """
    return _Planner().plan(tree).step


class _Planner:
    def __init__(self) -> None:
        self._rules: dict[type[syntax.SyntaxNode], Callable[[Any], Planned]] = {
            syntax.Literal: lambda node: Planned(constant=True, value=node.value),
            syntax.Ident: self._ident,
            syntax.Select: self._select,
            syntax.FunctionCall: self._call,
            syntax.ListLiteral: self._list,
            syntax.MapLiteral: self._map,
            syntax.Message: self._message,
            syntax.Fold: self._fold,
        }
        self._inits: dict[int, Step] = {}

    def plan(self, node: syntax.SyntaxNode) -> Planned:
        """Compile a node and all below it."""
        return self._rules[type(node)](node)

    def _ident(self, node: syntax.Ident) -> Planned:
        if node.name in ("duration", "timestamp") and node.constant is not None:
            # Upstream's checker knows these two names, its planner does not.
            raise CelCompileError(
                f"program instantiation failed: reference to undefined type: {node.name}"
            )
        if node.constant is not None:
            return Planned(constant=True, value=node.constant)
        return Planned(chain=Chain(self._variable(node.slot)))

    def _variable(self, slot: int) -> Step:
        init = self._inits.get(slot)
        if init is None:
            return lambda run: run.slots[slot]
        first: Step = init

        def accumulator(run: EvaluationState) -> Any:
            value = run.slots[slot]
            if value is run:  # not evaluated yet
                value = run.slots[slot] = first(run)
            return value

        return accumulator

    def _chained(self, operand: Planned) -> tuple[Planned, Chain]:
        """Return the operand as a chain that links can be added to."""
        if operand.chain is not None and not operand.tests:
            return operand, operand.chain
        chain = Chain(operand.step)
        return Planned(chain=chain), chain

    def _select(self, node: syntax.Select) -> Planned:
        if node.constant is not None:
            return Planned(constant=True, value=node.constant)
        planned, chain = self._chained(self.plan(node.operand))
        chain.add(AttributeLink(node.field, test=node.test))
        planned.tests = node.test
        return planned

    def _message(self, node: syntax.Message) -> Planned:
        raise CelCompileError(f"program instantiation failed: unknown type: {node.name}")

    def _list(self, node: syntax.ListLiteral) -> Planned:
        parts = [self.plan(element) for element in node.elements]
        optional = node.optional
        steps = [part.step for part in parts]

        def make(run: EvaluationState) -> Any:
            values: list[Any] = []
            for index, step in enumerate(steps):
                value = step(run)
                if type(value) is EvaluationFault:
                    run.pay(LIST_COST)
                    return value
                if index in optional:
                    if type(value) is not Optional:
                        return EvaluationFault(
                            "cannot initialize optional list element from non-optional value "
                            f"{shown_value(value)}"
                        )
                    if not value.present:
                        continue
                    value = value.value
                values.append(value)
            run.pay(LIST_COST)
            return values

        return self._made_once(parts, make)

    def _map(self, node: syntax.MapLiteral) -> Planned:
        keys = [self.plan(key) for key, _value in node.entries]
        items = [self.plan(value) for _key, value in node.entries]
        optional = node.optional
        pairs = [(key.step, item.step) for key, item in zip(keys, items, strict=True)]

        def make(run: EvaluationState) -> Any:
            made: dict[Any, Any] = {}
            for index, (key_step, item_step) in enumerate(pairs):
                problem = _add_entry(run, made, key_step, item_step, optional=index in optional)
                if problem is not None:
                    run.pay(MAP_COST)
                    return problem
            run.pay(MAP_COST)
            return made

        return self._made_once([*keys, *items], make)

    def _made_once(self, parts: list[Planned], make: Step) -> Planned:
        if not all(part.constant for part in parts):
            return Planned(make)
        return Planned(constant=True, value=make(EvaluationState(1)))

    def _fold(self, node: syntax.Fold) -> Planned:
        # The accumulator's initial value is evaluated when it is first read.
        init = self.plan(node.init).step
        over = self.plan(node.range).step
        self._inits[node.accu_slot] = init
        condition = self.plan(node.condition).step
        step = self.plan(node.step).step
        return Planned(fold_step(node, over, condition, step, self.plan(node.result).step))

    def _call(self, node: syntax.FunctionCall) -> Planned:
        parts = [self.plan(arg) for arg in node.args]
        if node.target is not None:
            parts.insert(0, self.plan(node.target))
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(self, parts)
        if node.function in ("_[_]", "_[?_]", "_?._"):
            return self._index(parts, optional=node.function != "_[_]")
        return self._function(node, parts)

    def _index(self, parts: list[Planned], *, optional: bool) -> Planned:
        planned, chain = self._chained(parts[0])
        index = parts[1]
        if index.constant:
            chain.add(AttributeLink(index.value, optional=optional))
        else:
            # A chain as index costs its links, not itself: its last link is this one.
            find_key = index.chain.resolver() if index.chain is not None else index.step
            chain.add(AttributeLink(None, find_key, optional=optional))
        return planned

    def _choice(self, parts: list[Planned]) -> Planned:
        test, *branches = parts
        first, second = (
            part.chain if part.chain is not None and not part.tests else Chain(part.step)
            for part in branches
        )
        return Planned(chain=ConditionalAttribute(test.step, first, second))

    def _or(self, parts: list[Planned]) -> Planned:
        return Planned(_logical_step([part.step for part in parts], decides=True))

    def _and(self, parts: list[Planned]) -> Planned:
        return Planned(_logical_step([part.step for part in parts], decides=False))

    def _or_optional(self, parts: list[Planned]) -> Planned:
        first, second = (part.step for part in parts)

        def evaluate(run: EvaluationState) -> Any:
            value = first(run)
            if type(value) is not Optional or value.present:
                return value
            return second(run)

        return Planned(evaluate)

    def _or_value(self, parts: list[Planned]) -> Planned:
        first, second = (part.step for part in parts)

        def evaluate(run: EvaluationState) -> Any:
            value = first(run)
            if type(value) is not Optional:
                return value
            return value.value if value.present else second(run)

        return Planned(evaluate)

    def _function(self, node: syntax.FunctionCall, parts: list[Planned]) -> Planned:
        overload = node.overloads[0].id if len(node.overloads) == 1 else ""
        if overload == "in_list" and parts[1].constant:
            return Planned(membership_step(parts[0].step, parts[1].value))
        function = FUNCTIONS[node.function]
        implementation = equal if node.function == "_==_" else None
        if node.function == "_!=_":
            overload = "not_equals"
            implementation = _unequal
        implementation = implementation or function.implementation(node.overloads)
        if implementation is None:
            raise CelCompileError(
                f"program instantiation failed: no such overload: {node.function}"
            )
        strict = self._prepare_pattern(node.function, parts)
        if strict:
            implementation = _on_text(implementation)
        several = (
            len(parts) > 2
            or strict
            or overload == "string_format"
            or (function.whole is None and not overload)
        )
        step = call_step(
            implementation,
            [part.step for part in parts],
            node.function,
            overload,
            stops_early=several and node.function not in ("_==_", "_!=_"),
        )
        if node.function in _CONVERSIONS and len(parts) == 1 and parts[0].constant:
            value = step(EvaluationState(1))
            if type(value) is EvaluationFault:
                raise CelCompileError(f"program instantiation failed: {value.message}")
            return Planned(constant=True, value=value)
        return Planned(step)

    @staticmethod
    def _prepare_pattern(function: str, parts: list[Planned]) -> bool:
        """Compile a constant pattern; return whether there was one."""
        if function not in ("matches", "find", "findAll") or len(parts) < 2:
            return False
        pattern = parts[1]
        if not pattern.constant or type(pattern.value) is not str:
            return False
        try:
            Regex.compiled(pattern.value)
        except RegexError as error:
            raise CelCompileError(f"program instantiation failed: {error}") from None
        return True


_SPECIAL: dict[str, Callable[[_Planner, list[Planned]], Planned]] = {
    "_?_:_": _Planner._choice,  # noqa: SLF001
    "_||_": _Planner._or,  # noqa: SLF001
    "_&&_": _Planner._and,  # noqa: SLF001
    "or": _Planner._or_optional,  # noqa: SLF001
    "orValue": _Planner._or_value,  # noqa: SLF001
}


def _on_text(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with a constant pattern; it has one result for all values that are no
    text.
    """

    def call(text: Any, *more: Any) -> Any:
        return implementation(text, *more) if type(text) is str else NO_OVERLOAD

    return call


def _unequal(left: Any, right: Any) -> bool:
    return equal(left, right) is not True


def _add_entry(
    run: EvaluationState, made: dict[Any, Any], key_step: Step, item_step: Step, *, optional: bool
) -> EvaluationFault | None:
    key = key_step(run)
    if type(key) is EvaluationFault:
        return key
    item = item_step(run)
    if type(item) is EvaluationFault:
        return item
    stored = key_of(key)
    if type(stored) is EvaluationFault:
        return stored
    if optional:
        if type(item) is not Optional:
            return EvaluationFault(
                f"cannot initialize optional entry '{shown_value(key)}' from non-optional value "
                f"{shown_value(item)}"
            )
        if item is NONE or not item.present:
            made.pop(stored, None)
            return None
        item = item.value
    made[stored] = item
    return None


def _logical_step(steps: list[Step], *, decides: bool) -> Step:
    """Return the step of `&&` or `||`: if one side determines the result, a failure of the other is
    ignored.
    """
    first, second = steps

    def evaluate(run: EvaluationState) -> Any:
        left = first(run)
        if left is decides:
            return decides
        right = second(run)
        if right is decides:
            return decides
        for value in (left, right):
            if type(value) is not bool:
                return value if type(value) is EvaluationFault else NO_OVERLOAD
        return not decides

    return evaluate
