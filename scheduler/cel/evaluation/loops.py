"""The run-time steps of loops, into which macros are expanded."""

from __future__ import annotations

from typing import Any

from scheduler.cel.evaluation.run import EvaluationState, Step
from scheduler.cel.evaluation.values import (
    EvaluationFault,
    GrowingList,
    GrowingMap,
    elements,
    find,
    type_name,
)
from scheduler.cel.parsing.syntax import Fold, ListLiteral, MapLiteral


def fold_step(node: Fold, over: Step, condition: Step, step: Step, result: Step) -> Step:
    """Return the step of a loop or of a binding."""
    accu = node.accu_slot
    if node.binds:
        return _binding_step(accu, result)
    growing = _growing(node)
    loop = _loop_over_two if node.var2 else _loop_over_one
    slots = (node.var_slot, node.var2_slot, accu)

    def evaluate(run: EvaluationState) -> Any:
        values = over(run)
        if type(values) is EvaluationFault:
            return values
        run.slots[accu] = run if growing is None else growing()
        problem = loop(run, values, slots, condition, step)
        if problem is not None:
            return problem
        found = result(run)
        if type(found) is GrowingList:
            return list(found)
        return dict(found) if type(found) is GrowingMap else found

    return evaluate


def _growing(node: Fold) -> type[GrowingList | GrowingMap] | None:
    """Return the result of a loop that starts empty."""
    if type(node.init) is ListLiteral and not node.init.elements:
        return GrowingList
    return GrowingMap if type(node.init) is MapLiteral and not node.init.entries else None


def _binding_step(slot: int, result: Step) -> Step:
    def evaluate(run: EvaluationState) -> Any:
        run.slots[slot] = run
        return result(run)

    return evaluate


def _loop_over_one(
    run: EvaluationState, values: Any, slots: tuple[int, int, int], condition: Step, step: Step
) -> EvaluationFault | None:
    var, _second, accu = slots
    items = elements(values)
    if items is None:
        return EvaluationFault(f"got '{_go_name(values)}', expected iterable type")
    variables = run.slots
    for item in items:
        variables[var] = item
        if condition(run) is False:
            break
        variables[accu] = step(run)
    return None


def _loop_over_two(
    run: EvaluationState, values: Any, slots: tuple[int, int, int], condition: Step, step: Step
) -> EvaluationFault | None:
    var, second, accu = slots
    variables = run.slots
    items = elements(values)
    if items is None:
        return EvaluationFault(f"unsupported comprehension range type: {_go_name(values)}")
    is_map = isinstance(values, dict)
    for index, item in enumerate(items):
        variables[var], variables[second] = (
            (item, find(values, item)[0]) if is_map else (index, item)
        )
        if condition(run) is False:
            break
        variables[accu] = step(run)
    return None


def _go_name(value: Any) -> str:
    """Return the name of a value's type in Go, which upstream shows here."""
    return f"types.{type_name(value).rpartition('.')[2].capitalize()}"
