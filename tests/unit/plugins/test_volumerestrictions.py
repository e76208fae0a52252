"""VolumeRestrictions: disks that one node mounts once, and claims for one pod alone."""

import pytest

from scheduler.framework.status import SKIP, Code
from scheduler.objects.plain import read_object, read_pod
from scheduler.plugins.volumes import VolumeRestrictions
from scheduler.plugins.volumes.restrictions import REASON_CLAIM, REASON_DISK
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate, node
from scheduler.testing.scene import Scene
from tests.unit.plugins.storage import claim, using

NODES = [node("a"), node("b")]
ONCE = ("ReadWriteOncePod",)


def gce(name, *, read_only=False):
    """Return a GCE disk as a volume."""
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name, *, read_only=False):
    """Return an EBS disk as a volume."""
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn, *, read_only=False):
    """Return an iSCSI disk as a volume."""
    return {"iscsi": {"iqn": iqn, "targetPortal": "10.0.0.1", "readOnly": read_only}}


def rbd(*monitors, image="i", pool="p", read_only=False):
    """Return an RBD image as a volume."""
    where = {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}
    return {"rbd": where}


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(
        VolumeRestrictions,
        pods=[
            using("c"),
            using("once", name="single"),
            using("nope", name="waiting"),
            using(name="disk", volumes=[gce("d")]),
            using(name="reader", volumes=[gce("d", read_only=True)]),
        ],
        existing_pods=[
            using("once", name="f0", node_name="plain"),
            using(name="f1", node_name="busy", volumes=[gce("d"), rbd("m")]),
            using(name="f2", node_name="tiny", volumes=[gce("d", read_only=True)]),
        ],
        objects=[claim("c"), claim("once", modes=ONCE)],
    )


@pytest.mark.parametrize(
    ("existing", "wanted", "conflict"),
    [
        (gce("d"), gce("d"), True),
        (gce("d"), gce("d", read_only=True), True),
        (gce("d", read_only=True), gce("d"), True),
        (gce("d", read_only=True), gce("d", read_only=True), False),
        (gce("d"), gce("e"), False),
        (gce("d"), ebs("d"), False),
        (ebs("d", read_only=True), ebs("d", read_only=True), True),
        (iscsi("q"), iscsi("q"), True),
        (iscsi("q", read_only=True), iscsi("q", read_only=True), False),
        (rbd("m", "n"), rbd("n", "o"), True),
        (rbd("m"), rbd("o"), False),
        (rbd("m"), rbd("m", image="j"), False),
        (rbd("m"), rbd("m", pool="q"), False),
        (rbd("m", read_only=True), rbd("m", read_only=True), False),
    ],
)
def test_which_disks_conflict(existing, wanted, conflict):
    """The same disk twice on a node, unless both only read it; EBS not even then."""
    got = evaluate(
        VolumeRestrictions,
        nodes=NODES,
        existing_pods=[using(name="e", node_name="a", volumes=[existing])],
        pod=using(volumes=[wanted]),
    )

    expected = (Code.UNSCHEDULABLE, (REASON_DISK,)) if conflict else (Code.SUCCESS, ())
    assert expected == (got.filter["a"].code, got.filter["a"].reasons)
    assert Code.SUCCESS == got.filter["b"].code


def test_a_claim_for_one_pod_alone_is_taken_everywhere():
    """While a pod on any node uses it, no node fits.

    A pod on a missing node does not count.
    """

    def ask(node_name):
        return evaluate(
            VolumeRestrictions,
            nodes=NODES,
            objects=[claim(modes=ONCE)],
            existing_pods=[using("c", name="e", node_name=node_name)],
            pod=using("c"),
        )

    taken = ask("b")
    assert {"a": (REASON_CLAIM,), "b": (REASON_CLAIM,)} == {
        name: status.reasons for name, status in taken.filter.items()
    }
    assert Code.UNSCHEDULABLE == taken.filter["a"].code
    assert SKIP == ask("gone").pre_filter


def test_a_disk_is_named_before_a_claim():
    """A node with both conflicts has the reason of the disk alone."""
    got = evaluate(
        VolumeRestrictions,
        nodes=NODES,
        objects=[claim(modes=ONCE)],
        existing_pods=[using("c", name="e", node_name="a", volumes=[gce("d")])],
        pod=using("c", volumes=[gce("d")]),
    )

    assert ((REASON_DISK,), (REASON_CLAIM,)) == (got.filter["a"].reasons, got.filter["b"].reasons)


def test_the_namespace_belongs_to_the_claim():
    """A claim of the same name in another namespace is another claim."""
    other = using("c", name="e", node_name="a", namespace="other")
    got = evaluate(
        VolumeRestrictions,
        nodes=NODES,
        objects=[claim(modes=ONCE)],
        existing_pods=[other],
        pod=using("c"),
    )

    assert SKIP == got.pre_filter


def hinted(change, wanted):
    """Return the plugin's hint about a change for a waiting pod."""
    scene = Scene(VolumeRestrictions)
    return scene.plugin.hint(change, read_pod(wanted))


def gone(raw):
    """Return the change that deletes a pod."""
    return Change("Pod", "delete", old=read_pod(raw))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (using("c", name="e"), True),
        (using("d", name="e"), False),
        (using("c", name="e", namespace="other"), False),
        (using(name="e", volumes=[gce("x")]), True),
        (using(name="e", namespace="other", volumes=[gce("x")]), True),
        (using(name="e", volumes=[gce("y")]), False),
    ],
)
def test_which_pods_wake_a_waiting_one(other, expected):
    """A deleted pod wakes it when it used the same claim or disk, wherever it was."""
    assert expected is hinted(gone(other), using("c", volumes=[gce("x")]))


def test_a_claim_wakes_its_pods_when_it_appears():
    """The claim's access modes were unknown before; a later change of it has no effect."""
    new = read_object(claim())[1]

    assert hinted(Change("PersistentVolumeClaim", "add", new=new), using("c"))
    assert not hinted(Change("PersistentVolumeClaim", "add", new=new), using("d"))
    assert not hinted(Change("PersistentVolumeClaim", "update", old=new, new=new), using("c"))
