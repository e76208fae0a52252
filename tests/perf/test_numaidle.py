"""The cost of the NUMA plugin if no pod needs it: it changes no decision, and its time is
measured.
"""

import pytest

from tests.perf import numaidle
from tests.perf.test_loadaware import keep


@pytest.mark.parametrize("name", ["noReports", "bestEffortReserving", "burstable"])
def test_no_decision_changes(name):
    """A small case runs, and every pod is placed as without the plugin."""
    found = numaidle.compare(numaidle.CASES[name], nodes=12, size=8, pairs=1)

    assert 0 < found["withoutLeastUs"] <= found["withoutUs"]


@pytest.mark.perf
def test_speed():
    """Every figure can be measured; the file states which goals are reached."""
    keep("numaidle", numaidle.measure())
