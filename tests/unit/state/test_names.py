"""The names of all rows in one column follow the nodes."""

from scheduler.framework.nodes import Nodes
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, node_with


def test_names_follow_the_nodes():
    """A freed row has none, a reused row has the new one.

    A changed node keeps its own.
    """
    cluster = Cluster()
    for name in ("a", "b", "c"):
        cluster.put_node(make_node(name))
    assert ["a", "b", "c"] == cluster.table.names.tolist()
    kept = cluster.table.names
    cluster.put_node(node_with(make_node("b"), allocatable={"cpu": 1}))
    assert kept is cluster.table.names
    cluster.drop_node("b")
    assert ["a", "", "c"] == cluster.table.names.tolist()
    cluster.put_node(make_node("d"))

    nodes = Nodes(cluster.table, cluster.pods)
    assert ("a", "d", "c") == nodes.names(nodes.exists)
    assert [2, 1] == nodes.rows_of(("c", "x", "d"))
    assert ["a", "d", "c"] == cluster.table.names.tolist()
