"""Selectors over numbers, texts and booleans, compared with Python's evaluation of the same
tree.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cel import CelRuntimeError, DeviceInput, compile_selector

DEVICE = DeviceInput("d", {"n": 5, "s": "abc", "b": True}, {})
INT64 = range(-(2**63), 2**63)


class FailedError(Exception):
    """An error of a CEL evaluation."""


def literal(text, value):
    return text, lambda: value


def binary(sign, apply):
    def make(left, right):
        return f"({left[0]} {sign} {right[0]})", lambda: apply(left[1], right[1])

    return make


def checked(compute):
    def apply(left, right):
        value = compute(left(), right())
        if value not in INT64:
            raise FailedError
        return value

    return apply


def divided(left, right):
    dividend, divisor = left(), right()
    if divisor == 0:
        raise FailedError
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def logical(decides):
    """`&&` and `||`: a side that decides makes up for the failure of the other."""

    def apply(left, right):
        failed = False
        for side in (left, right):
            try:
                if side() is decides:
                    return decides
            except FailedError:
                failed = True
        if failed:
            raise FailedError
        return not decides

    return apply


def chosen(test, first, second):
    return (
        f"({test[0]} ? {first[0]} : {second[0]})",
        lambda: first[1]() if test[1]() else second[1](),
    )


def pairs(make, part):
    return st.builds(make, part, part)


def missing():
    raise FailedError


numbers = st.recursive(
    st.integers(-(2**62), 2**62).map(lambda n: literal(f"({n})", n))
    | st.integers(-3, 3).map(lambda n: literal(f"({n})", n))
    | st.just(literal('device.attributes["d"].n', 5))
    | st.just(('dyn(device.attributes["d"].gone)', missing)),
    lambda inner: (
        pairs(binary("+", checked(lambda a, b: a + b)), inner)
        | pairs(binary("-", checked(lambda a, b: a - b)), inner)
        | pairs(binary("*", checked(lambda a, b: a * b)), inner)
        | pairs(binary("/", divided), inner)
    ),
    max_leaves=6,
)
texts = st.recursive(
    st.text(
        st.characters(codec="utf-8", exclude_characters='\\"\n\r', min_codepoint=32), max_size=4
    ).map(lambda s: literal(f'"{s}"', s))
    | st.just(literal("device.driver", "d")),
    lambda inner: pairs(binary("+", lambda a, b: a() + b()), inner),
    max_leaves=4,
)
truths = st.recursive(
    st.sampled_from([("true", lambda: True), ("false", lambda: False)])
    | pairs(binary("<", lambda a, b: a() < b()), numbers)
    | pairs(binary("==", lambda a, b: a() == b()), numbers)
    | pairs(binary(">=", lambda a, b: a() >= b()), texts)
    | pairs(binary("!=", lambda a, b: a() != b()), texts),
    lambda inner: (
        pairs(binary("&&", logical(decides=False)), inner)
        | pairs(binary("||", logical(decides=True)), inner)
        | inner.map(lambda part: (f"!{part[0]}", lambda: not part[1]()))
        | st.builds(chosen, inner, inner, inner)
    ),
    max_leaves=8,
)


@given(truths)
def test_a_selector_says_what_its_tree_means(tree):
    """Verdicts and failures agree with the tree."""
    text, meaning = tree
    program = compile_selector(text)
    try:
        expected = meaning()
    except FailedError:
        with pytest.raises(CelRuntimeError):
            program.evaluate(DEVICE)
    else:
        assert expected == program.evaluate(DEVICE)
