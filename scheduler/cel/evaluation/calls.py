"""Calls of functions when they run: arguments, cost, result.

A call with a failed argument is not made, but its cost counts if all its arguments were evaluated,
as in cel-go's interpreter.
"""

from __future__ import annotations

from typing import Any

from scheduler.cel.evaluation.costs import CallCost, call_cost
from scheduler.cel.evaluation.run import EvaluationState, Step
from scheduler.cel.evaluation.values import EvaluationFault, UInt, key_of
from scheduler.cel.library import Implementation


def call_step(
    implementation: Implementation,
    args: list[Step],
    function: str,
    overload: str,
    *,
    stops_early: bool,
) -> Step:
    """Return the step of a call; with `stops_early`, arguments after a failed one are not
    evaluated.
    """
    cost = call_cost(function, overload)
    if function == "@not_strictly_false":
        return _lenient_step(implementation, args[0])
    if len(args) == 1:
        return _unary_step(implementation, args[0], cost)
    if len(args) == 2 and not stops_early:
        return _binary_step(implementation, args[0], args[1], cost)
    return _general_step(implementation, args, cost)


def _finish(
    run: EvaluationState, implementation: Implementation, values: tuple[Any, ...], cost: CallCost
) -> Any:
    if cost.after:
        result = implementation(*values)
        run.pay(cost.reckon(values, result))
        return result
    run.pay(cost.reckon(values, None))
    return implementation(*values)


def _lenient_step(implementation: Implementation, arg: Step) -> Step:
    def evaluate(run: EvaluationState) -> Any:
        value = arg(run)
        run.pay(1)
        return implementation(value)

    return evaluate


def _unary_step(implementation: Implementation, arg: Step, cost: CallCost) -> Step:
    def evaluate(run: EvaluationState) -> Any:
        value = arg(run)
        if type(value) is EvaluationFault:
            run.pay(cost.reckon((value,), value))
            return value
        return _finish(run, implementation, (value,), cost)

    return evaluate


def _binary_step(implementation: Implementation, first: Step, second: Step, cost: CallCost) -> Step:
    reckon = cost.reckon

    def evaluate(run: EvaluationState) -> Any:
        values = (first(run), second(run))
        for value in values:
            if type(value) is EvaluationFault:
                run.pay(reckon(values, value))
                return value
        return _finish(run, implementation, values, cost)

    return evaluate


def _general_step(implementation: Implementation, args: list[Step], cost: CallCost) -> Step:
    last = len(args) - 1

    def evaluate(run: EvaluationState) -> Any:
        values: list[Any] = []
        for index, arg in enumerate(args):
            value = arg(run)
            values.append(value)
            if type(value) is EvaluationFault:
                if index == last:
                    run.pay(cost.reckon(tuple(values), value))
                return value
        return _finish(run, implementation, tuple(values), cost)

    return evaluate


def membership_step(arg: Step, values: list[Any]) -> Step:
    """Return the step of `x in [constants]`; a list of plain constants becomes a set, whose look-up
    is free.
    """
    if not values:
        return lambda _run: False
    if not all(type(value) in (str, bool, int, UInt, float) for value in values):
        cost = call_cost("@in", "in_list")
        from scheduler.cel.functions.arithmetic import contained

        return _binary_step(contained, arg, lambda _run: values, cost)
    known = frozenset(map(key_of, values))

    def evaluate(run: EvaluationState) -> Any:
        value = arg(run)
        if type(value) is EvaluationFault:
            return value
        return type(value) in (str, bool, int, UInt, float) and key_of(value) in known

    return evaluate
