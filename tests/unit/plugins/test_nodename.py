"""NodeName: a pod that names its node."""

from scheduler.framework.status import Code
from scheduler.plugins.nodename import REASON, NodeName
from scheduler.testing import check_plugin, evaluate, node, pod


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(NodeName)


def test_only_the_named_node_is_left():
    """All others are final rejections."""
    nodes = [node("a"), node("b")]
    got = evaluate(NodeName, nodes=nodes, pod=pod(spec={"nodeName": "b"}))

    assert (Code.UNRESOLVABLE, (REASON,)) == (got.filter["a"].code, got.filter["a"].reasons)
    assert got.filter["b"].is_success


def test_a_pod_without_a_name_goes_anywhere():
    """An empty name rejects nothing."""
    assert evaluate(NodeName, nodes=[node("a")], pod=pod()).filter["a"].is_success
