"""What it costs to be looked at."""

import pytest

from tests.perf import pageload

pytestmark = pytest.mark.perf


def test_throughput_with_the_page_open_and_a_decision_log():
    """It falls by less than five percent; both are measured in one run, in turns."""
    figures = pageload.main([])

    assert figures["pageEvents"] > 0
    assert figures["plans"] > 0
    assert figures["logBytes"] > 0
    assert figures["ratioClock"] >= 0.95, figures
