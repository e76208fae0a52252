"""VolumeZone: zone and region labels of volumes and nodes."""

import pytest

from scheduler.framework.status import SKIP, Code
from scheduler.objects.plain import read_object, read_pod
from scheduler.plugins.volumes import VolumeZone
from scheduler.plugins.volumes.zone import REASON
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate, node
from scheduler.testing.scene import Scene
from tests.unit.plugins.storage import ZONE, claim, storage_class, using, volume

BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
NODES = [
    node("a", labels={ZONE: "za", REGION: "r"}),
    node("b", labels={ZONE: "zb", REGION: "r"}),
    node("old", labels={BETA: "za"}),
    node("bare"),
]
ALL = {"a", "b", "old", "bare"}


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(
        VolumeZone,
        pods=[using("c"), using("nope", name="waiting"), using("open", name="late")],
        objects=[
            claim(to="v"),
            claim("open", storage_class="s"),
            volume(labels={ZONE: "a"}),
            storage_class(),
        ],
    )


@pytest.mark.parametrize(
    ("labels", "fitting"),
    [
        ({ZONE: "za"}, {"a", "bare"}),
        ({ZONE: "za__zb"}, {"a", "b", "bare"}),
        ({ZONE: "zc"}, {"bare"}),
        ({REGION: "r"}, {"a", "b", "bare"}),
        ({BETA: "za"}, {"a", "old", "bare"}),
        ({BETA: "zb", REGION: "r"}, {"b", "bare"}),
        ({ZONE: "za__"}, ALL),
    ],
)
def test_where_a_volume_is(labels, fitting):
    """Each label must fit, an old one also by the new one's value; a node without any passes."""
    got = evaluate(
        VolumeZone, nodes=NODES, objects=[claim(to="v"), volume(labels=labels)], pod=using("c")
    )

    assert fitting == {name for name, status in got.filter.items() if status.is_success}
    assert {(REASON,)} >= {s.reasons for s in got.filter.values() if not s.is_success}


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], 'persistentvolumeclaim "c" not found'),
        ([claim()], "PersistentVolumeClaim had no pv name and storageClass name"),
        ([claim(storage_class="s")], 'storageclass.storage.k8s.io "s" not found'),
        (
            [claim(storage_class="s"), storage_class(mode=None)],
            'VolumeBindingMode not set for StorageClass "s"',
        ),
        (
            [claim(storage_class="s"), storage_class(mode="Immediate")],
            "PersistentVolume had no name",
        ),
        ([claim(to="v")], 'persistentvolume "v" not found'),
    ],
)
def test_what_keeps_a_pod_from_every_node(objects, reason):
    """Claims that cannot be followed to a volume reject the pod for good."""
    got = evaluate(VolumeZone, nodes=NODES, objects=objects, pod=using("c"))

    assert (Code.UNRESOLVABLE, (reason,)) == (got.pre_filter.code, got.pre_filter.reasons)


@pytest.mark.parametrize(
    "objects",
    [
        [claim(storage_class="s"), storage_class()],
        [claim(to="v"), volume()],
        [claim(storage_class="other", annotations={"volume.beta.kubernetes.io/storage-class": "s"}),
         storage_class()],
    ],
)  # fmt: skip
def test_what_says_nothing_about_zones(objects):
    """A claim that waits for its consumer, and a volume without labels, leave all nodes."""
    got = evaluate(VolumeZone, nodes=NODES, objects=objects, pod=using("c"))

    assert SKIP == got.pre_filter


def test_a_filter_without_a_pre_filter_works_it_out():
    """A profile may disable the pre-filter alone."""
    assert not VolumeZone.unread


def test_what_wakes_a_pod():
    """Changes of the pod's claims, their class and volume wake it; labels of other volumes
    do not.
    """
    scene = Scene(VolumeZone)
    scene.fill(objects=[claim(to="v"), claim("open", storage_class="s"), volume()])
    waiting = read_pod(using("c", "open"))

    def helps(verb, new, old=None):
        kind, obj = read_object(new)
        before = read_object(old)[1] if old else None
        return scene.plugin.hint(Change(kind.kind, verb, old=before, new=obj), waiting)

    assert helps("add", storage_class())
    assert not helps("add", storage_class(mode="Immediate"))
    assert not helps("add", storage_class("other"))
    assert helps("update", claim(to="v"), claim())
    assert not helps("update", claim("d", to="v"), claim("d"))
    assert helps("update", volume(labels={ZONE: "za"}), volume())
    assert not helps("update", volume(labels={"x": "y"}), volume())
    assert not helps("add", volume("w", labels={ZONE: "za"}))
