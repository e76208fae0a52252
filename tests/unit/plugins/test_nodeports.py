"""NodePorts: host ports are used once per node, protocol and address."""

import pytest

from scheduler.framework.status import SKIP, Code
from scheduler.plugins.nodeports import REASON, NodePorts
from scheduler.testing import check_plugin, evaluate, node, pod


def holding(*ports, name="p", node_name=""):
    """Return a pod whose container has these port entries."""
    container = {"name": "main", "ports": [{"containerPort": 1, **port} for port in ports]}
    return pod(name, node_name=node_name, spec={"containers": [container]})


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(NodePorts)


@pytest.mark.parametrize(
    ("existing", "wanted", "conflict"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, True),
        ({"hostPort": 80}, {"hostPort": 81}, False),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "::"}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
    ],
)
def test_what_conflicts(existing, wanted, conflict):
    """Same protocol and port, and addresses that are equal or of which one is the wildcard."""
    got = evaluate(
        NodePorts,
        nodes=[node("n")],
        existing_pods=[holding(existing, name="e", node_name="n")],
        pod=holding(wanted),
    )

    expected = (Code.UNSCHEDULABLE, (REASON,)) if conflict else (Code.SUCCESS, ())
    assert expected == (got.filter["n"].code, got.filter["n"].reasons)


def test_a_pod_without_host_ports_is_skipped():
    """A container port alone reserves nothing on the node."""
    assert SKIP == evaluate(NodePorts, nodes=[node("n")], pod=holding({"hostPort": 0})).pre_filter


def test_sidecars_count_ordinary_init_containers_do_not():
    """An init container that ended holds no port beside the containers."""
    port = [{"containerPort": 1, "hostPort": 80}]

    def initial(**fields):
        return pod(spec={"initContainers": [{"name": "i", "ports": port, **fields}]})

    assert SKIP == evaluate(NodePorts, nodes=[node("n")], pod=initial()).pre_filter
    sidecar = evaluate(NodePorts, nodes=[node("n")], pod=initial(restartPolicy="Always"))
    assert Code.SUCCESS == sidecar.pre_filter.code
