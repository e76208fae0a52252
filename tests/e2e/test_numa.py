"""Bursts of pods on NUMA nodes whose agents report late: no kubelet refuses a pod."""

import subprocess
import sys
from random import Random

import pytest

from tests.e2e.numaworld import ERROR, NumaCluster, guaranteed

CACHE = {"cacheResyncPeriodSeconds": 5}
POLICY = {
    "attributes": [
        {"name": "topologyManagerPolicy", "value": "single-numa-node"},
        {"name": "topologyManagerScope", "value": "pod"},
    ]
}
SMALL = {
    "zones": [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": name, "capacity": text, "allocatable": text, "available": text}
                for name, text in (("cpu", "2"), ("memory", "8Gi"))
            ],
        }
        for number in (0, 1)
    ]
}


def burst(args, nodes, pods, *, rounds=20, scope="pod"):
    """Create all pods at once and advance the clock; return the world."""
    source = Random(3)
    zones = [source.choice([2, 4, 8]) for _ in range(nodes)]
    settings = f"policy=single-numa-node scope={scope} report-after=30s"
    world = NumaCluster(args, zones, settings=settings)
    world.tick(31)
    for number in range(pods):
        world.create(guaranteed(f"p{number:04}", source.choice([2, 3, 4])))
    for _ in range(rounds):
        world.tick(30)
    return world


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_a_burst_is_placed_without_a_refusal(scope):
    """With the cache no kubelet refuses a pod, and what can be bound is bound in the end."""
    world = burst(CACHE, 8, 30, rounds=12, scope=scope)

    assert {"Running": 30} == world.reasons()


def test_without_the_cache_kubelets_refuse_pods():
    """Figures that are 30 s old mislead a scheduler that does not reserve."""
    world = burst({}, 8, 30, rounds=2)

    assert world.reasons()[ERROR] > 0


def test_more_pods_than_zones_fill_every_zone():
    """With one pod per zone, as many run as there are zones: the exact bound is reached."""
    world = NumaCluster(CACHE, [2, 4, 8, 2])
    world.tick(31)
    for number in range(20):
        world.create(guaranteed(f"p{number:02}", 3))
    for _ in range(12):
        world.tick(30)

    assert {"Running": 16, "Pending": 4} == world.reasons()


def test_the_capacity_of_a_deleted_pod_is_free_at_once():
    """The reservation of a deleted pod is free without a new report."""
    world = NumaCluster(CACHE, [2], settings="policy=single-numa-node scope=pod report-after=600s")
    world.create(guaranteed("first", 3))
    world.create(guaranteed("second", 3))
    world.tick(60)
    assert {"Running": 1, "Pending": 1} == world.reasons()

    world.delete("first")
    world.tick(60)

    assert {"Running": 1} == world.reasons()


def test_a_foreign_pod_makes_a_node_wait_for_one_report():
    """The zone of a foreign pod is unknown until the agent reports.

    Then the node is used again.
    """
    world = NumaCluster(CACHE, [2], settings="policy=single-numa-node scope=pod report-after=30s")
    world.create(guaranteed("stranger", 3, schedulerName="other", nodeName="n000"))
    world.tick(1)
    world.create(guaranteed("ours", 3))
    world.tick(5)

    assert world.bound("ours") is None
    assert "invalid node topology data" in world.decisions[-1].message

    world.tick(40)
    assert {"Running": 2} == world.reasons()


def test_a_node_that_stays_invalid_says_so_once():
    """Without a report for minutes, an event on the node and a gauge state the reason and the
    start.
    """
    world = NumaCluster(CACHE, [2, 2])
    world.tick(31)
    world.report_after("n000", 1e9)
    world.create(guaranteed("stranger", 3, schedulerName="other", nodeName="n000"))
    for number in range(4):
        world.create(guaranteed(f"p{number}", 3))
        world.tick(100)
    (warning,) = world.warnings
    meters = world.engine.observation.meters
    states = {one.labels: one.value for one in meters.numa_nodes.samples()}

    assert ("n000", "InvalidTopologyData") == (warning.name, warning.reason)
    assert "since 2023-11-14T22:13:51Z" in warning.note
    assert "default/stranger" in warning.note
    assert 1 == states["stale",]
    assert 1_700_000_031 == int(meters.numa_stale_since.value)


def test_a_silent_agent_stops_no_more_than_its_node():
    """Pods beyond the certain capacity wait while an agent is silent, and none is refused."""
    world = NumaCluster(CACHE, [2, 2])
    world.tick(31)
    world.report_after("n000", 1e9)
    for number in range(6):
        world.create(guaranteed(f"p{number}", 3))
    world.tick(300)

    assert {"Running": 3, "Pending": 3} == world.reasons()
    world.report_after("n000", 0.0)
    (silent,) = (name for name in map("p{}".format, range(6)) if world.bound(name) == "n000")
    world.delete(silent)
    world.tick(60)
    assert {"Running": 4, "Pending": 1} == world.reasons()


@pytest.mark.parametrize("mode", ["Enabled", "Disabled"])
def test_preemption_frees_a_zone(mode):
    """The victim's share returns to the zone it runs in, so that one victim is enough."""
    world = NumaCluster(CACHE | {"preemptionMode": mode}, [2])
    world.tick(31)
    for name in ("first", "second"):
        world.create(guaranteed(name, 3))
    world.tick(100)
    world.create(guaranteed("urgent", 4, priorityClassName="system-cluster-critical"))
    world.tick(100)

    if mode == "Enabled":
        assert {"Running": 2} == world.reasons()
        assert "n000" == world.bound("urgent")
    else:
        assert {"Running": 2, "Pending": 1} == world.reasons()


def test_reports_count_from_the_moment_they_are_there():
    """A report that is added, changed or deleted at run time is used at once, without a restart."""
    world = NumaCluster({}, [2], settings="zones=2 policy=none report-after=0s")
    world.write("n000", SMALL | POLICY)
    world.create(guaranteed("large", 3))
    world.tick(1)
    assert "cannot align pod" in world.decisions[-1].message

    world.write("n000", SMALL | {"attributes": []})
    world.tick(60)
    assert {"Running": 1} == world.reasons()

    world.write("n000", SMALL | POLICY)
    world.create(guaranteed("next", 3))
    world.tick(60)
    assert {"Running": 1, "Pending": 1} == world.reasons()

    world.remove("n000")
    world.tick(300)
    assert {"Running": 2} == world.reasons()


@pytest.mark.parametrize(
    "zones",
    [
        [],
        [{"name": "node-x", "type": "Node"}],
        [{"name": "node-64", "type": "Node"}, {"name": "node-0", "type": "Package"}],
    ],
)
@pytest.mark.parametrize("args", [CACHE, {}], ids=["cache", "none"])
def test_a_malformed_report_concerns_its_node_alone(zones, args):
    """A node whose report has no zone that counts takes no aligned pods; the others go on."""
    world = NumaCluster(args, [2, 2])
    world.write("n000", POLICY | {"zones": zones})
    for number in range(2):
        world.create(guaranteed(f"p{number}", 3))
        world.tick(60)

    assert {"Running": 2} == world.reasons()
    assert {"n001"} == {world.bound("p0"), world.bound("p1")}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("args", [CACHE, {}], ids=["cache", "none"])
def test_a_burst_at_length(args):
    """1,000 pods on 200 nodes of 2 to 8 zones: with the cache no kubelet rejects one, and all find
    a zone.
    """
    world = burst(args, 200, 1000)
    zones = len(world.zones())
    print(dict(world.reasons()), f"{zones} zones, CPUs in use {world.used('cpu'):.3f}")

    if args:
        assert {"Running": 1000} == world.reasons()
    else:
        assert world.reasons()[ERROR] > 0


@pytest.mark.long
def test_the_scenario_comes_true():
    """`trellis demo --scenario numa` runs through sandbox, daemon and simulated kubelets."""
    command = [sys.executable, "-m", "scheduler.cli.main", "demo", "--once", "--scenario", "numa"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert "3 of 3 expectations came true" in done.stdout
