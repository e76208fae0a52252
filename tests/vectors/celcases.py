"""Selectors beside kube-apiserver's CEL environment: verdicts, texts of errors, types and costs.

The expressions of `cel.json` were given, those of `cel-recorded.json` were evaluated in the
environment of Kubernetes 1.36.3 (`k8s.io/dynamic-resource-allocation/cel`) with the same devices.
"""

import json
import re
from functools import cache

import pytest

from scheduler.cel import CelCompileError, CelRuntimeError, DeviceInput, Quantity, Version
from scheduler.cel import compile_selector as compiled

# Go iterates over a map in random order, so a loop that may end early has varying costs.
EARLY_END_OVER_MAP = re.compile(r"device\.(attributes|capacity)[^ ]*\.(exists|all)\(")


@cache
def _read(driver: str, text: str) -> DeviceInput:
    device = json.loads(text)
    return DeviceInput(
        driver,
        {name: _attribute(value) for name, value in device.get("attributes", {}).items()},
        {
            name: Quantity.parse(value["value"])
            for name, value in device.get("capacity", {}).items()
        },
        device.get("allowMultipleAllocations"),
    )


def _attribute(value: dict[str, bool | int | str]) -> bool | int | str | Version:
    ((kind, plain),) = value.items()
    return Version.parse(str(plain)) if kind == "version" else plain


def run_selector(vector) -> None:
    """The text is refused, or answered for each device, as the API server's environment does."""
    case = vector.case
    expression = case["expression"]
    if "compileError" in case:
        with pytest.raises(CelCompileError) as refused:
            compiled(expression)
        assert case["compileError"] == refused.value.message
        return
    program = compiled(expression)

    assert case["type"] == program.output_type
    if case.get("maxCost") is not None:
        assert case["maxCost"] == program.max_cost
    for name, expected in case["results"].items():
        device = _read(vector.document["driver"], json.dumps(vector.document["devices"][name]))
        answer: dict[str, bool | str] = {}
        try:
            matches, cost = program.verdict(device)
            answer["matches"] = matches
        except CelRuntimeError as error:
            answer["error"], cost = error.message, error.cost

        assert {key: expected[key] for key in expected if key != "cost"} == answer, name
        if "cost" in expected and not EARLY_END_OVER_MAP.search(expression):
            assert expected["cost"] == cost, name
