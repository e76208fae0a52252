"""What the NUMA plugin costs where nobody needs it: that it changes no decision, and how much
time.
"""

import pytest

from tests.perf import numaidle
from tests.perf.test_loadaware import keep


@pytest.mark.parametrize("name", ["noReports", "bestEffortReserving", "burstable"])
def test_no_decision_changes(name):
    """In small, a case is played, and every pod goes where it goes without the plugin."""
    found = numaidle.compare(numaidle.CASES[name], nodes=12, size=8, pairs=1)

    assert 0 < found["withoutLeastUs"] <= found["withoutUs"]


@pytest.mark.perf
def test_speed():
    """Every figure can be measured; the file tells which goals are reached."""
    keep("numaidle", numaidle.measure())
