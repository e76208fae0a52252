"""Bursts of pods on NUMA nodes whose agents report late: no kubelet refuses a pod."""

import subprocess
import sys
from random import Random

import pytest

from tests.e2e.numacluster import ERROR, NumaCluster, guaranteed

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
    """Create all pods at once and advance the clock; return the cluster."""
    source = Random(3)
    zones = [source.choice([2, 4, 8]) for _ in range(nodes)]
    settings = f"policy=single-numa-node scope={scope} report-after=30s"
    cluster = NumaCluster(args, zones, settings=settings)
    cluster.tick(31)
    for number in range(pods):
        cluster.create(guaranteed(f"p{number:04}", source.choice([2, 3, 4])))
    for _ in range(rounds):
        cluster.tick(30)
    return cluster


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_a_burst_is_placed_without_a_refusal(scope):
    """With the cache no kubelet refuses a pod, and what can be bound is bound in the end."""
    cluster = burst(CACHE, 8, 30, rounds=12, scope=scope)

    assert {"Running": 30} == cluster.reasons()


def test_without_the_cache_kubelets_refuse_pods():
    """Figures that are 30 s old mislead a scheduler that does not reserve."""
    cluster = burst({}, 8, 30, rounds=2)

    assert cluster.reasons()[ERROR] > 0


def test_more_pods_than_zones_fill_every_zone():
    """With one pod per zone, as many run as there are zones: the exact bound is reached."""
    cluster = NumaCluster(CACHE, [2, 4, 8, 2])
    cluster.tick(31)
    for number in range(20):
        cluster.create(guaranteed(f"p{number:02}", 3))
    for _ in range(12):
        cluster.tick(30)

    assert {"Running": 16, "Pending": 4} == cluster.reasons()


def test_the_capacity_of_a_deleted_pod_is_free_at_once():
    """The reservation of a deleted pod is free without a new report."""
    cluster = NumaCluster(
        CACHE, [2], settings="policy=single-numa-node scope=pod report-after=600s"
    )
    cluster.create(guaranteed("first", 3))
    cluster.create(guaranteed("second", 3))
    cluster.tick(60)
    assert {"Running": 1, "Pending": 1} == cluster.reasons()

    cluster.delete("first")
    cluster.tick(60)

    assert {"Running": 1} == cluster.reasons()


def test_a_foreign_pod_makes_a_node_wait_for_one_report():
    """The zone of a foreign pod is unknown until the agent reports.

    Then the node is used again.
    """
    cluster = NumaCluster(CACHE, [2], settings="policy=single-numa-node scope=pod report-after=30s")
    cluster.create(guaranteed("foreign", 3, schedulerName="other", nodeName="n000"))
    cluster.tick(1)
    cluster.create(guaranteed("ours", 3))
    cluster.tick(5)

    assert cluster.bound("ours") is None
    assert "invalid node topology data" in cluster.decisions[-1].message

    cluster.tick(40)
    assert {"Running": 2} == cluster.reasons()


def test_a_node_that_stays_invalid_says_so_once():
    """Without a report for minutes, an event on the node and a gauge state the reason and the
    start.
    """
    cluster = NumaCluster(CACHE, [2, 2])
    cluster.tick(31)
    cluster.report_after("n000", 1e9)
    cluster.create(guaranteed("foreign", 3, schedulerName="other", nodeName="n000"))
    for number in range(4):
        cluster.create(guaranteed(f"p{number}", 3))
        cluster.tick(100)
    (warning,) = cluster.warnings
    meters = cluster.engine.observation.meters
    states = {one.labels: one.value for one in meters.numa_nodes.samples()}

    assert ("n000", "InvalidTopologyData") == (warning.name, warning.reason)
    assert "since 2023-11-14T22:13:51Z" in warning.note
    assert "default/foreign" in warning.note
    assert 1 == states["stale",]
    assert 1_700_000_031 == int(meters.numa_stale_since.value)


def test_a_silent_agent_stops_no_more_than_its_node():
    """Pods beyond the certain capacity wait while an agent is silent, and none is refused."""
    cluster = NumaCluster(CACHE, [2, 2])
    cluster.tick(31)
    cluster.report_after("n000", 1e9)
    for number in range(6):
        cluster.create(guaranteed(f"p{number}", 3))
    cluster.tick(300)

    assert {"Running": 3, "Pending": 3} == cluster.reasons()
    cluster.report_after("n000", 0.0)
    (silent,) = (name for name in map("p{}".format, range(6)) if cluster.bound(name) == "n000")
    cluster.delete(silent)
    cluster.tick(60)
    assert {"Running": 4, "Pending": 1} == cluster.reasons()


@pytest.mark.parametrize("mode", ["Enabled", "Disabled"])
def test_preemption_frees_a_zone(mode):
    """The victim's share returns to the zone it runs in, so that one victim is enough."""
    cluster = NumaCluster(CACHE | {"preemptionMode": mode}, [2])
    cluster.tick(31)
    for name in ("first", "second"):
        cluster.create(guaranteed(name, 3))
    cluster.tick(100)
    cluster.create(guaranteed("urgent", 4, priorityClassName="system-cluster-critical"))
    cluster.tick(100)

    if mode == "Enabled":
        assert {"Running": 2} == cluster.reasons()
        assert "n000" == cluster.bound("urgent")
    else:
        assert {"Running": 2, "Pending": 1} == cluster.reasons()


def test_reports_count_from_the_moment_they_are_there():
    """A report that is added, changed or deleted at run time is used at once, without a restart."""
    cluster = NumaCluster({}, [2], settings="zones=2 policy=none report-after=0s")
    cluster.write("n000", SMALL | POLICY)
    cluster.create(guaranteed("large", 3))
    cluster.tick(1)
    assert "cannot align pod" in cluster.decisions[-1].message

    cluster.write("n000", SMALL | {"attributes": []})
    cluster.tick(60)
    assert {"Running": 1} == cluster.reasons()

    cluster.write("n000", SMALL | POLICY)
    cluster.create(guaranteed("next", 3))
    cluster.tick(60)
    assert {"Running": 1, "Pending": 1} == cluster.reasons()

    cluster.remove("n000")
    cluster.tick(300)
    assert {"Running": 2} == cluster.reasons()


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
    cluster = NumaCluster(args, [2, 2])
    cluster.write("n000", POLICY | {"zones": zones})
    for number in range(2):
        cluster.create(guaranteed(f"p{number}", 3))
        cluster.tick(60)

    assert {"Running": 2} == cluster.reasons()
    assert {"n001"} == {cluster.bound("p0"), cluster.bound("p1")}


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("args", [CACHE, {}], ids=["cache", "none"])
def test_a_burst_at_length(args):
    """1,000 pods on 200 nodes of 2 to 8 zones: with the cache no kubelet rejects one, and all find
    a zone.
    """
    cluster = burst(args, 200, 1000)
    zones = len(cluster.zones())
    print(dict(cluster.reasons()), f"{zones} zones, CPUs in use {cluster.used('cpu'):.3f}")

    if args:
        assert {"Running": 1000} == cluster.reasons()
    else:
        assert cluster.reasons()[ERROR] > 0


@pytest.mark.long
def test_the_scenario_comes_true():
    """`trellis demo --scenario numa` runs through sandbox, daemon and simulated kubelets."""
    command = [sys.executable, "-m", "scheduler.cli.main", "demo", "--once", "--scenario", "numa"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert "3 of 3 expectations came true" in done.stdout
