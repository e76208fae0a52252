"""The network plugins beyond the peer: strictness, both ends of a dependency, bandwidth, risk."""

import pytest

from scheduler.framework.status import Code
from scheduler.objects.plain import read_object
from scheduler.plugins.groupsort import QOSSort
from scheduler.plugins.network import (
    CheckRiskNodeBandwidth,
    LoadVariationRiskBalancing,
    NetworkMinCost,
    NetworkOverhead,
    TopologicalSort,
)
from scheduler.plugins.network.dependencies import needs_of
from scheduler.testing import check_plugin, evaluate, less, node, pod
from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology

BANDWIDTH = "network.aware.com/bandwidth"


def nodes():
    """Return four zones in two regions, two nodes each, one node without a region, one without
    both.
    """
    found = [
        placed_node(f"{zone}{n}", zone[:1], zone) for zone in ("a1", "a2", "b1", "b2") for n in "xy"
    ]
    return [*found, placed_node("regional", "a"), node("nowhere")]


def costs(**more):
    """Return costs for `nodes`."""
    return topology(regions=[("a", "b", 20)], zones=[("a1", "a2", 5), ("b1", "b2", 10)], **more)


SHOP = {"front": {"cart": (5, "100M")}, "cart": {"store": (10, "50M")}, "store": {}}


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        (NetworkOverhead, None),
        (NetworkOverhead, {"dependents": "Count", "indirect": "Count", "strict": True}),
        (NetworkMinCost, None),
        (CheckRiskNodeBandwidth, {"riskThreshold": 0.4}),
        (LoadVariationRiskBalancing, None),
        (TopologicalSort, None),
        (QOSSort, None),
    ],
)
def test_they_keep_the_invariants(plugin, args):
    """The invariants of all plugins hold on an application across zones and regions."""
    link = {BANDWIDTH: "1G"}
    narrow = topology(
        regions=[("a", "b", 20, "120M")], zones=[("a1", "a2", 5, "150M"), ("b1", "b2", 10, "1G")]
    )
    check_plugin(
        plugin,
        args=args,
        nodes=[*nodes(), node("linked", allocatable=link), node("loaded", allocatable=link)],
        objects=[app_group(SHOP, order=["cart", "store"]), narrow],
        existing_pods=[
            member("c1", "cart", "a1x"),
            member("c2", "cart", "b2y"),
            member("s1", "store", "a2x"),
            member("f1", "front", "a2y"),
            member("n1", "cart", "nowhere"),
            pod("load", node_name="loaded", requests={BANDWIDTH: "900M"}),
        ],
        pods=[
            member("front", "front", spec={"priority": 3}),
            member("cart", "cart"),
            member("store", "store", spec={"priority": 5}),
            member("other", "front", group="unknown"),
            pod("lone", spec={"priority": 4}),
            pod("sender", requests={BANDWIDTH: "100M"}),
        ],
    )


def overhead(args=None, workload="front", placed=(), objects=None, **more):
    """Evaluate NetworkOverhead for a pod of the shop."""
    return evaluate(
        "NetworkOverhead",
        args=args,
        nodes=nodes(),
        objects=[app_group(SHOP), costs()] if objects is None else objects,
        existing_pods=placed,
        pod=member("new", workload),
        **more,
    )


def passing(got):
    """Return the nodes that pass."""
    return {name for name, status in got.filter.items() if status.is_success}


def test_strict_wants_every_known_limit_to_hold():
    """With carts in both regions the majority rule passes all labelled nodes, strict none."""
    placed = [member("c1", "cart", "a1x"), member("c2", "cart", "b1x")]

    assert {"a1x", "b1y"} <= passing(overhead(placed=placed))
    assert not {"a1x", "b1y"} & passing(overhead({"strict": True}, placed=placed))


def test_dependents_count_when_asked():
    """A store placed before its dependents is drawn to them, and limits hold from their side."""
    placed = [member("c1", "cart", "b1x")]

    assert overhead(workload="store", placed=placed).pre_score.code is Code.SKIP
    got = overhead({"dependents": "Count"}, "store", placed)
    assert 0 == got.raw["b1x"]
    assert {"b1x", "b1y", "b2x", "b2y", "nowhere"} == passing(got)


def test_a_table_in_status_is_used_when_spec_has_none_of_that_name():
    """Measured costs are in status and are found by the same name (D6)."""
    measured = costs(table="NetperfCosts")
    measured["status"] = {"weights": measured["spec"].pop("weights")}
    placed = [member("c1", "cart", "a1x")]
    got = overhead(
        {"weightsName": "NetperfCosts"}, placed=placed, objects=[app_group(SHOP), measured]
    )

    assert {"a1x": 0, "a1y": 1, "a2x": 5} == {name: got.raw[name] for name in ("a1x", "a1y", "a2x")}


def test_older_spellings_of_a_topology_are_read():
    """`costList`, `originCosts` and `costs` have the meaning of their successors."""
    older = costs()
    for table in older["spec"]["weights"]:
        table["costList"] = table.pop("topologyList")
        for level in table["costList"]:
            level["originCosts"] = level.pop("originList")
            for origin in level["originCosts"]:
                origin["costs"] = origin.pop("costList")
    placed = [member("c1", "cart", "a1x")]

    assert (
        overhead(placed=placed).raw == overhead(placed=placed, objects=[app_group(SHOP), older]).raw
    )


@pytest.mark.parametrize("objects", [[], [app_group(SHOP)], [costs()]])
def test_missing_objects_treat_all_nodes_equally(objects):
    """Filter and score are skipped, and no exception is raised."""
    for plugin in ("NetworkOverhead", "NetworkMinCost"):
        got = evaluate(
            plugin,
            nodes=nodes(),
            objects=objects,
            existing_pods=[member("c1", "cart", "a1x")],
            pod=member("new", "front"),
        )

        assert all(status.is_success for status in got.filter.values())
        assert got.pre_score.code is Code.SKIP


def test_the_pods_own_namespace_comes_first():
    """Of two AppGroups of one name, that of the pod's namespace counts, with its pods."""
    here = app_group({"front": {"store": 5}, "store": {}}, namespace="shop")
    placed = [
        member("s1", "store", "a2x", namespace="shop"),
        member("c1", "cart", "b1x", namespace="shop"),
        *(member(f"s{number}", "store", "b1x") for number in range(2, 5)),
    ]
    mine = member("new", "front", namespace="shop")
    got = evaluate(
        "NetworkOverhead",
        nodes=nodes(),
        objects=[here, app_group(SHOP), costs()],
        existing_pods=placed,
        pod=mine,
    )

    assert 0 == got.raw["a2x"]
    assert got.filter["a2x"].is_success
    assert not got.filter["b1x"].is_success


def test_groups_of_other_namespaces_are_found_by_the_argument():
    """Pods of several namespaces share a group of the configured one, unless they have their
    own.
    """
    args = {"namespaces": ["platform"]}
    ours = app_group({"front": {"store": 5}, "store": {}}, namespace="platform")
    theirs = app_group({"store": {}}, namespace="other")
    placed = [
        member("s1", "store", "a2x", namespace="shop"),
        member("s2", "store", "a2x", namespace="platform"),
        member("s3", "store", "b1x", namespace="other"),
    ]
    got = evaluate(
        "NetworkOverhead",
        args=args,
        nodes=nodes(),
        objects=[
            ours,
            theirs,
            costs() | {"metadata": {"name": "nt-default", "namespace": "platform"}},
        ],
        existing_pods=placed,
        pod=member("new", "front", namespace="third"),
    )

    assert 0 == got.raw["a2x"]
    assert 2 * got.raw["a1x"] == 2 * 2 * 5
    assert not got.filter["b1x"].is_success


def test_the_first_pods_of_an_application_go_near_to_one_another():
    """Pods that depend on the same workloads count for the score until the workloads run."""
    args = {"dependents": "Count", "indirect": "Count"}
    placed = [member("f1", "front", "a1x")]
    got = overhead(args, "front", placed)

    assert (0, 1, 5, 20) == tuple(got.raw[name] for name in ("a1x", "a1y", "a2x", "b1x"))
    assert all(status.is_success for status in got.filter.values())
    assert 100 == got.normalized["a1x"]
    assert not any(overhead({"dependents": "Count"}, "front", placed).raw.values())
    settled = [*placed, member("c1", "cart", "b1x")]
    direct = overhead({"dependents": "Count"}, "front", settled)
    assert direct.raw == overhead(args, "front", settled).raw


def test_indirect_dependencies_are_listed_only_if_few():
    """Ten thousand leaves round one hub have a hundred million pairs, which are not computed."""
    few, many = (
        app_group({"hub": dict.fromkeys((f"leaf{n}" for n in range(count)), 5)})
        for count in (10, 10_000)
    )

    found = [
        needs_of(read_object(group)[1].spec.members).indirect("leaf0") for group in (few, many)
    ]
    assert [{f"leaf{n}" for n in range(10)}, set()] == [
        {need.workload for need in n} for n in found
    ]


def test_a_link_fills_until_the_next_pod_is_refused():
    """Each front books 100 Mbit/s to its cart; the fourth does not fit 350, and its message says
    why.
    """
    objects = [app_group(SHOP), topology(regions=[("a", "b", 5, "350M")])]
    placed = [member("c1", "cart", "b1x")]
    for number in range(3):
        got = overhead(placed=placed, objects=objects)
        assert got.filter["a1x"].is_success
        placed = [*placed, member(f"f{number}", "front", "a1x")]

    got = overhead(placed=placed, objects=objects)
    text = (
        'link between regions "a" and "b" has no headroom: '
        "capacity 350000000 bit/s, booked 300000000, asked 100000000"
    )
    assert text == got.filter["a2y"].message
    assert Code.UNSCHEDULABLE is got.filter["a2y"].code
    assert got.filter["b2x"].is_success
    ignored = overhead({"bandwidth": "Ignore"}, placed=placed, objects=objects)
    assert ignored.filter["a2y"].is_success


def test_a_share_is_split_over_the_replicas_it_goes_to():
    """With half of the carts in its own zone a front needs half.

    The link is shared by both directions.
    """
    objects = [
        app_group(SHOP),
        topology(regions=[("a", "b", 5, "60M")], both=False),
    ]
    placed = [member("c1", "cart", "b1x"), member("c2", "cart", "a1x")]

    assert overhead(placed=placed, objects=objects).filter["a1y"].is_success
    more = [*placed, member("f1", "front", "a1x")]
    assert (
        'between regions "a" and "b"'
        in overhead(placed=more, objects=objects).filter["a1y"].message
    )
    backwards = overhead(placed=more, objects=objects).filter["b2x"]
    assert 'between regions "a" and "b"' in backwards.message


def test_a_dependency_books_for_those_that_depend_on_it():
    """A second cart takes over half of the fronts' traffic: where it may go depends on the link."""
    objects = [app_group(SHOP), topology(regions=[("a", "b", 20, "150M")])]
    placed = [member("c1", "cart", "a1x"), *(member(f"f{n}", "front", "a1y") for n in range(4))]
    args = {"dependents": "Count", "strict": False}

    got = overhead(args, "cart", placed, objects)

    assert "asked 200000000" in got.filter["b1x"].message
    assert got.filter["a2x"].is_success


def test_min_cost_follows_the_shortest_path_between_regions():
    """Two short links by a third region beat the long direct one."""
    three = [("a", "b", 50), ("a", "c", 10), ("c", "b", 10)]
    got = evaluate(
        "NetworkMinCost",
        nodes=[placed_node(name, name, f"{name}1") for name in "abc"],
        objects=[app_group(SHOP), topology(regions=three)],
        existing_pods=[member("c1", "cart", "b")],
        pod=member("new", "front"),
    )

    assert {"a": 20, "b": 0, "c": 10} == got.raw
    assert {"a": 0, "b": 100, "c": 50} == got.normalized


def test_a_node_without_measurements_is_the_dearest():
    """Where nodes are measured, a node without measurements is unknown, never free (D7)."""
    part = {
        "apiVersion": "trellis.dev/v1alpha1",
        "kind": "NetworkTopologySlice",
        "metadata": {"name": "slice", "namespace": "default"},
        "topology": "nt-default",
        "origins": [{"origin": "n1", "costList": [{"destination": "n2", "networkCost": 300}]}],
    }
    got = evaluate(
        "NetworkMinCost",
        nodes=[placed_node(f"n{n}", "r", "z") for n in (1, 2, 3)],
        objects=[app_group(SHOP), topology(), part],
        existing_pods=[member("c1", "cart", "n1")],
        pod=member("new", "front"),
    )

    assert {"n1": 0, "n2": 300, "n3": 300} == got.raw


def test_unknown_workloads_go_last_and_names_count_as_selectors():
    """An AppGroup ordered by names orders pods labelled by selector, and the other way round
    (D9).
    """
    group = app_group({"a": {}, "b": {}}, order=["b", "a"])

    assert less("TopologicalSort", member("1", "b"), member("2", "a"), objects=[group])
    assert less("TopologicalSort", member("1", "b-d"), member("2", "a"), objects=[group])
    assert less("TopologicalSort", member("1", "a"), member("2", "?"), objects=[group])


def test_without_figures_the_risk_is_that_of_what_pods_request():
    """Requests count as the average, without deviation.

    A node that offers nothing is left out.
    """
    link = {BANDWIDTH: "1G"}
    got = evaluate(
        "CheckRiskNodeBandwidth",
        args={"riskThreshold": 0.45},
        nodes=[node("free", allocatable=link), node("full", allocatable=link), node("none")],
        existing_pods=[pod("e", node_name="full", requests={BANDWIDTH: "900M"})],
        pod=pod("p", requests={BANDWIDTH: "100M"}),
    )

    assert {"free", "none"} == {name for name, one in got.filter.items() if one.is_success}
