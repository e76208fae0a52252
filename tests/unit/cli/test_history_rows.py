"""Rows of `trellis history`."""

import pytest

from scheduler.cli.verbs.observe.history import _row
from scheduler.explain.attempts import PastAttempt


@pytest.mark.parametrize(
    ("node", "feasible", "shown"), [("n0", 2, "2 of 3"), ("", 0, "0 of 3"), ("n0", 0, "")]
)
def test_feasible_nodes_are_shown_if_they_were_counted(node: str, feasible: int, shown: str):
    """The plan of a group places its members without counting feasible nodes."""
    attempt = PastAttempt(
        "", "", 1, 1, node, "", None, (), feasible_nodes=feasible, all_nodes=3, rejected={}
    )

    assert shown == _row(attempt)[3]
