"""Normalisation, range and total, for plain columns and for columns of one value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.running.scores import Total, check_range, is_constant, normalize
from tests.unit.framework.runnerrig import RunnerRig, made


def column(rig: RunnerRig, values: list[int]) -> np.ndarray:
    """Return a column; one of equal values is the framework's constant."""
    if len(set(values)) == 1:
        return rig.nodes.constant(values[0])
    return np.array(values, dtype=np.int64)


@given(
    st.lists(st.integers(0, 10_000), min_size=3, max_size=3),
    st.sets(st.sampled_from(["n0", "n1", "n2"]), min_size=1),
    st.sampled_from(["none", "max", "reverse"]),
)
def test_normalisation_follows_its_definition(values: list[int], names: set[str], rule: str):
    """Only feasible rows count for the highest score; division rounds down."""
    rig = RunnerRig(made("A", score=lambda *_: None, normalize=rule))
    nodes = rig.nodes.among(rig.nodes.rows_named(names))
    bound = rig.profile.score[0]
    raw = column(rig, values)
    got = normalize(bound, rig.cycle, nodes, raw)

    highest = max(values[int(name[1])] for name in names)
    for name in names:
        value = values[int(name[1])]
        if rule == "none":
            expected = value
        elif rule == "max":
            expected = value * 100 // highest if highest else 0
        else:
            expected = 100 - value * 100 // highest if highest else 100
        assert expected == got[int(name[1])]


@given(
    st.lists(st.integers(-5, 105), min_size=3, max_size=3),
    st.sets(st.sampled_from(["n0", "n1", "n2"])),
)
def test_only_feasible_rows_must_be_in_range(values: list[int], names: set[str]):
    """A number outside 0..100 fails the pod if it belongs to a feasible row."""
    rig = RunnerRig()
    nodes = rig.nodes.among(rig.nodes.rows_named(names))
    wrong = any(not 0 <= values[int(name[1])] <= 100 for name in names)
    if wrong:
        with pytest.raises(ValueError, match="invalid score"):
            check_range("A", column(rig, values), nodes)
    else:
        check_range("A", column(rig, values), nodes)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 100), min_size=3, max_size=3), st.integers(1, 10)),
        max_size=5,
    )
)
def test_the_total_is_the_weighted_sum(scores: list[tuple[list[int], int]]):
    """Constants and columns add up the same, and no plugin's column is written to."""
    rig = RunnerRig()
    columns = [(column(rig, values), weight) for values, weight in scores]
    before = [values.copy() for values, _ in columns]
    total = Total(3)
    for values, weight in columns:
        total.add(values, weight)

    expected = [sum(values[row] * weight for values, weight in scores) for row in range(3)]
    assert expected == total.column().tolist()
    for (values, _), old in zip(columns, before, strict=True):
        assert old.tolist() == values.tolist()


def test_a_constant_is_known_as_one():
    """A computed column of equal values is no constant; an empty one neither."""
    rig = RunnerRig()

    assert is_constant(rig.nodes.constant(5))
    assert not is_constant(np.full(3, 5))
    assert not is_constant(np.zeros(0, dtype=np.int64))
