"""A compiled selector: what `compile_selector` returns and callers keep."""

from typing import Any, NamedTuple

from scheduler.cel.device import DeviceInput
from scheduler.cel.errors import CelRuntimeError
from scheduler.cel.evaluation.run import CancelledError, EvaluationState, Step
from scheduler.cel.evaluation.values import EvaluationFault, type_name
from scheduler.cel.evaluation.work import WORK_BUDGET, WorkExceededError

_CANCELLED = "operation cancelled: actual cost limit exceeded"


class DeviceVerdict(NamedTuple):
    """Whether a device matches, and the cost of the evaluation in CEL's cost units."""

    matches: bool
    cost: int


class Program:
    """A compiled selector; stateless, so it may be kept and shared.

    `max_cost` is the estimated worst cost; above COST_LIMIT the API server refuses the selector,
    while a stored one is still evaluated until it has used COST_LIMIT. `output_type` is `bool`, or
    the name of the type that is known at run time only.
    """

    __slots__ = ("_slots", "_step", "max_cost", "output_type", "text")

    def __init__(self, text: str, output_type: str, max_cost: int, step: Step, slots: int) -> None:
        self.text = text
        self.output_type = output_type
        self.max_cost = max_cost
        self._step = step
        self._slots = slots

    def evaluate(self, device: DeviceInput) -> bool:
        """Return whether the device matches; CelRuntimeError if the selector has no answer for
        it.
        """
        return self.verdict(device).matches

    def verdict(self, device: DeviceInput) -> DeviceVerdict:
        """Return whether the device matches, with the cost; CelRuntimeError as `evaluate`."""
        run = EvaluationState(self._slots)
        run.slots[0] = device.fields
        WORK_BUDGET.fill()
        try:
            value = self._step(run)
        except (CancelledError, WorkExceededError):
            raise CelRuntimeError(_CANCELLED, cost=run.cost) from None
        except RecursionError:
            raise CelRuntimeError("the expression nests too deeply", cost=run.cost) from None
        if type(value) is bool:
            return DeviceVerdict(value, run.cost)
        if type(value) is EvaluationFault:
            raise CelRuntimeError(value.message, cost=run.cost)
        raise CelRuntimeError(_not_bool(value), cost=run.cost)


def _not_bool(value: Any) -> str:
    """Return upstream's words for a result that is no bool, which differ from type to type."""
    name = type_name(value)
    reason = _CONVERSION_FAILURES.get(name, "type conversion error from '{}' to 'bool'")
    return f"CEL result of type {name} could not be converted to bool: {reason.format(name)}"


_CONVERSION_FAILURES = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "bytes": "type conversion error from Bytes to 'bool'",
    "double": "type conversion error from Double to 'bool'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "kubernetes.Quantity": "type conversion error from 'Quantity' to 'bool'",
}
