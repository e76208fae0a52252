"""`make bench` for the netperf agent: truth, traffic and cost, as a JSON file."""

import pytest

from tests.perf import netperf
from tests.perf.test_loadaware import keep

pytestmark = [pytest.mark.perf, pytest.mark.timeout(400)]


def test_percentiles_are_those_of_the_links():
    """Within a tenth of the values of the simulated links, at every distance."""
    result = netperf.measure()
    keep("netperf", result)

    for link in result["accuracy"].values():
        for error in link["error"].values():
            assert abs(error) <= result["goals"]["error"]
