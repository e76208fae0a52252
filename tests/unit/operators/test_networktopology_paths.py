"""Cheapest paths: networkx and the kernel of the calculator give the same matrix without
failures.
"""

import asyncio
import random
from typing import Any, NamedTuple

import numpy as np
import pytest

from operators.networktopology import paths
from operators.networktopology.measured import MeasuredNode, calculated, samples
from operators.networktopology.paths import MOST_HERE, MOST_PLACES, NO_PATH, Network, closed
from operators.networktopology.readings import Reading
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL
from scheduler.workers.jobs import KINDS


class Outcome(NamedTuple):
    ok: bool
    blob: bytes = b""
    message: str = ""


class Calculator:
    """The calculator of the daemon without its process; it fails on demand."""

    def __init__(self, *, fails: bool = False) -> None:
        self.jobs: list[str] = []
        self._fails = fails

    async def run(self, kind: str, payload: bytes, limit_s: float) -> Outcome:
        self.jobs.append(kind)
        await asyncio.sleep(0)
        if self._fails:
            return Outcome(ok=False, message=f"{kind} was stopped after {limit_s:g} s")
        return Outcome(True, KINDS[kind](payload)[1])


def network(places: int, links: int, seed: int = 1) -> Network:
    rng = random.Random(seed)
    ends = [rng.sample(range(places), 2) for _ in range(links)]
    # Of two links with the same ends networkx keeps the last; measurements have none.
    unique = dict.fromkeys((one, other) for one, other in ends)
    origins, targets = np.array(list(unique)).reshape(-1, 2).T
    return Network(places, origins, targets, np.array([rng.randrange(90) for _ in unique]))


@pytest.mark.parametrize("seed", range(4))
async def test_here_and_there_agree(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Path costs computed in this process and in the helper process are equal."""
    calculator, asked = Calculator(), network(60, 90 + 60 * seed, seed)
    here = await closed(asked, calculator)
    monkeypatch.setattr(paths, "MOST_HERE", 0)
    there = await closed(asked, calculator)

    assert here is not None
    assert there is not None
    assert np.array_equal(here, there)
    assert (here == NO_PATH).any() or seed
    assert ["shortest_paths"] == calculator.jobs


async def test_small_networks_stay_and_too_large_ones_are_left():
    """The limits hold; without a calculator no large network is computed."""
    calculator = Calculator()
    assert (await closed(network(MOST_HERE, 300), calculator)) is not None
    assert [] == calculator.jobs
    assert (await closed(network(MOST_HERE + 1, 300), calculator)) is not None
    assert (await closed(network(MOST_HERE + 1, 300), None)) is None
    assert (await closed(network(MOST_PLACES + 1, 9), calculator)) is None
    assert 1 == len(calculator.jobs)


def latencies(count: int) -> tuple[list[MeasuredNode], Reading]:
    """Return nodes of two regions with two zones each, every node measured to the next two."""
    nodes = [
        MeasuredNode(f"n{n:03}", {REGION_LABEL: f"r{n % 2}", ZONE_LABEL: f"z{n % 4}"})
        for n in range(count)
    ]
    pairs = {
        (nodes[n].name, nodes[(n + step) % count].name): 10 * step
        for n in range(count)
        for step in (2, 5)
    }
    return nodes, Reading(pairs)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_calculator_that_fails_costs_statistics_only(fails: bool):
    """If a calculator fails, only statistics are missing; costs between regions and zones are
    published.
    """
    nodes, reading = latencies(MOST_HERE + 4)
    found = await calculated(await samples(nodes, reading, 0.0), Calculator(fails=fails))
    (regions, zones) = found.table.levels

    reported = regions.origins[0].origin_intra_statistics
    assert [("r1", 50)] == [(w.destination, w.network_cost) for w in regions.origins[0].paths]
    assert [("z2", 20)] == [(w.destination, w.network_cost) for w in zones.origins[0].paths]
    assert (reported is None) == fails
    # Inside a region: two links of 20 are the shortest path.
    assert fails or (reported is not None and reported.min_cost == 20)


async def test_statistics_inside_a_value_go_by_shortest_paths():
    """Three nodes of a zone in a row: the ends are two links apart, a lone zone has no
    statistics.
    """
    nodes = [MeasuredNode(n, {ZONE_LABEL: "z"}) for n in "abc"]
    nodes.append(MeasuredNode("d", {ZONE_LABEL: "y"}))
    reading: Any = Reading({("a", "b"): 3, ("b", "c"): 4, ("a", "c"): 100})
    found = await calculated(await samples(nodes, reading, 0.0))
    (zones,) = found.table.levels
    lone, row = (origin.origin_intra_statistics for origin in zones.origins)

    assert lone is None
    assert row is not None
    assert (3, 4, 7) == (row.min_cost, row.avg_cost, row.max_cost)


async def test_the_five_node_graph_of_the_design():
    """The shortest paths between its workers, of which the example adds two columns."""
    links = [(1, 2, 1), (1, 3, 4), (2, 4, 6), (3, 4, 5), (3, 5, 3), (4, 5, 2)]
    names = [f"worker-{n}" for n in range(1, 6)]
    reading: Any = Reading({(f"worker-{a}", f"worker-{b}"): cost for a, b, cost in links})
    nodes = [MeasuredNode(name, {"topology.kubernetes.io/segment": name}) for name in names]
    found = await calculated(await samples(nodes, reading, 0.0))
    (level,) = found.table.levels
    rows = {
        origin.origin[-1]: [path.network_cost for path in origin.paths] for origin in level.origins
    }

    assert {"1": [1, 4, 7, 7], "2": [1, 5, 6, 8], "3": [4, 5, 5, 3]} == {n: rows[n] for n in "123"}
    assert {"4": [7, 6, 5, 2], "5": [7, 8, 3, 2]} == {n: rows[n] for n in "45"}
