"""Attributes that are lists: the results of kube-scheduler 1.37 for stored selectors.

Estimated costs, verdicts and errors are those of the compiler's own cases in
k8s.io/dynamic-resource-allocation v0.37.2 (`cel/compile_test.go`).
"""

import pytest

from scheduler.cel import CelCompileError, CelRuntimeError, DeviceInput, Version, compile_selector

DRIVER = "dra.example.com"
NAME = f'device.attributes["{DRIVER}"].name'
MOST = 64  # elements, or characters, of an attribute
VERSIONS = [Version.parse("1.0.0"), Version.parse("2.0.0")]


def device(value):
    """Return a device whose attribute `name` has a value."""
    return DeviceInput(DRIVER, {"name": value}, {})


@pytest.mark.parametrize(
    ("selector", "value", "cost", "matches"),
    [
        ('.includes("fish")', ["fish", "bird"], 4 + MOST, True),
        ('.includes("cat")', ["fish", "bird"], 4 + MOST, False),
        ('.includes("fish")', "fish", 4 + MOST, True),
        (".includes(true)", True, 4 + MOST, True),
        (".includes(1)", [1, 2], 4 + MOST, True),
        (".includes(1.0)", [1, 2], 4 + MOST, True),
        ('.includes(semver("2.0.0"))', VERSIONS, 4 + MOST + 1, True),
        ('.includes(semver("3.0.0"))', VERSIONS, 4 + MOST + 1, False),
        ('.includes("value-64")', [f"value-{n}" for n in range(MOST)], 4 + MOST, False),
        (".size() == 2", [True, False], 6, True),
        (".exists(x, x > 0)", [1, 2], 5 + 6 * MOST, True),
        ('.all(x, x != "")', ["fish", "bird"], 5 + 4 * MOST, True),
        ('.all(x, x.isGreaterThan(semver("0.0.1")))', VERSIONS, 5 + 6 * MOST, True),
    ],
)
def test_a_list_is_evaluated(selector, value, cost, matches):
    """A selector on an attribute that may be a list has the right result and cost estimate."""
    program = compile_selector(NAME + selector, lists=True)

    assert (cost, matches) == (program.max_cost, program.evaluate(device(value)))


@pytest.mark.parametrize(
    ("selector", "value", "text"),
    [
        (".exists(x, x > 0)", 1, "got 'types.Int', expected iterable type"),
        (
            "",
            ["fish", "bird"],
            (
                "CEL result of type list could not be converted to bool: "
                "type conversion error from list to 'bool'"
            ),
        ),
    ],
)
def test_a_value_of_another_type_is_an_error(selector, value, text):
    """A loop over a single value, and a list as the result."""
    program = compile_selector(NAME + selector, lists=True)

    with pytest.raises(CelRuntimeError, match=text):
        program.evaluate(device(value))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("dyn({1: 2})", "map could not be converted to bool: type conversion error from map"),
        ("dyn(b'x')", "bytes could not be converted to bool: type conversion error from Bytes"),
        ("dyn(1.5)", "double could not be converted to bool: type conversion error from Double"),
        (
            "dyn(duration('1s'))",
            (
                "google.protobuf.Duration could not be converted to bool: "
                "type conversion error from 'Duration'"
            ),
        ),
    ],
)
def test_a_result_that_is_no_bool_is_an_error(result, text):
    """A selector may have a result of any type where attributes may be lists."""
    with pytest.raises(CelRuntimeError) as failed:
        compile_selector(result, lists=True).evaluate(device(1))

    assert f"CEL result of type {text} to 'bool'" == failed.value.message


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (f'{NAME}.includes("fish")', "undeclared reference to 'includes'"),
        (f"{NAME}.exists(x, x == 1)", "cannot be range of a comprehension"),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
    ],
)
def test_a_new_selector_may_not_use_lists(selector, text):
    """An API server refuses selectors that kube-scheduler 1.37 evaluates."""
    with pytest.raises(CelCompileError) as refused:
        compile_selector(selector)

    assert text in refused.value.message
    compile_selector(selector, lists=True)
