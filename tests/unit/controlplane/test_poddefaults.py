"""Missing pod-level amounts, as kube-apiserver 1.36 fills them in."""

from typing import Any

import pytest

from scheduler.controlplane import poddefaults
from scheduler.controlplane.defaults import DEFAULTS


def container(requests=None, limits=None, **more):
    """Return a container with amounts."""
    amounts = {"requests": requests, "limits": limits}
    return {"name": "c", "resources": {key: one for key, one in amounts.items() if one}} | more


def filled(resources, *containers, init=()):
    """Return the pod-level amounts after defaulting."""
    spec = {"containers": list(containers), "initContainers": list(init)}
    if resources is not None:
        spec["resources"] = resources
    poddefaults.fill_spec(spec)
    poddefaults.fill_pod(spec)
    return spec.get("resources")


ONE = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("given", "containers", "requests"),
    [
        # The sum of the containers comes before the pod-level limit.
        ({"limits": {"cpu": "4", "memory": "4Gi"}}, [container(ONE)] * 2,
            {"cpu": "2", "memory": "2Gi"}),
        ({"requests": {"cpu": "500m"}}, [container({"memory": "2Gi"})] * 2,
            {"cpu": "500m", "memory": "4Gi"}),
        # Without any request of a container the limit counts.
        ({"limits": {"cpu": "4"}}, [container()], {"cpu": "4"}),
        # A container's own limit is its request.
        ({"limits": {"cpu": "4"}}, [container(limits={"cpu": "250m"})] * 3, {"cpu": "750m"}),
        # No pod-level amount at all: nothing is filled in.
        (None, [container(ONE)], None),
        ({}, [container(ONE)], None),
        # Extended resources are no pod-level resources.
        ({"limits": {"cpu": "4"}}, [container({"example.com/a": "1"})], {"cpu": "4"}),
    ],
)  # fmt: skip
def test_requests_that_are_left_out_are_the_sum_of_the_containers(given, containers, requests):
    """The sum follows KEP-2837."""
    assert requests == (filled(given, *containers) or {}).get("requests")


def test_init_containers_run_in_turn_and_sidecars_stay():
    """The request is the larger of both phases, as the scheduler sums up requests."""
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    for init, wanted in (
        ([container({"cpu": "5"})], "5"),
        ([sidecar, container({"cpu": "5"})], "6"),
        ([container({"cpu": "5"}), sidecar], "5"),
        ([sidecar], "3"),
    ):
        found = filled({"limits": {"cpu": "9"}}, container({"cpu": "2"}), init=init)
        assert {"cpu": wanted} == found["requests"]


def test_huge_pages_have_limits_that_equal_their_requests():
    """A container's limit becomes the pod's, and its request follows."""
    pages = {"hugepages-2Mi": "32Mi"}
    found = filled({"requests": {"cpu": "1"}}, *[container(pages, pages)] * 2)
    assert {"hugepages-2Mi": "64Mi"} == found["limits"]
    assert {"cpu": "1", "hugepages-2Mi": "64Mi"} == found["requests"]


def test_a_template_keeps_its_pod_level_amounts_as_written():
    """kube-apiserver defaults them in pods alone."""
    template = {"spec": {"containers": [container(ONE)], "resources": {"limits": {"cpu": "4"}}}}
    deployment: Any = {"metadata": {"name": "web"}, "spec": {"template": template}}
    DEFAULTS["deployments.apps"](deployment)
    assert {"limits": {"cpu": "4"}} == deployment["spec"]["template"]["spec"]["resources"]


def test_limits_of_a_limit_range_follow_from_one_another():
    """default follows from max, defaultRequest from default, else from min."""
    limits: list[dict[str, Any]] = [
        {"type": "Container", "max": {"cpu": "2"}},
        {"type": "Container", "default": {"cpu": "1"}, "min": {"memory": "1Gi"}},
        {"type": "Pod", "max": {"cpu": "2"}},
    ]
    DEFAULTS["limitranges"]({"metadata": {"name": "lr"}, "spec": {"limits": limits}})
    assert [{"cpu": "2"}, {"cpu": "1"}, None] == [one.get("default") for one in limits]
    wanted = [{"cpu": "2"}, {"cpu": "1", "memory": "1Gi"}, None]
    assert wanted == [one.get("defaultRequest") for one in limits]
