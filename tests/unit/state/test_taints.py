"""Which toleration matches which taint."""

import pytest

from scheduler.objects.node import Taint
from scheduler.objects.pod import Toleration
from scheduler.state.taints import TaintIndex, is_tolerated, tolerates

TAINT = Taint("key", "5", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("key", "Equal", "5", "NoSchedule"), True),
        (Toleration("key", "", "5", ""), True),
        (Toleration("key", "Equal", "6", ""), False),
        (Toleration("key", "Exists", "", ""), True),
        (Toleration("", "Exists", "", ""), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("", "Equal", "5", ""), False),
        (Toleration("other", "Exists", "", ""), False),
        (Toleration("key", "Gt", "4", ""), False),
    ],
)
def test_tolerates(toleration: Toleration, expected: bool):
    """Effect empty or equal; key empty only with Exists; value only for Equal."""
    assert expected == tolerates(toleration, TAINT)


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [("Gt", "4", True), ("Gt", "5", False), ("Lt", "6", True), ("Lt", "x", False)],
)
def test_comparisons_when_they_are_on(operator: str, value: str, expected: bool):
    """The taint's value is compared with the toleration's, as integers."""
    assert expected == tolerates(Toleration("key", operator, value, ""), TAINT, compares=True)


def test_any_toleration_will_do():
    """Without tolerations nothing is tolerated."""
    assert is_tolerated([Toleration("x"), Toleration("key", "Exists")], TAINT)
    assert not is_tolerated([], TAINT)


def test_columns_per_set():
    """Results per set of taints are spread over the rows, and follow changes."""
    index = TaintIndex()
    index.set(0, (TAINT,))
    index.set(1, ())
    assert [True, False] == index.flags((False, True)).tolist()
    assert [7, 3] == index.numbers((3, 7)).tolist()

    index.set(0, ())
    assert [False, False] == index.flags((False, True)).tolist()
    assert [3, 3] == index.numbers((3, 7)).tolist()
