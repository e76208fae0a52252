"""The cost of an open page."""

import pytest

from tests.perf import pageload

pytestmark = pytest.mark.perf


def test_throughput_with_the_page_open_and_a_decision_log():
    """The throughput falls by less than five percent: by the time of both, and by alternating
    rounds within their accuracy.
    """
    figures = pageload.main([])

    assert figures["pageEvents"] > 0
    assert figures["plans"] > 0
    assert figures["logBytes"] > 0
    assert sum(figures["shares"].values()) < 0.05, figures
    assert figures["ratioClockInterval"][1] >= 0.95, figures
