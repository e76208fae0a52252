"""A compiled selector: what compile_selector returns and callers keep."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.cel.device import Device


class Verdict(NamedTuple):
    """Whether a device matches, and what finding out cost, in CEL's cost units."""

    matches: bool
    cost: int


class Program:
    """A selector, ready to be asked about devices; it holds no state and may be shared.

    `max_cost` is the estimated worst cost; above COST_LIMIT the API server refuses the selector, while a
    stored one is still evaluated until it has used COST_LIMIT.
    """

    __slots__ = ("max_cost", "output_type", "text")

    def __init__(self, text: str, output_type: str, max_cost: int) -> None:
        self.text = text
        self.output_type = output_type
        self.max_cost = max_cost

    def evaluate(self, device: Device) -> bool:
        """Return whether the device matches; CelRuntimeError if the selector has no answer for it."""
        return self.verdict(device).matches

    def verdict(self, device: Device) -> Verdict:
        """Return whether the device matches, with the cost; CelRuntimeError as `evaluate`."""
        raise NotImplementedError
