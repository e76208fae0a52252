"""The cost of counting capacity in 5,000 nodes."""

from time import process_time

import pytest

from scheduler.cli.inputs.cmdio import be_quick
from scheduler.simulate.capacity import capacity
from scheduler.testing import node
from tests.unit.simulate.asking import default_setup, pod, snapshot

pytestmark = pytest.mark.perf
NODES, ALREADY = 5_000, 20_000


@pytest.mark.parametrize(
    ("cpu", "fits", "most_s"), [("20", 5_000, 2.0), ("12", 10_000, 2.5)], ids=str
)
def test_capacity_of_5000_nodes(cpu: str, fits: int, most_s: float):
    """CPU seconds for one pod on every node, and for the maximum count."""
    names = [f"n{at:05}" for at in range(NODES)]
    nodes = [node(name, cpu="32", memory="128Gi", pods="110") for name in names]
    placed = [
        pod(f"u{at}", node_name=names[at % NODES], requests={"cpu": "500m", "memory": "1Gi"})
        for at in range(ALREADY)
    ]
    cluster = snapshot(*nodes, *placed, given=[pod("shape", requests={"cpu": cpu})])
    setup, took = default_setup(), []
    be_quick()
    for _ in range(3):
        began = process_time()
        found = capacity(cluster, setup, 10_000)
        took.append(process_time() - began)
        assert (fits, fits == 10_000) == (found.fits, found.limited)
    print(f"capacity: {fits} pods on {NODES} nodes in {min(took):.2f} s CPU")
    assert min(took) <= most_s, took
