"""The page's view of a snapshot, and the objects that are tried on it."""

import json

import pytest
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from scheduler.snapshot.views import DrawnView, merged, sections
from scheduler.testing import node
from tests.unit.plugins.loadaware.situation import report as load_report
from tests.unit.plugins.test_numa import report as numa_report
from tests.unit.plugins.test_numa import zone
from tests.unit.simulate.asking import pod

ZONE = "topology.kubernetes.io/zone"


def snapshot(*objects):
    """Return a snapshot of plain objects."""
    return read_snapshot(items_of(SourceFile("test", json.dumps(list(objects)).encode())))


def two_zones():
    """Return two nodes in a zone, one without; a pod on a node and one that waits."""
    return snapshot(
        node("n1", cpu="4", memory="8Gi", labels={ZONE: "a"}),
        node("n2", cpu="4", memory="8Gi", labels={ZONE: "a"}),
        node("n3", cpu="4", memory="8Gi"),
        pod("one", node_name="n1", requests={"cpu": "1"}),
        pod("two", requests={"cpu": "9"}),
    )


def test_units_are_a_tree_whose_sums_are_right():
    """Every unit but the root has a parent; the units of a level add up to their parents."""
    units = sections(two_zones(), 7.0)["units"]

    assert {"/", "a", "a/n1", "a/n2", "~", "~/n3"} == set(units)
    assert [key for key, unit in units.items() if unit["parent"] is None] == ["/"]
    for key, unit in units.items():
        below = [one for one in units.values() if one["parent"] == key]
        if below:
            assert unit["pods"] == sum(one["pods"] for one in below)
            assert unit["room"]["cpu"] == [
                sum(one["room"]["cpu"][side] for one in below) for side in (0, 1)
            ]
    assert [1000, 4000] == units["a/n1"]["room"]["cpu"]


def test_pods_are_on_a_node_or_wait_for_something():
    """A waiting pod shows its requests."""
    pods = sections(two_zones(), 7.0)["pods"]

    assert {"node": "n1"} == pods["default/one"]
    assert 9000 == pods["default/two"]["asks"]["cpu"]
    assert "node" not in pods["default/two"]


def member(name, *, number, **fields):
    """Return a pod of a group with its time of creation, and of its binding if it has a node."""
    raw = pod(name, labels={"sakkara.group.name": "pair"}, **fields)
    raw["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:0{number}Z"
    bound = {"type": "PodScheduled", "status": "True"}
    bound["lastTransitionTime"] = f"2026-01-01T01:00:0{number}Z"
    raw["status"] = {"conditions": [bound] if "node_name" in fields else []}
    return raw


def test_a_member_states_since_when_it_is_bound_or_waits():
    """A bound member states the time of its binding, a waiting one that of its creation.

    Pods without a group and pods that were created on a node state no time.
    """
    alone = member("alone", number=3, node_name="n1")
    alone["metadata"]["labels"] = {}
    fixed = member("fixed", number=4, node_name="n1")
    fixed["status"] = {}
    pods = sections(
        snapshot(
            node("n1"),
            member("one", number=1, node_name="n1"),
            member("two", number=2),
            alone,
            fixed,
        ),
        7.0,
    )["pods"]

    assert 1767225600.0 + 3601 == pods["default/one"]["since"]
    assert 1767225600.0 + 2 == pods["default/two"]["since"]
    assert "since" not in pods["default/alone"]
    assert "since" not in pods["default/fixed"]


def test_what_is_tried_takes_the_place_of_its_name():
    """A pod and a node are replaced, others added; a pod on an unknown node is refused."""
    tried = merged(
        two_zones(),
        snapshot(
            node("n1", cpu="64", memory="8Gi"),
            node("n4", cpu="1", memory="1Gi"),
            pod("one", requests={"cpu": "2"}),
            pod("three", node_name="n4"),
        ),
    )

    assert ["n1", "n2", "n3", "n4"] == [one.metadata.name for one in tried.nodes]
    assert "64" == tried.nodes[0].status.allocatable["cpu"]
    assert ["default/three"] == [one.key for one in tried.bound]
    assert ["default/two", "default/one"] == [one.key for one in tried.unbound]
    with pytest.raises(InputError, match="default/lost: sits on a node that is not there"):
        merged(two_zones(), snapshot(pod("lost", node_name="nowhere")))


def test_an_application_counts_its_own_namespace():
    """Another namespace may have an application of the same name."""
    group = {"apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1", "kind": "AppGroup"}
    spec = {"workloads": [{"workload": {"kind": "Deployment", "name": "web", "selector": "web"}}]}
    labels = {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": "web"}
    seen = snapshot(
        node("n1", cpu="4", memory="8Gi", labels={ZONE: "a"}),
        *(group | {"metadata": {"name": "shop", "namespace": one}, "spec": spec} for one in "xy"),
        pod("one", namespace="x", node_name="n1", labels=labels),
        pod("two", namespace="x", labels=labels),
    )

    applications = sections(seen, 7.0)["applications"]

    assert {"web": {"a": 1, "": 1}} == applications["x/shop"]["workloads"]
    assert {"web": {}} == applications["y/shop"]["workloads"]


def test_load_and_zones_of_nodes():
    """The view has the load and the zones of each node that reports them.

    A report that did not change is not rendered again.
    """
    taken = zone(0, cpu="4", memory="1Gi")
    taken["resources"][0]["available"] = "1500m"
    broken = load_report("n3", cpu="1", memory="1Gi")
    broken["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = "much"
    seen = snapshot(
        *(node(name) for name in ("n1", "n2", "n3")),
        load_report("n1", cpu="1500m", memory="2Gi"),
        broken,
        numa_report("n1", taken, zone(1, cpu="4")),
    )
    view = DrawnView()
    found = view.sections(seen, 0.0)["measures"]

    assert {"n1", "n3"} == set(found)
    assert {"cpu": 1500, "memory": 2 << 30} == found["n1"]["load"]
    assert {"memory": 1 << 30} == found["n3"]["load"]
    assert [
        ["node-0", {"cpu": [2500, 4000], "memory": [0, 1 << 30]}],
        ["node-1", {"cpu": [0, 4000]}],
    ] == found["n1"]["zones"]
    again = view.sections(seen, 1.0)["measures"]
    assert again["n3"]["load"] is found["n3"]["load"]


def test_a_view_reuses_units_without_changes_and_equals_a_new_view():
    """After a pod is bound, its node and the units above it are drawn again, the others are not."""
    zones = {"n1": "a", "n2": "b", "n3": ""}
    nodes = [
        node(name, cpu="4", memory="8Gi", labels={ZONE: zone_} if zone_ else {})
        for name, zone_ in zones.items()
    ]
    seen = snapshot(*nodes, pod("one", node_name="n1"), pod("two"))
    bound = snapshot(pod("two", node_name="n2", requests={"cpu": "1"})).bound
    view = DrawnView()
    before = view.sections(seen, 0.0)["units"]

    placed = replace(seen, bound=(*seen.bound, *bound), unbound=())
    for changed, wanted in (
        (placed, {"/", "b", "b/n2"}),
        (replace(placed, nodes=placed.nodes[:2]), {"/"}),
        (seen, {"/", "b", "b/n2", "~", "~/n3"}),
    ):
        after = view.sections(changed, 0.0)
        assert sections(changed, 0.0) == after
        redrawn = {key for key, one in after["units"].items() if before.get(key) is not one}
        assert wanted == redrawn
        before = after["units"]


def test_taints_of_an_administrator_leave_a_node_schedulable():
    """Cordoned nodes and nodes that are not ready are unschedulable, dedicated nodes are not."""
    taints = {
        "gpu": {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        "lost": {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        "preferred": {"key": "node.kubernetes.io/disk-pressure", "effect": "PreferNoSchedule"},
    }
    nodes = [
        node(name, cpu="4", memory="8Gi") | {"spec": {"taints": [taint]}}
        for name, taint in taints.items()
    ]
    nodes.append(node("cordoned", cpu="4", memory="8Gi") | {"spec": {"unschedulable": True}})

    units = sections(snapshot(*nodes), 0.0)["units"]

    wanted = {"gpu": 0, "lost": 1, "preferred": 0, "cordoned": 1}
    assert wanted == {name: units[name]["closed"] for name in wanted}
    assert 2 == units["/"]["closed"]
