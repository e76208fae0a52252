"""Idle devices that waiting pods can use: by size, for `explain`, and as gauges of the daemon."""

import numpy as np

from scheduler.base.meters import Meters
from scheduler.config import load
from scheduler.daemon.gauges import show_devices
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.explain.explain import explain
from scheduler.explain.report import explanation_lines
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_pod
from scheduler.plugins.fragmentation.loss import Left
from scheduler.plugins.fragmentation.mix import MixShape
from scheduler.plugins.fragmentation.usable import EVERY, pods_that_fit, unusable
from scheduler.testing import node
from scheduler.testing.scene import NOW
from tests.unit.simulate.asking import HEAD, pod, setup, snapshot

GPU = "nvidia.com/gpu"
CONFIG = (
    f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: FragmentationAware}}]}}}}}}]"
)


def left(*rows, whole=0, cpu=8000):
    """Return remainders of nodes of class 0 with this free milli per device."""
    free = np.array(rows)
    count = len(free)
    return Left(
        np.zeros(count, dtype=np.int64),
        (np.full(count, float(cpu)),),
        free,
        np.full(count, whole),
        np.full(count, free.shape[1] + whole),
    )


def test_pods_that_fit_follow_devices_and_cpu():
    """Shares fit per device, whole devices per node; CPU limits both."""
    rows = left([1000, 700, 200], whole=2)

    assert [2 + 1 + 4] == pods_that_fit(rows, MixShape((0,), 1, 500)).tolist()
    assert [3] == pods_that_fit(rows, MixShape((0,), 1, 1000)).tolist()
    assert [1] == pods_that_fit(rows, MixShape((0,), 2, 1000)).tolist()
    assert [2] == pods_that_fit(rows, MixShape((4000,), 1, 500)).tolist()


def test_a_device_is_unusable_if_no_pod_of_the_size_fits():
    """The count is by size, and for every size; other models and too little CPU make all of a node
    unusable.
    """
    rows = left([1000, 600], [100, 0])
    shared, whole, pair = (MixShape((0,), n, m) for n, m in ((1, 500), (1, 1000), (2, 1000)))

    found = unusable(rows, ["a"], {shared: 1, whole: 1, pair: 1})
    assert {"0.5": 0.1, "1": 0.7, "2": 1.7, EVERY: 0.1} == found
    assert {"1": 1.7, EVERY: 1.7} == unusable(rows, ["a"], {MixShape((0,), 1, 1000, ("b",)): 1})
    assert {"1": 1.7, EVERY: 1.7} == unusable(rows, ["a"], {MixShape((9000,), 1, 1000): 1})
    assert {} == unusable(rows, ["a"], {})


def test_at_most_fifteen_sizes_are_returned():
    """Labels are bounded; the sizes left out still count in the label `all`."""
    waiting = {MixShape((0,), 1, 50 * number): number for number in range(1, 20)}

    found = unusable(left([1000, 500]), ["a"], waiting)
    assert 16 == len(found)
    assert "0.05" not in found
    assert 0 == found[EVERY]


def test_gauges_follow_the_queue_and_the_nodes():
    """Idle devices of nodes, and the part of them that waiting pods cannot use."""
    registry, meters = Registry(IN_TREE), Meters()
    engine = Engine(load(CONFIG, file="test", registry=registry).profiles, registry)
    show_devices(engine, meters)
    for made in (
        node("a", cpu="8", allocatable={GPU: 4}),
        node("b", cpu="1", allocatable={GPU: 3}),
    ):
        engine.handle(Watched("Node", "ADDED", read_node(made)), NOW)

    def gauge(name):
        found = {spec.name: samples for spec, samples in meters.collect()}
        return {one.labels: one.value for one in found.get(name, ())}

    assert {(): 7.0} == gauge("trellis_devices_idle")
    assert {} == gauge("trellis_devices_unusable")
    waiting = pod("p", requests={"cpu": "4", GPU: 8})
    engine.handle(Watched("Pod", "ADDED", read_pod(waiting)), NOW)
    assert {("8",): 7.0, ("every",): 7.0} == gauge("trellis_devices_unusable")
    waiting = pod("q", requests={"cpu": "4", GPU: 1})
    engine.handle(Watched("Pod", "ADDED", read_pod(waiting)), NOW)
    assert {("8",): 7.0, ("1",): 3.0, ("every",): 3.0} == gauge("trellis_devices_unusable")

    without = Engine(load(HEAD, file="test", registry=registry).profiles, registry)
    show_devices(without, meters)
    assert {} == gauge("trellis_devices_unusable")


def test_explain_shows_what_the_choice_leaves_usable():
    """Sizes of the mix with the number of pods that the chosen node takes afterwards."""
    bound = [
        pod(f"r{number}", node_name="a", requests={"cpu": "1", GPU: count})
        for number, count in enumerate((1, 1, 2))
    ]
    cluster = snapshot(
        node("a", cpu="64", allocatable={GPU: 8}), *bound, pod("p", requests={"cpu": "1", GPU: 1})
    )

    found = explain(cluster, setup(config=CONFIG), "default/p").explanation
    (line,) = (text for text in explanation_lines(found) if "FragmentationAware" in text)
    assert line.endswith("usable afterwards, pods x devices of each: 3 x 1, 1 x 2")
