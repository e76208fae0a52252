"""CRDs that are deleted and created again."""

import pytest

from tests.simulated.actions import Actions
from tests.simulated.cluster import SimulatedCluster
from tests.simulated.disruptions import Disruptions

pytestmark = pytest.mark.looptime


async def test_a_definition_that_comes_back_is_noticed_in_seconds():
    """PodGroups are missing for minutes.

    A group created with their CRD does not wait for half a minute.
    """
    cluster = SimulatedCluster(1)
    cluster.protect()
    cluster.node("n0", cpu="8")
    took: list[float] = []
    async with cluster.running():
        actions = Actions(cluster, cluster.random)
        for number in range(4):
            await Disruptions.drop_kind(actions)
            cluster.gang(f"g{number}")
            took.append(await cluster.until(lambda: not cluster.unbound()))
            for member in range(8):
                cluster.remove_pod(f"g{number}-{member}")

    assert max(took) < 10, took
    assert [] == cluster.history.broken
