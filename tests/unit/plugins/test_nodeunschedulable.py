"""NodeUnschedulable: cordoned nodes."""

import pytest

from scheduler.framework.status import Code
from scheduler.plugins.nodeunschedulable import REASON, NodeUnschedulable
from scheduler.testing import check_plugin, evaluate, node, pod

KEY = "node.kubernetes.io/unschedulable"


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(NodeUnschedulable)


@pytest.mark.parametrize(
    ("tolerations", "open_to_it"),
    [
        ([], False),
        ([{"key": KEY, "operator": "Exists"}], True),
        ([{"key": KEY, "operator": "Exists", "effect": "NoExecute"}], False),
        ([{"operator": "Exists"}], True),
    ],
)
def test_a_cordoned_node_takes_pods_that_tolerate_its_taint(tolerations, open_to_it):
    """The taint itself need not exist; without the toleration the rejection is final."""
    got = evaluate(
        NodeUnschedulable,
        nodes=[node("cordoned", unschedulable=True), node("open")],
        pod=pod(spec={"tolerations": tolerations}),
    )

    assert got.filter["open"].is_success
    expected = (Code.SUCCESS, ()) if open_to_it else (Code.UNRESOLVABLE, (REASON,))
    assert expected == (got.filter["cordoned"].code, got.filter["cordoned"].reasons)
