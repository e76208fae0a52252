"""Load-aware placement over time, through the whole engine: bursts, silence, reports that wake
pods.
"""

from typing import Any

import pytest

from scheduler.testing.builders import node
from scheduler.testing.scenario import Scenario
from tests.perf.loadplacement import CORES, GIB, PlacementRun, config
from tests.unit.plugins.loadaware.situation import report, wants

EXPIRED = "nodeMetric expired"


@pytest.fixture
def two() -> dict[str, tuple[float, float]]:
    """Return two nodes, of which one is emptier."""
    return {"empty": (1.0, 4.0), "used": (12.0, 40.0)}


def place(run: PlacementRun, name: str) -> str:
    """Place a small pod, and return its node."""
    run.ask(name, (0.5, 2.0), (0.3, 1.0))
    run.second()
    return run.load.pods[name][0]


def test_a_node_whose_agent_died_takes_no_pod_until_it_comes_back(two):
    """For 180 s its figures count; then it is left alone, however empty it was."""
    run = PlacementRun({}, two, seed=1)
    assert place(run, "first") == "empty"
    run.silent.add("empty")
    last = max(at for at, _ in run.use["empty"])
    while run.scenario.now < last + 178:
        run.second()
    assert place(run, "in-time") == "empty"
    run.second()
    assert run.scenario.now >= last + 180
    assert place(run, "late") == "used"
    for _ in range(100):
        run.second()
    assert place(run, "later") == "used"
    run.silent.clear()
    run.report("empty")
    assert place(run, "again") == "empty"


def test_a_pod_that_waits_for_figures_is_woken_by_them():
    """All agents are silent: the pod's message names them, and the first report wakes the pod."""
    run = PlacementRun({}, {"only": (1.0, 4.0)}, seed=1)
    run.silent.add("only")
    for _ in range(200):
        run.second()
    run.ask("waiting", (0.5, 2.0), (0.3, 1.0))
    run.second()
    assert "waiting" not in run.load.pods
    message = run.scenario.message("waiting")
    assert message.startswith(f"0/1 nodes are available: 1 node(s) {EXPIRED}.")
    run.report("only")
    for _ in range(12):
        run.second()
    assert run.load.pods["waiting"][0] == "only"


def test_a_silent_node_says_so_once_on_itself(two):
    """Each silence causes one event, on the node and not on every pod."""
    run = PlacementRun({}, two, seed=1)
    run.silent.add("empty")

    def warnings() -> list[str]:
        events = run.scenario.events
        return [one.note for one in events if one.reason == "NodeMetricExpired"]

    for _ in range(200):
        run.second()
    place(run, "one")
    place(run, "two")
    assert len(warnings()) == 1
    assert "NodeMetric was updated 3m" in warnings()[0]
    run.report("empty")
    place(run, "three")
    for _ in range(200):
        run.second()
    place(run, "four")
    assert len(warnings()) == 2


def test_a_burst_does_not_fill_the_node_with_the_least_load():
    """Between two reports every placed pod counts with its estimate."""
    nodes = {f"n{index}": (0.2 * index, 1.0) for index in range(8)}
    run = PlacementRun({}, nodes, seed=1)
    for number in range(32):
        run.ask(f"p{number}", (2.0, 8.0), (1.5, 6.0))
    run.second()
    counts = [sum(where == name for where, *_ in run.load.pods.values()) for name in nodes]

    assert sum(counts) == 32
    assert max(counts) <= 5


def test_a_report_without_new_capacity_wakes_no_pod():
    """Thousands of reports a minute must not try every waiting pod again."""
    scenario = Scenario(node("n", cpu="10", memory="64Gi"), config=config(args={}))
    scenario.apply(report("n", cpu="9"))
    scenario.apply(wants("big", "4", "1Gi"))
    scenario.run()
    tries = len(scenario.decisions("big"))
    for used in ("9", "9500m", "8", "9"):
        scenario.apply(report("n", cpu=used))
        scenario.advance(15)
    assert len(scenario.decisions("big")) == tries
    scenario.apply(report("n", cpu="1"))
    scenario.advance(15)
    assert scenario.node_of("big") == "n"


def test_what_is_assumed_is_forgotten_with_the_pod():
    """The estimate of a deleted pod is deleted with it."""
    scenario = Scenario(node("n", cpu="10", memory="64Gi"), config=config(args={}))
    scenario.apply(report("n", cpu="0"))
    scenario.apply(wants("one", "7", "1Gi"))
    scenario.run()
    scenario.apply(wants("two", "7", "1Gi"))
    scenario.run()
    assert (scenario.node_of("one"), scenario.node_of("two")) == ("n", "")
    scenario.delete("Pod", "one")
    scenario.advance(15)
    assert scenario.node_of("two") == "n"


@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_pods_go_where_their_kind_of_resource_is_idle(kind):
    """One node is hot in CPU and idle in memory, the other the reverse."""
    nodes = {"hot-cpu": (0.5 * CORES, 0.1 * GIB), "hot-memory": (0.1 * CORES, 0.5 * GIB)}
    run = PlacementRun({"dominantResourceWeight": 5}, nodes, seed=1)
    request: Any = (4.0, 1.0) if kind == "cpu" else (0.1, 16.0)
    run.ask("p", request, request)
    run.second()

    assert run.load.pods["p"][0] == ("hot-memory" if kind == "cpu" else "hot-cpu")
