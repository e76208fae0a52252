"""The mix of pods: counted pods, kept shapes, and the time of its replacement."""

from scheduler.config import load
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.intree import registry
from scheduler.objects.plain import read_node, read_pod
from scheduler.plugins.fragmentation import FragmentationAware
from scheduler.plugins.fragmentation.mix import Mix, MixShape, SeenShapes, mix_of
from scheduler.testing import node
from scheduler.testing.scene import NOW
from tests.unit.simulate.asking import HEAD, pod

GPU = "nvidia.com/gpu"
CONFIG = (
    f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: FragmentationAware}}]}}}}}}]"
)


def shape(devices, milli=1000):
    """Return a shape without limiting resources."""
    return MixShape((0,), devices, milli)


def test_a_bounded_mix_keeps_the_shapes_that_use_the_most_devices():
    """A rare shape of 8 devices counts more than a frequent small share."""
    counts = {shape(8): 2, shape(1, 100): 9, shape(1): 3}

    assert {shape(8), shape(1)} == {one for one, _ in mix_of(counts, 2).shapes}


def test_the_mix_is_replaced_when_it_has_moved():
    """Compared after 16 pods, replaced if the distance is above the limit."""
    seen = SeenShapes(0.1)
    found = []
    for number in range(64):
        seen.add(shape(1 if number < 32 else 2))
        found.append(seen.renewed())

    replaced = [number for number, mix in enumerate(found) if mix is not None]
    assert [15, 47, 63] == replaced
    assert Mix(((shape(1), 0.5), (shape(2), 0.5)), 64.0) == found[63]


def test_a_mix_of_more_pods_replaces_one_that_is_near():
    """A mix of one and a half times the pods replaces it; equal shares replace nothing."""
    used = mix_of({shape(1): 52, shape(2): 48})

    assert not mix_of({shape(1): 70, shape(2): 70}).replaces(used, 0.1)
    assert mix_of({shape(1): 75, shape(2): 75}).replaces(used, 0.1)
    assert not mix_of({shape(1): 104, shape(2): 96}).replaces(used, 0.1)


def test_pending_pods_are_part_of_the_mix():
    """A mix follows from API objects: bound pods, and pods that wait."""
    known = registry()
    engine = Engine(load(CONFIG, file="test", registry=known).profiles, known)
    (plugin,) = (one for one in engine.view.plugins() if isinstance(one, FragmentationAware))
    for number in range(2):
        waiting = pod(f"w{number}", requests={"cpu": "1", GPU: 8})
        engine.handle(Watched("Pod", "ADDED", read_pod(waiting)), NOW)
    bound = pod("b", node_name="n", requests={"cpu": "1", GPU: 2})
    engine.handle(Watched("Pod", "ADDED", read_pod(bound)), NOW)
    made = node("n", allocatable={GPU: 4})
    engine.handle(Watched("Node", "ADDED", read_node(made)), NOW)

    assert plugin.inventory.version > 0
    assert {2: 1 / 3, 8: 2 / 3} == {
        one.devices: share for one, share in plugin.inventory.mix.shapes
    }
