"""FragmentationAware without accelerators: nodes keep the ratio of cpu and memory of the
requests.
"""

import pytest

from scheduler.base.errors import ConfigError
from scheduler.explain.explain import explain
from scheduler.explain.report import explanation_lines
from scheduler.testing import evaluate, node, pod
from tests.unit.simulate.asking import HEAD, setup, snapshot

ARGS = {"resources": ["memory"], "beside": ["cpu"]}
SHAPES = [{"cpu": "1", "memory": "8Gi"}, {"cpu": "4", "memory": "4Gi"}]
GIB = 1 << 30


def server(name, cpu, memory):
    """Return a node of 16 cores and 64 GiB with these amounts free, and the pod on it."""
    used = {"cpu": f"{16 - cpu}", "memory": f"{64 - memory}Gi"}
    return node(name, cpu="16", memory="64Gi"), pod(f"on-{name}", node_name=name, requests=used)


def normalized(cpu, memory, *servers):
    """Return the scores of the nodes for a pod that requests these cores and GiB."""
    return evaluate(
        "FragmentationAware",
        args=ARGS | {"shapes": SHAPES},
        nodes=[one for one, _ in servers],
        existing_pods=[one for _, one in servers],
        pod=pod("p", requests={"cpu": str(cpu), "memory": f"{memory}Gi"}),
    ).normalized


def test_a_pod_goes_where_the_rest_fits_other_pods():
    """Memory without cores beside it can be used by no pod: each shape takes its own excess."""
    servers = server("much-cpu", cpu=12, memory=16), server("much-memory", cpu=4, memory=40)

    assert normalized(1, 8, *servers)["much-memory"] == 100 > normalized(1, 8, *servers)["much-cpu"]
    assert normalized(4, 4, *servers)["much-cpu"] == 100 > normalized(4, 4, *servers)["much-memory"]


def test_units_do_not_matter():
    """The scores of a cluster and of one with a thousandth of all amounts are equal."""

    def scores(cpu, memory):
        scale = {"cpu": f"{cpu}", "memory": f"{memory}"}
        found = evaluate(
            "FragmentationAware",
            args=ARGS | {"shapes": [{"cpu": scale["cpu"], "memory": scale["memory"]}]},
            nodes=[
                node(name, cpu=f"{cores * cpu}", memory=str(amount * memory))
                for name, cores, amount in (("a", 8, 16), ("b", 16, 8), ("c", 16, 16))
            ],
            pod=pod("p", requests=scale),
        )
        return found.normalized

    assert scores(1, GIB) == scores(4, 1000 * GIB)
    assert len(set(scores(1, GIB).values())) > 1


def test_explain_names_requests_instead_of_devices():
    """The text has the pods of the mix that still fit, by their requests."""
    config = (
        f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: FragmentationAware}}]}}}},"
        " pluginConfig: [{name: FragmentationAware, args:"
        " {resources: [memory], beside: [cpu]}}]}]"
    )
    requests = {"cpu": "1", "memory": "8Gi"}
    cluster = snapshot(
        node("a", cpu="16", memory="64Gi"),
        pod("q", node_name="a", requests=requests),
        pod("p", requests=requests),
    )

    found = explain(cluster, setup(config=config), "default/p").explanation
    (line,) = (text for text in explanation_lines(found) if "FragmentationAware" in text)
    assert line.endswith("usable afterwards, pods x requests of each: 6 x 8Gi memory + 1 cpu")


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"resources": ["memory", "nvidia.com/gpu"], "beside": ["cpu"]}, "resources"),
        ({"resources": ["cpu"]}, "beside"),
        ({"resources": ["memory"], "beside": ["memory"]}, "beside"),
    ],
)
def test_a_resource_that_counts_as_devices_is_alone_and_not_beside(args, field):
    """Each wrong combination is named by its field."""
    with pytest.raises(ConfigError, match=rf"{field}: Invalid value"):
        evaluate("FragmentationAware", args=args, nodes=[], pod=pod("p"))
