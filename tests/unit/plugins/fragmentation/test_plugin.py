"""FragmentationAware on small clusters: whole devices, shares, partitions, models, CPU beside
them.
"""

import pytest

from scheduler.base.errors import ConfigError
from scheduler.objects.plain import read_object
from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import view_of
from scheduler.plugins.fragmentation.devicecolumns import free_of
from scheduler.testing import evaluate, node, pod
from tests.unit.plugins.devices import claim, claiming, gpu_class, local_slice

GPU, MODEL = "nvidia.com/gpu", "nvidia.com/gpu.product"
WHOLE_PODS = [{"cpu": "4", "devices": 1}, {"cpu": "32", "devices": 8, "weight": 0.5}]


def server(name, gpus=8, cpu="64", model="a"):
    """Return a node with whole devices."""
    return node(name, cpu=cpu, allocatable={GPU: gpus}, labels={MODEL: model})


def running(name, on, gpus=0, cpu="4"):
    """Return a pod that is bound."""
    requests = {"cpu": cpu} | ({GPU: gpus} if gpus else {})
    return pod(name, node_name=on, requests=requests)


def scores(nodes, pods, incoming, objects=(), **args):
    """Return the normalized scores of a pod."""
    args = {"shapes": WHOLE_PODS} | args
    return evaluate(
        "FragmentationAware",
        args=args,
        nodes=nodes,
        existing_pods=pods,
        pod=incoming,
        objects=objects,
    ).normalized


def best(*arguments, **args):
    """Return the nodes with the highest score."""
    found = scores(*arguments, **args)
    assert max(found.values()) == 100
    return {name for name, score in found.items() if score == 100}


def test_a_pod_of_one_device_fills_a_node_in_use():
    """An untouched node is kept for the pods that need all of it."""
    nodes = [server("empty"), server("used")]
    incoming = pod("p", requests={"cpu": "4", GPU: 1})

    assert {"used"} == best(nodes, [running("r", "used", 3)], incoming)


def test_a_pod_without_devices_leaves_the_cpu_beside_devices_alone():
    """CPU is worth nothing on a node without devices."""
    nodes = [server("gpus", cpu="64"), node("plain", cpu="64")]

    assert {"plain"} == best(nodes, [], pod("p", requests={"cpu": "48"}))


def test_a_pod_that_takes_the_last_cpu_costs_the_devices_beside_it():
    """A node whose devices stay usable ranks above one whose devices would be stranded."""
    nodes = [server("narrow", gpus=2, cpu="8"), server("wide", gpus=2, cpu="64")]
    incoming = pod("p", requests={"cpu": "6"})

    assert {"wide"} == best(nodes, [], incoming)


def test_a_model_that_pods_name_is_kept_free():
    """A pod that names no model is placed on the model with the least demand in the mix."""
    nodes = [server("old", model="old"), server("new", model="new")]
    shapes = [{"cpu": "4", "devices": 1}, {"cpu": "4", "devices": 1, "models": ["new"]}]
    incoming = pod("p", requests={"cpu": "4", GPU: 1})

    assert {"old"} == best(nodes, [], incoming, shapes=shapes)


def test_bound_pods_that_select_a_model_count_for_the_mix():
    """The mix follows from the API objects: a nodeSelector names the model."""
    nodes = [server("old", model="old"), server("new", model="new"), server("new2", model="new")]
    bound = [running(f"r{i}", "new2", 1) for i in range(6)]
    for one in bound:
        one["spec"]["nodeSelector"] = {MODEL: "new"}
    incoming = pod("p", requests={"cpu": "4", GPU: 1})

    assert {"old"} == best(nodes, bound, incoming, shapes=[])


def test_a_cluster_without_devices_is_left_alone():
    """Without a node with devices the pre-score skips, and no score is given."""
    found = evaluate("FragmentationAware", nodes=[node("n1")], pod=pod("p", requests={"cpu": "1"}))

    assert {} == found.normalized


def shared(name):
    """Return a device that several claims can share."""
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "40Gi"}},
    }


def share(name, amount, status=None):
    """Return a claim for a part of a device's memory."""
    ask = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": amount}}}
    return claim(name, requests=[{"name": "r", "exactly": ask}], status=status)


def allocated(node_name, device, amount):
    """Return the status of a claim that has a share of a device."""
    result = {
        "request": "r",
        "driver": "gpu.example.com",
        "pool": node_name,
        "device": device,
        "shareID": "00000000-0000-4000-8000-000000000001",
        "consumedCapacity": {"memory": amount},
    }
    return {"allocation": {"devices": {"results": [result]}}}


SHARES = [{"cpu": "1", "devices": 1, "milli": 500}, {"cpu": "1", "devices": 1}]


def test_a_share_fills_the_device_that_is_in_use():
    """Half of a device is placed on the node with the other half in use."""
    nodes = [node("n1", cpu="16"), node("n2", cpu="16")]
    objects = [
        gpu_class(),
        local_slice("n1", shared("g0"), shared("g1")),
        local_slice("n2", shared("g0"), shared("g1")),
        share("taken", "20Gi", allocated("n2", "g1", "20Gi")),
        share("c", "20Gi"),
    ]

    assert {"n2"} == best(nodes, [], claiming("p", "c"), objects, shapes=SHARES)


def test_a_rest_that_no_pod_can_use_costs_what_it_takes():
    """30 % on a device with half left leaves 20 %, which no pod of the mix can use."""
    nodes = [node("n1", cpu="16"), node("n2", cpu="16")]
    objects = [
        gpu_class(),
        local_slice("n1", shared("g0")),
        local_slice("n2", shared("g0")),
        share("half", "20Gi", allocated("n1", "g0", "20Gi")),
        share("most", "28Gi", allocated("n2", "g0", "28Gi")),
        share("c", "12Gi"),
    ]
    shapes = [{"cpu": "1", "devices": 1, "milli": 500}, {"cpu": "1", "devices": 1, "milli": 300}]

    assert {"n2"} == best(nodes, [], claiming("p", "c"), objects, shapes=shapes)


def test_partitions_of_one_device_count_as_one():
    """A device of which a partition is in use has the rest of its counters left."""
    counters = {"memory": {"value": "40Gi"}}
    takes = [{"counterSet": "card", "counters": {"memory": {"value": "10Gi"}}}]
    whole = [{"counterSet": "card", "counters": counters}]
    devices = [
        {"name": "part-0", "consumesCounters": takes},
        {"name": "part-1", "consumesCounters": takes},
        {"name": "whole", "consumesCounters": whole},
    ]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
    with_devices = local_slice("n1", *devices, pool=pool)
    with_counters = local_slice("n1", name="counters", pool=pool)
    with_counters["spec"].pop("devices")
    with_counters["spec"]["sharedCounters"] = [{"name": "card", "counters": counters}]
    slices = [read_object(one)[1] for one in (with_devices, with_counters)]
    view = view_of(("gpu.example.com", "n1"), slices, slices, None, lambda _driver, _device: 0)
    in_use = InUse()
    assert view is not None
    assert [1000] == free_of(view, in_use)

    in_use.whole["gpu.example.com", "n1", "part-1"] = 1
    assert [750] == free_of(view, in_use)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"beside": []}, "beside"),
        ({"beside": ["pods"]}, "beside"),
        ({"maxDrift": 0}, "maxDrift"),
        ({"shapesWeight": 0}, "shapesWeight"),
        ({"nodeFit": 2}, "nodeFit"),
        ({"shapes": [{"cpu": "four"}]}, "shapes[0].cpu"),
        ({"shapes": [{"devices": 2, "milli": 500}]}, "shapes[0].milli"),
        ({"shapes": [{"weight": 0}]}, "shapes[0].weight"),
        ({"shapes": [{}] * 257}, "shapes"),
    ],
)
def test_arguments_out_of_range_are_named(args, text):
    """The message names the field."""
    with pytest.raises(ConfigError, match=text.replace("[", r"\[").replace("]", r"\]")):
        evaluate("FragmentationAware", args=args, nodes=[], pod=pod("p"))
