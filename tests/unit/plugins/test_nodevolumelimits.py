"""NodeVolumeLimits: how many volumes of a CSI driver a node takes."""

import pytest

from scheduler.base.errors import PluginError
from scheduler.framework.status import SKIP, Code
from scheduler.objects.plain import read_object, read_pod
from scheduler.plugins.volumes import NodeVolumeLimits
from scheduler.plugins.volumes.limits import REASON
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate, node
from scheduler.testing.scene import Scene
from tests.unit.plugins.storage import (
    DRIVER,
    attachment,
    claim,
    csi_node,
    storage_class,
    using,
    volume,
)

NODES = [node("one"), node("two"), node("any"), node("bare")]
LIMITS = [
    csi_node("one", {DRIVER: 1}),
    csi_node("two", {DRIVER: 2}),
    csi_node("any", {DRIVER: None}),
]
BOUND = [
    each
    for name in ("a", "b", "c")
    for each in (claim(name, to=f"v{name}"), volume(f"v{name}", handle=f"h{name}", owner=name))
]
GCE = {"gcePersistentDisk": {"pdName": "d"}}


def full(*, pod, existing=(), more=()):
    """Return the nodes that have too many volumes for the pod."""
    got = evaluate(
        NodeVolumeLimits,
        nodes=NODES,
        objects=[*LIMITS, *BOUND, *more],
        existing_pods=existing,
        pod=pod,
    )
    rejected = {name: status for name, status in got.filter.items() if not status.is_success}
    assert {(Code.UNSCHEDULABLE, (REASON,))} >= {(s.code, s.reasons) for s in rejected.values()}
    return set(rejected)


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(
        NodeVolumeLimits,
        pods=[
            using("a"),
            using("a", "b", name="two"),
            using("nope", name="waiting"),
            using("open", name="late"),
            using(name="disk", volumes=[GCE]),
        ],
        existing_pods=[
            using("b", name="f0", node_name="plain"),
            using("c", name="f1", node_name="busy"),
            using("open", name="f2", node_name="tiny"),
        ],
        objects=[
            *BOUND,
            claim("open", storage_class="s"),
            storage_class(),
            csi_node("plain", {DRIVER: 1}),
            csi_node("busy", {DRIVER: 2}),
            csi_node("tiny", {DRIVER: 1, "pd.csi.storage.gke.io": 0}),
            attachment("x", "busy", "va"),
        ],
    )


def test_volumes_of_the_pod_add_up():
    """Two volumes do not fit with a limit of one; a node without a limit takes any number."""
    assert set() == full(pod=using("a"))
    assert {"one"} == full(pod=using("a", "b"))
    assert {"one", "two"} == full(pod=using("a", "b", "c"))


def test_a_volume_counts_once_on_a_node():
    """Pods that share a volume, and a volume that the pod names twice, cost one place."""
    both = [using("a", name=name, node_name="one") for name in ("x", "y")]

    assert set() == full(pod=using("a"), existing=both)
    assert {"one"} == full(pod=using("b"), existing=both)
    assert set() == full(pod=using("a", "a"))


def test_attachments_count_where_no_pod_uses_the_volume():
    """A detaching volume still takes a place; one that pods use is not counted twice."""
    on_one = [attachment("x", "one", "va")]
    using_it = [using("a", name="x", node_name="one")]

    assert {"one"} == full(pod=using("b"), more=on_one)
    assert set() == full(pod=using("a"), existing=using_it, more=on_one)
    # kube-scheduler counts a volume that is attached and used by no pod once more for the pod.
    assert {"one"} == full(pod=using("a"), more=on_one)
    assert set() == full(pod=using("b"), more=[attachment("x", "one", "gone")])


def test_unbound_and_ephemeral_claims_count_by_their_class():
    """A volume that is still to be made takes a place of the driver that will make it."""
    more = [
        storage_class(),
        claim("open", storage_class="s"),
        claim("p-scratch", storage_class="s", owner="p"),
        claim("lost", storage_class="nope"),
    ]

    assert {"one"} == full(pod=using("a", "open"), more=more)
    assert {"one"} == full(pod=using("a", ephemeral=["scratch"]), more=more)
    assert set() == full(pod=using("a", "lost"), more=more)
    assert {"one"} == full(
        pod=using("a"), existing=[using("open", name="x", node_name="one")], more=more
    )


def test_in_tree_disks_count_as_their_driver_does():
    """Inline or as a volume, one GCE disk is one volume of the driver that replaced the plugin."""
    gke = "pd.csi.storage.gke.io"
    more = [
        csi_node("bare", {gke: 1}),
        claim("old", to="vold"),
        volume("vold", owner="old", gcePersistentDisk={"pdName": "d"}),
        storage_class("pd", provisioner="kubernetes.io/gce-pd"),
        claim("new", storage_class="pd"),
    ]

    assert {"bare"} == full(pod=using("old", "new"), more=more)
    assert set() == full(pod=using("old", volumes=[GCE]), more=more)
    assert {"bare"} == full(
        pod=using("new"), existing=[using(name="x", node_name="bare", volumes=[GCE])], more=more
    )


def test_a_volume_that_no_driver_serves_does_not_count():
    """Volumes without a driver, such as host paths, take no place."""
    more = [claim("h", to="vh"), volume("vh", owner="h", hostPath={"path": "/x"})]

    assert set() == full(pod=using("a", "h"), more=more)


def test_a_missing_claim_rejects_every_node_for_good():
    """The text names namespace and claim."""
    got = evaluate(NodeVolumeLimits, nodes=NODES, pod=using("nope"))
    text = 'looking up PVC default/nope: persistentvolumeclaim "nope" not found'

    assert Code.SUCCESS == got.pre_filter.code
    assert {(Code.UNRESOLVABLE, (text,))} == {(s.code, s.reasons) for s in got.filter.values()}


def test_a_foreign_ephemeral_claim_is_an_error():
    """A claim of that name with another owner is never used."""
    with pytest.raises(PluginError, match="was not created for pod default/p"):
        evaluate(
            NodeVolumeLimits,
            nodes=NODES,
            objects=[claim("p-x", storage_class="s")],
            pod=using(ephemeral=["x"]),
        )


def test_a_pod_without_volumes_of_drivers_is_skipped():
    """An empty directory is no volume of a driver."""
    for pod in (using(), using(volumes=[{"emptyDir": {}}])):
        assert SKIP == evaluate(NodeVolumeLimits, nodes=NODES, pod=pod).pre_filter


def hints(kind, verb, new=None, old=None):
    """Return whether a change of an object wakes a pod that uses claim a."""
    scene = Scene(NodeVolumeLimits)
    scene.fill(objects=BOUND)
    read = [read_object(raw)[1] if raw else None for raw in (old, new)]
    return scene.plugin.hint(Change(kind, verb, old=read[0], new=read[1]), read_pod(using("a")))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({DRIVER: 1}, {DRIVER: 2}, True),
        ({DRIVER: 2}, {DRIVER: 1}, False),
        ({DRIVER: 1}, {DRIVER: None}, True),
        ({DRIVER: 1}, {}, True),
        ({DRIVER: 1, "other": 1}, {DRIVER: 1, "other": 9}, False),
        (None, {DRIVER: 0}, True),
        ({DRIVER: 1}, None, True),
    ],
)
def test_which_limits_wake_a_pod(old, new, expected):
    """A limit of one of its drivers that grew, was lifted, or was unknown."""
    before = csi_node("n", old) if old is not None else None
    after = csi_node("n", new) if new is not None else None
    verb = "add" if old is None else "delete" if new is None else "update"

    assert expected is hints("CSINode", verb, after, before)


def test_what_else_wakes_a_pod():
    """Attachments of its drivers that end, and changes of the objects that its claims refer to."""
    assert hints("VolumeAttachment", "delete", old=attachment("x", "n", "vb"))
    assert not hints("VolumeAttachment", "delete", old=attachment("x", "n", "vb", "other"))
    assert not hints("VolumeAttachment", "add", attachment("x", "n", "vb"))
    assert hints("PersistentVolumeClaim", "add", claim("a"))
    assert hints("PersistentVolumeClaim", "update", claim("a", to="va"), claim("a"))
    assert not hints("PersistentVolumeClaim", "update", claim("a", to="va"), claim("a", to="va"))
    assert not hints("PersistentVolumeClaim", "add", claim("b"))
    assert hints("PersistentVolume", "add", volume("va"))
    assert not hints("PersistentVolume", "add", volume("vb"))
