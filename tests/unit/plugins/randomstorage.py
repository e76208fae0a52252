"""Random storage: objects, nodes and pods that are added, changed and deleted, for slow
references.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st

from scheduler.framework.plugin import Plugin
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.objects.pod import Pod
from scheduler.testing import node
from scheduler.testing.scene import Scene
from tests.unit.plugins.storage import (
    DRIVER,
    HOST,
    ZONE,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    using,
    volume,
)

GCE = {"gcePersistentDisk": {"pdName": "d"}}
READ = {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}
RBD = {"rbd": {"monitors": ["m", "n"], "image": "i"}}
OTHER_RBD = {"rbd": {"monitors": ["n", "o"], "image": "i"}}
SENT = {"volume.kubernetes.io/selected-node": "n1"}
MIGRATED = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}
PODS = ("e0", "e1", "e2", "e3")


class Move(msgspec.Struct, frozen=True):
    """A change: an object is created or updated, or deleted by its key if `obj` is None."""

    kind: str
    key: str
    obj: Any = None


def _versions(raws: Iterable[Any]) -> list[Move]:
    moves = []
    for raw in raws:
        kind = raw["kind"]
        obj: Any = {"Node": read_node, "Pod": read_pod}.get(kind, lambda r: read_object(r)[1])(raw)
        meta = obj.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        moves += [Move(kind, key, obj), Move(kind, key)]
    return moves


def _claims() -> Iterable[Any]:
    for name in ("c0", "c1", "c2"):
        yield claim(name, storage_class="s")
        yield claim(name, storage_class="s", size="3Gi", modes=["ReadWriteOnce", "ReadOnlyMany"])
        yield claim(name, to=f"v{name[1]}")
        yield claim(name, to="v0", modes=["ReadWriteOncePod"])
        yield claim(name, storage_class="s", annotations=SENT)
    yield claim("c0")
    yield claim("c1", storage_class="s", volumeName="v1")
    yield claim("c2", storage_class="s", selector={"matchLabels": {"disk": "fast"}})
    yield claim("p0-x", storage_class="s", owner="p0")


def _volumes() -> Iterable[Any]:
    for number in range(4):
        name = f"v{number}"
        yield volume(name, storage_class="s", size=f"{1 + number % 2 * 4}Gi")
        yield volume(name, storage_class="s", zones=["x"], labels={ZONE: "x", "disk": "fast"})
        yield volume(name, storage_class="s", hosts=["n1"], handle=f"h{number % 2}")
        yield volume(name, storage_class="s", owner="c0", owner_uid="", zones=["y"])
        yield volume(name, storage_class="s", owner="c1", phase="Bound", handle=f"h{number}")
    yield volume("v0", labels={ZONE: "x__y"}, handle="h0")
    yield volume("v1", zones=["x"], gcePersistentDisk={"pdName": "d"}, owner="c1")
    yield volume("v2", storage_class="s", phase="Released")
    yield volume(
        "v3", storage_class="s", size="4Gi", modes=["ReadOnlyMany", "ReadWriteOnce"], zones=["y"]
    )


def _others() -> Iterable[Any]:
    yield storage_class(provisioner="kubernetes.io/no-provisioner")
    yield storage_class()
    yield storage_class(zones=["x"])
    yield storage_class(mode="Immediate")
    yield storage_class(provisioner="kubernetes.io/gce-pd")
    for name in ("n0", "n1"):
        yield csi_node(name, {DRIVER: 1, "pd.csi.storage.gke.io": 1})
        yield csi_node(name, {DRIVER: 2}, annotations=MIGRATED)
        yield csi_node(name, {DRIVER: None})
        yield attachment(f"at-{name}", name, "v0")
        yield attachment(f"at-{name}", name, "v2", attacher="other")
    yield csi_driver()
    yield csi_driver(storage_capacity=False)
    yield capacity("k0", zone="x", size="2Gi")
    yield capacity("k0", zone="x", size="5Gi")
    yield capacity("k1", zone="y", size="5Gi", most="1Gi")


def _nodes() -> Iterable[Any]:
    for name, zone in (("n0", "x"), ("n1", "y"), ("n2", "x")):
        yield node(name, labels={HOST: name, ZONE: zone})
        yield node(name, labels={HOST: name, "topology.gke.io/zone": zone})


def _pods() -> Iterable[Any]:
    for number, name in enumerate(PODS):
        for where in ("n0", "n1", "gone"):
            yield using("c0", name=name, node_name=where)
            yield using("c1", f"c{number % 3}", name=name, node_name=where, volumes=[READ])
            yield using(name=name, node_name=where, volumes=[GCE, RBD])


def _open() -> Iterable[Any]:
    """Draw claims that wait for a volume, and volumes, classes and capacities for them."""
    for name in ("c0", "c1", "c2"):
        for size in ("1Gi", "3Gi", "5Gi"):
            yield claim(name, storage_class="s", size=size)
    for number in range(4):
        name = f"v{number}"
        for size in ("1Gi", "3Gi", "5Gi"):
            yield volume(name, storage_class="s", size=size)
            yield volume(name, storage_class="s", size=size, zones=["x"])
        yield volume(name, storage_class="s", size="9Gi", owner="c0", owner_uid="", zones=["y"])
        yield volume(name, storage_class="s", size="9Gi", hosts=["n2"])
    yield capacity("k0", zone="x", size="3Gi")
    yield capacity("k1", zone="y", size="1Gi")


def _shared() -> Iterable[Any]:
    """Pods that share claims and disks."""
    for name in PODS:
        for where in ("n0", "n1"):
            yield using("c0", name=name, node_name=where)
            yield using("c1", name=name, node_name=where, volumes=[GCE])
            yield using("c2", "c0", name=name, node_name=where, volumes=[READ])


def _bound() -> Iterable[Any]:
    """Draw bound claims, some for one pod alone, and volumes that count against limits."""
    for number in range(3):
        name, to = f"c{number}", f"v{number}"
        yield claim(name, to=to)
        yield claim(name, to=to, modes=["ReadWriteOncePod"])
        yield volume(to, owner=name, handle=f"h{number}")
        yield volume(to, owner=name, handle="h0")
        yield attachment(f"at-{name}", "n0", to)
    yield csi_node("n0", {DRIVER: 1})
    yield csi_node("n0", {DRIVER: 2})


def _moves(*parts: Iterable[Any]) -> st.SearchStrategy[list[Move]]:
    """Return lists of moves; objects are put far more often than dropped."""
    one_of = []
    for part in parts:
        versions = _versions(part)
        one_of += [st.sampled_from([m for m in versions if m.obj is not None])] * 4
        one_of.append(st.sampled_from(versions))
    return st.lists(st.one_of(one_of), min_size=4, max_size=30)


moves = st.one_of(
    _moves(_claims(), _volumes(), _others(), _pods(), _nodes()),
    _moves(_open(), _others()),
    _moves(_shared(), _bound()),
)

# The start of most cases, so that the moves find objects to change.
START = [
    move
    for move in _versions(
        [
            *(node(f"n{n}", labels={HOST: f"n{n}", ZONE: "xyx"[n]}) for n in range(3)),
            claim("c0", storage_class="s"),
            claim("c1", to="v1"),
            claim("c2", to="v2"),
            volume("v1", owner="c1", handle="h1"),
            volume("v2", owner="c2", zones=["x"], gcePersistentDisk={"pdName": "d"}),
            storage_class(),
            csi_node("n0", {DRIVER: 1}),
            csi_node("n1", {DRIVER: 2}, annotations=MIGRATED),
        ]
    )
    if move.obj is not None
]

PROBES = [
    read_pod(raw)
    for raw in (
        using("c0", name="p0"),
        using("c0", "c1", name="p1"),
        using("c2", "c0", "c2", name="p2", volumes=[GCE]),
        using("c1", name="p3", volumes=[READ, OTHER_RBD]),
        using(name="p4", volumes=[RBD]),
        using(name="p0", ephemeral=["x"]),
    )
]


def do(scene: Scene, move: Move) -> None:
    """Carry a move out."""
    cluster, obj = scene.cluster, move.obj
    if move.kind == "Node":
        change = cluster.put_node(obj) if obj is not None else cluster.drop_node(move.key)
    elif move.kind == "Pod":
        change = cluster.put_pod(obj) if obj is not None else cluster.drop_pod(f"Pod/{move.key}")
    elif obj is not None:
        change = cluster.put_object(move.kind, obj)
    else:
        old = cluster.store.of(move.kind).get(move.key)
        if old is None:
            return
        change = cluster.drop_object(move.kind, old)
    scene.follow(change)


def scene_of(plugin: type[Plugin[Any]], *lists: Iterable[Move]) -> Scene:
    """Return a scene after applying these changes."""
    scene = Scene(plugin)
    for several in lists:
        for move in several:
            do(scene, move)
    return scene


def pods_on(scene: Scene, name: str) -> list[Pod]:
    """Return the pods on a node."""
    return [placed.pod for placed in scene.cluster.pods.on(name).values()]
