"""Tables list racks, nodes and groups in natural order: number 2 comes before number 10."""

from scheduler.explain.folds import counted, folded_counts, where_text
from scheduler.explain.grouprows import in_order
from scheduler.framework.groups import GroupReport
from scheduler.snapshot.nodeview import node_view
from scheduler.snapshot.tree import tree
from scheduler.testing import node
from tests.unit.simulate.asking import pod, snapshot

RACK = "sakkara.topology.rack"
ORDER = [f"rack-{number}" for number in (1, 2, 10)]
NODES = [f"n{number}" for number in (1, 2, 10, 11)]


def three_racks():
    """Return three racks, the first one of two nodes, whose objects are in no order."""
    racks = dict(zip(NODES, ("rack-10", "rack-2", "rack-1", "rack-1"), strict=True))
    nodes = [node(name, labels={RACK: racks[name]}) for name in reversed(NODES)]
    pods = [pod(f"p-{number}", node_name="n1") for number in (10, 9, 2)]
    return snapshot(*nodes, *pods)


def test_units_and_nodes_of_the_tree():
    """A node of the tree is inside its rack, in the order of its own name."""
    root = tree(three_racks(), (RACK,))

    assert ORDER == [unit.name for unit in root.children]
    assert ["n10", "n11"] == [unit.name for unit in root.children[0].children]


def test_counts_by_node_and_by_rack():
    """The first names of a list are those of the least numbers, whatever was counted first."""
    nodes = three_racks().nodes
    racks = {one.metadata.name: one.metadata.labels[RACK] for one in nodes}

    assert "n2 x3, n10" == counted({"n10": 1, "n2": 3})
    expected = "rack-1 (2 nodes), rack-2 (1 node), rack-10 (1 node)"
    assert expected == where_text(reversed(NODES), racks)
    table = folded_counts(dict.fromkeys(NODES, 8), nodes)
    assert [["4 nodes", "8 each", expected]] == table.rows
    table = folded_counts({"n10": 8, "n2": 8}, ())
    assert [["2 nodes", "8 each", "n2, n10"]] == table.rows


def test_groups_and_pods_of_a_node():
    """Groups of one status and pods of one priority are ordered by name."""
    groups = [GroupReport("default", name, "Bound", 1, {}, minimum=0) for name in ("g10", "g9")]

    assert ["g9", "g10"] == [one.name for one in in_order(groups)]
    expected = [f"default/p-{number}" for number in (2, 9, 10)]
    assert expected == [one["key"] for one in node_view(three_racks(), "n1")["pods"]]
