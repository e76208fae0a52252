"""NodeDeclaredFeatures: features that a pod's spec needs and nodes declare."""

import pytest

from scheduler.framework.status import SKIP, Code
from scheduler.objects.plain import read_node, read_pod
from scheduler.plugins.nodedeclaredfeatures import REASON, NodeDeclaredFeatures
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.testing import check_plugin, evaluate, node, pod
from scheduler.testing.scene import Scene

HOST_USERS = "UserNamespacesHostNetworkSupport"
RESTART = "RestartAllContainersOnContainerExits"
SHARED = pod("p", spec={"hostNetwork": True, "hostUsers": False})
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
BOTH = pod(
    "q",
    spec={
        "hostNetwork": True,
        "hostUsers": False,
        "initContainers": [{"name": "i", "restartPolicyRules": [RULE]}],
    },
)


def declaring(name, *features):
    """Return a node that declares features."""
    raw = node(name)
    raw["status"]["declaredFeatures"] = list(features)
    return raw


NODES = [
    declaring("none"),
    declaring("one", HOST_USERS),
    declaring("two", "Other", RESTART, HOST_USERS),
]


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(NodeDeclaredFeatures, nodes=NODES, pods=[SHARED, BOTH])


@pytest.mark.parametrize(("wanting", "fitting"), [(SHARED, {"one", "two"}), (BOTH, {"two"})])
def test_all_features_must_be_declared(wanting, fitting):
    """A node that lacks one is rejected for good."""
    got = evaluate(NodeDeclaredFeatures, nodes=NODES, pod=wanting)

    assert fitting == {name for name, status in got.filter.items() if status.is_success}
    rejected = {(s.code, s.reasons) for s in got.filter.values() if not s.is_success}
    assert {(Code.UNRESOLVABLE, (REASON,))} == rejected


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hostNetwork": True},
        {"hostNetwork": True, "hostUsers": True},
        {"hostUsers": False},
        {"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]},
    ],
)
def test_ordinary_pods_are_skipped(spec):
    """Ordinary pods need no feature, so the plugin skips them."""
    assert SKIP == evaluate(NodeDeclaredFeatures, nodes=NODES, pod=pod(spec=spec)).pre_filter


def test_which_nodes_wake_a_pod():
    """A node that declares all needed features and did not before."""
    plugin = Scene(NodeDeclaredFeatures).plugin
    waiting = read_pod(BOTH)

    def helps(new, old=None):
        before = read_node(old) if old else None
        return plugin.hint(Change("Node", "add", old=before, new=read_node(new)), waiting)

    assert helps(NODES[2])
    assert helps(NODES[2], NODES[1])
    assert not helps(NODES[1])
    assert not helps(NODES[2], declaring("two", RESTART, HOST_USERS))


def test_features_follow_nodes():
    """A freed row declares nothing."""
    cluster = Cluster()
    for raw in NODES:
        cluster.put_node(read_node(raw))
    cluster.put_node(read_node(declaring("none", RESTART)))
    cluster.drop_node("two")

    wanted = frozenset((RESTART,))
    assert [True, False, False] == cluster.table.features.declared(wanted).tolist()
