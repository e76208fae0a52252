"""A selector is a tenant's text: compiling and evaluating it always ends soon."""

from contextlib import suppress
from time import process_time

import pytest

from scheduler.cel import CelCompileError, CelRuntimeError, DeviceInput, Quantity, compile_selector

LIMIT_S = 6.0  # CPU time, on a busy machine; bounded texts take well under a second

DEVICE = DeviceInput(
    "gpu.example.com",
    {"model": "a100", "index": 3, "ecc": True},
    {"memory": Quantity.parse("40Gi")},
)


def nested(opening: str, inner: str, closing: str, times: int) -> str:
    return opening * times + inner + closing * times


def bound(times: int, value: str, last: str) -> str:
    """Return bindings x0, x1, .. each made from the previous one."""
    heads = "".join(
        f"cel.bind(x{n}, {value.format(x=f'x{n - 1}') if n else '[1]'}, " for n in range(times)
    )
    return heads + last.format(x=f"x{times - 1}") + ")" * times


HOSTILE = {
    "parentheses": nested("(", "true", ")", 5000),
    "lists": nested("[", "1", "]", 5000) + " == []",
    "signs": "!" * 10_000 + "true",
    "minuses": "-" * 10_000 + "1 == 1",
    "choices": "true ? false : " * 600 + "true",
    "sums": "1+" * 5000 + "1 == 1",
    "fields": "device" + ".a" * 5000,
    "calls": "device.driver" + ".trim()" * 1000 + " == 'x'",
    "and": "true && " * 1200 + "true",
    "open": "(" * 10_000,
    "quotes": '"' * 10_001,
    "macros": "[1]" + ".map(x, x)" * 900 + " == []",
    "loops": nested("[1].exists(x, ", "true", ")", 600),
    "optMap doubles its target": "optional.of(1)" + ".optMap(x, x)" * 700 + ".hasValue()",
    "types double": bound(60, "{{{x}: {x}}}", "{x} == {x}"),
    "lists double": bound(60, "[{x}, {x}]", "{x} == {x}"),
    "lists double apart": bound(26, "[{x} + [], {x} + []]", "dyn({x}) == dyn({x} + [])"),
    "strings double": "cel.bind(a, dyn('xxxxxxxxxxxxxxxx'), "
    + "cel.bind(a, a + a, " * 60
    + "a == a"
    + ")" * 61,
    "ranges": "lists.range(9223372036854775807).size() == 1",
    "ranges of ranges": "lists.range(900).all(a, lists.range(900).all(b, a + b >= 0))",
    "replaced": "('x' + device.driver).replace('', 'yyyyyyyyyyyy')"
    + ".replace('', 'zzzzzzzzzz')" * 12
    + " == ''",
    "joined": "lists.range(900).map(x, 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').join(device.driver) == ''",
    "sorted": "lists.range(900000).map(x, -x).sort()[0] == 1",
    "distinct": "lists.range(90000).distinct().size() == 1",
    "sets": "sets.contains(lists.range(90000), lists.range(90000))",
    "expression repeats": "device.driver.matches('" + "x{1000}" * 1300 + "')",
    "expression backtracks": "'" + "a" * 3000 + "'.matches('(a+)+b')",
    "expression alternates": "'" + "a" * 3000 + "'.find('(a|a)*(a|a)*(a|aa)*c') == ''",
    "expressions found": "'" + "a" * 4000 + "'.findAll('a*?b|a').size() == 1",
    "expression finds "
    "nothing": "lists.range(900).map(x, 'aaaaaaaaaaaaaaaaaaaa').join().findAll('a*?b|a')"
    ".size() == 1",
    "expression is large": "lists.range(900).map(x, 'abababababababababab').join().matches('"
    + "[ab]{0,1000}c" * 40
    + "')",
    "expression nests": "device.driver.matches('" + nested("(", "x", ")", 4000) + "')",
    "numbers": "9" * 10_000 + " == 1",
    "exponents": "1e" + "9" * 9000 + " == 1.0",
    "quantities": "quantity('1e999999999').compareTo(quantity('1')) == 0",
    "long quantities": "quantity('" + "9" * 10_000 + "').isInteger()",
    "long versions": "isSemver('" + "1." * 5000 + "')",
    "digits": "int('" + "9" * 10_000 + "') == 1",
    "formats": "'" + "%.999999f" * 1000 + "'.format([1.0]) == ''",
    "names": "format.qualifiedName().validate('" + "a-" * 4500 + "_').hasValue()",
    "addresses": "isCIDR('" + ":" * 9000 + "/1')",
    "too long": " " * 10_241,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_ends_soon(text):
    """Hostile text yields a verdict or one of the two errors, within time bounds."""
    started = process_time()
    with suppress(CelCompileError, CelRuntimeError):
        compile_selector(text).evaluate(DEVICE)

    assert process_time() - started < LIMIT_S


def test_chains_of_the_usual_length_compile():
    """The bounds are far from usual texts."""
    assert compile_selector("true && " * 200 + "true").evaluate(DEVICE)
    assert compile_selector("1+" * 150 + "1 > 0").evaluate(DEVICE)
    assert compile_selector(nested("(", "true", ")", 100)).evaluate(DEVICE)
    assert compile_selector(nested("[1].exists(x, ", "true", ")", 40)).evaluate(DEVICE)


def test_an_evaluation_stops_at_the_limit_of_cost():
    """The limit is the API server's; the used cost is reported."""
    program = compile_selector("lists.range(500).all(a, lists.range(500).all(b, a + b >= 0))")

    assert program.max_cost > 1_000_000
    with pytest.raises(CelRuntimeError) as stopped:
        program.evaluate(DEVICE)
    assert stopped.value.message == "operation cancelled: actual cost limit exceeded"
    assert 1_000_000 < stopped.value.cost < 1_001_000
