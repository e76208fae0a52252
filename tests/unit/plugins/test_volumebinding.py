"""VolumeBinding: which nodes the volumes of a pod can be reached from, bound or made."""

from typing import Any

import pytest

from scheduler.base.errors import PluginError
from scheduler.framework.running.answers import States
from scheduler.framework.status import SKIP, Code
from scheduler.objects.plain import read_object, read_pod
from scheduler.plugins.allocation import UtilizationShapePoint
from scheduler.plugins.volumes import VolumeBinding
from scheduler.plugins.volumes.binding import (
    REASON_AFFINITY,
    REASON_CRAMPED,
    REASON_GONE,
    REASON_IMMEDIATE,
    REASON_UNMATCHED,
    VolumeBindingArgs,
)
from scheduler.plugins.volumes.catalog import VolumeCatalog
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate, node
from scheduler.testing.scene import Scene
from tests.unit.plugins.storage import (
    DRIVER,
    HOST,
    ZONE,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    using,
    volume,
)

NODES = [node(name, labels={HOST: name, ZONE: zone}) for name, zone in (("a", "x"), ("b", "y"))]
BOTH = {"a", "b"}
STATIC = storage_class(provisioner="kubernetes.io/no-provisioner")
OPEN = claim(storage_class="s")


def fitting(*objects, pod=None, reason=""):
    """Return the nodes that fit; the others must all have `reason`, for good."""
    got = evaluate(VolumeBinding, nodes=NODES, objects=objects, pod=pod or using("c"))
    assert got.pre_filter.is_success, got.pre_filter
    rejected = [status for status in got.filter.values() if not status.is_success]
    assert {(Code.UNRESOLVABLE, (reason,))} >= {(s.code, s.reasons) for s in rejected}
    return {name for name, status in got.filter.items() if status.is_success}


def test_it_keeps_the_invariants():
    """The invariants of all plugins hold."""
    check_plugin(
        VolumeBinding,
        nodes=[node("h", labels={HOST: "h", ZONE: "a"})],
        pods=[
            using("bound"),
            using("lost", name="lost"),
            using("open", name="open"),
            using("made", name="made"),
            using("open", "made", name="both"),
            using("sent", name="sent"),
            using("nope", name="waiting"),
        ],
        objects=[
            claim("bound", to="w"),
            volume("w", zones=["a"], owner="bound"),
            claim("lost", to="gone"),
            claim("open", storage_class="static"),
            storage_class("static", provisioner="kubernetes.io/no-provisioner"),
            volume("local", storage_class="static", hosts=["plain", "h"]),
            volume("set", storage_class="static", zones=["b"], owner="other"),
            claim("made", storage_class="s"),
            claim(
                "sent",
                storage_class="s",
                annotations={"volume.kubernetes.io/selected-node": "roomy"},
            ),
            storage_class(zones=["a"]),
        ],
    )


def test_a_pod_without_claims_is_skipped():
    """Volumes that are no claims do not concern the plugin: it returns Skip."""
    got = evaluate(VolumeBinding, nodes=NODES, pod=using(volumes=[{"emptyDir": {}}]))

    assert SKIP == got.pre_filter


@pytest.mark.parametrize(
    ("objects", "pod", "reason"),
    [
        ([], using("c"), 'persistentvolumeclaim "c" not found'),
        ([claim(deleting=True)], using("c"), 'persistentvolumeclaim "c" is being deleted'),
        (
            [claim(volumeName="v", phase="Lost")],
            using("c"),
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        ([claim()], using("c"), REASON_IMMEDIATE),
        ([OPEN, storage_class(mode="Immediate")], using("c"), REASON_IMMEDIATE),
        ([OPEN], using("c"), REASON_IMMEDIATE),
        ([claim(storage_class="s", volumeName="v"), storage_class()], using("c"), REASON_IMMEDIATE),
        (
            [],
            using(ephemeral=["x"]),
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-x"',
        ),
        (
            [claim("p-x")],
            using(ephemeral=["x"]),
            "PVC default/p-x was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_what_keeps_a_pod_from_every_node(objects, pod, reason):
    """Claims that no node can satisfy reject the pod for good."""
    got = evaluate(VolumeBinding, nodes=NODES, objects=objects, pod=pod)

    assert (Code.UNRESOLVABLE, (reason,)) == (got.pre_filter.code, got.pre_filter.reasons)


def test_a_class_without_a_mode_is_an_error():
    """The API server sets the mode; without it the binding is undefined."""
    with pytest.raises(PluginError, match='VolumeBindingMode not set for StorageClass "s"'):
        evaluate(
            VolumeBinding, nodes=NODES, objects=[OPEN, storage_class(mode=None)], pod=using("c")
        )


def test_bound_volumes_are_reached_from_their_nodes():
    """A bound volume is reachable from the nodes of its affinity, without one from all nodes; a
    missing volume from none.
    """
    bound = claim(to="v")

    assert BOTH == fitting(bound, volume())
    assert {"a"} == fitting(bound, volume(zones=["x"]), reason=REASON_AFFINITY)
    assert {"b"} == fitting(bound, volume(hosts=["b", "z"]), reason=REASON_AFFINITY)
    assert set() == fitting(bound, reason=REASON_GONE)
    assert set() == fitting(
        bound, volume(nodeAffinity={"required": {"nodeSelectorTerms": []}}), reason=REASON_AFFINITY
    )


def test_the_first_bound_claim_that_fails_gives_the_reason():
    """A missing volume hides the reasons of later claims, and an earlier claim precedes it."""
    got = evaluate(
        VolumeBinding,
        nodes=NODES,
        objects=[claim("c", to="v"), volume(zones=["x"]), claim("d", to="gone")],
        pod=using("c", "d"),
    )

    assert {"a": (REASON_GONE,), "b": (REASON_AFFINITY,)} == {
        name: status.reasons for name, status in got.filter.items()
    }


def test_a_migrated_volume_is_reached_by_the_labels_of_its_driver():
    """If the node's CSINode lists the in-tree plugin as migrated, the driver's zone label
    applies.
    """
    nodes = [
        node("old", labels={ZONE: "x"}),
        node("new", labels={ZONE: "other", "topology.gke.io/zone": "x"}),
        node("far", labels={ZONE: "x", "topology.gke.io/zone": "y"}),
    ]
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}
    got = evaluate(
        VolumeBinding,
        nodes=nodes,
        objects=[
            claim(to="v"),
            volume(zones=["x"], gcePersistentDisk={"pdName": "d"}),
            csi_node("new", annotations=migrated),
            csi_node("far", annotations=migrated),
        ],
        pod=using("c"),
    )

    assert {"old", "new"} == {name for name, status in got.filter.items() if status.is_success}


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({}, BOTH),
        ({"zones": ["x"]}, {"a"}),
        ({"size": "1Mi"}, set()),
        ({"size": "2Gi"}, BOTH),
        ({"storage_class": "other"}, set()),
        ({"modes": ["ReadOnlyMany"]}, set()),
        ({"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, BOTH),
        ({"phase": "Released"}, set()),
        ({"volumeMode": "Block"}, set()),
        ({"volumeAttributesClassName": "gold"}, set()),
        ({"owner": "other"}, set()),
        ({"owner": "c", "owner_uid": ""}, BOTH),
        ({"owner": "c", "owner_uid": "", "zones": ["y"]}, {"b"}),
        ({"owner": "c", "owner_uid": "another claim of that name"}, set()),
        ({"owner": "c", "phase": "Bound", "modes": ["ReadOnlyMany"]}, BOTH),
    ],
)
def test_which_volumes_suit_a_claim(fields, fits):
    """A volume matches by class, mode, access modes, size and phase; a volume whose claimRef names
    the claim is used.
    """
    found = volume(**({"storage_class": "s"} | fields))

    assert fits == fitting(OPEN, STATIC, found, reason=REASON_UNMATCHED)


def test_a_claim_may_select_volumes_by_label():
    """A volume with other labels does not match."""
    picky = claim(storage_class="s", selector={"matchLabels": {"disk": "fast"}})
    fast = volume("v", storage_class="s", labels={"disk": "fast"})

    assert BOTH == fitting(picky, STATIC, fast)
    assert set() == fitting(picky, STATIC, volume(storage_class="s"), reason=REASON_UNMATCHED)


def test_a_volume_set_aside_out_of_reach_leaves_no_other():
    """If a volume with a claimRef to the claim is unreachable from a node, no other free volume is
    used there. A class with a provisioner may still create one.
    """
    mine = volume("mine", storage_class="s", owner="c", owner_uid="", zones=["y"])
    free = volume("free", storage_class="s")

    assert {"b"} == fitting(OPEN, STATIC, mine, free, reason=REASON_UNMATCHED)
    assert BOTH == fitting(OPEN, storage_class(), mine, free)


def test_claims_of_one_pod_need_a_volume_each():
    """Two claims need two volumes: both nodes reach one volume, only node a reaches the other."""
    objects = [
        claim("c", storage_class="s"),
        claim("d", storage_class="s"),
        STATIC,
        volume("v", storage_class="s"),
        volume("w", storage_class="s", zones=["x"]),
    ]

    assert {"a"} == fitting(*objects, pod=using("c", "d"), reason=REASON_UNMATCHED)
    assert BOTH == fitting(*objects, pod=using("c", "c"))


def test_volumes_are_made_where_the_class_allows():
    """Without a free volume, nodes in the allowed topologies of a class with a provisioner fit."""
    assert BOTH == fitting(OPEN, storage_class())
    assert {"b"} == fitting(OPEN, storage_class(zones=["y", "z"]), reason=REASON_UNMATCHED)
    assert set() == fitting(OPEN, STATIC, reason=REASON_UNMATCHED)
    assert set() == fitting(OPEN, storage_class(provisioner=""), reason=REASON_UNMATCHED)


def test_a_claim_that_was_sent_to_a_node_fits_that_node_only():
    """A claim with the annotation selected-node fits that node only; free volumes are ignored."""
    sent = claim(storage_class="s", annotations={"volume.kubernetes.io/selected-node": "b"})

    assert {"b"} == fitting(sent, storage_class(), reason=REASON_UNMATCHED)
    assert set() == fitting(sent, STATIC, volume(storage_class="s"), reason=REASON_UNMATCHED)


@pytest.mark.parametrize(
    ("objects", "fits"),
    [
        ([capacity("k", zone="x", size="1Gi")], {"a"}),
        ([capacity("k", zone="x", size="9Gi", most="1Mi")], set()),
        ([capacity("k", zone="x", size="1Mi", most="1Gi")], {"a"}),
        ([capacity("k", zone="x", size="1Mi"), capacity("l", zone="x", size="2Gi")], {"a"}),
        ([capacity("k", zone="x", size="9Gi", storage_class="other")], set()),
        ([capacity("k", zone="x")], set()),
        ([{**capacity("k", zone="x", size="9Gi"), "nodeTopology": None}], set()),
        ([{**capacity("k", zone="x", size="9Gi"), "nodeTopology": {}}], BOTH),
        ([], set()),
    ],
)
def test_capacity_for_new_volumes_counts_where_the_driver_publishes_it(objects, fits):
    """If the driver publishes storage capacity, a node needs a CSIStorageCapacity of the class that
    covers it and is large enough.
    """
    assert fits == fitting(OPEN, storage_class(), csi_driver(), *objects, reason=REASON_CRAMPED)
    plain = csi_driver(storage_capacity=False)
    assert BOTH == fitting(OPEN, storage_class(), plain, *objects)


def test_a_node_may_have_two_reasons():
    """Bound and unbound claims are checked one after the other."""
    got = evaluate(
        VolumeBinding,
        nodes=NODES,
        objects=[claim("c", to="v"), volume(zones=["x"]), claim("d", storage_class="s"), STATIC],
        pod=using("c", "d"),
    )

    assert {"a": (REASON_UNMATCHED,), "b": (REASON_AFFINITY, REASON_UNMATCHED)} == {
        name: status.reasons for name, status in got.filter.items()
    }


class Desk:
    """A scene that runs the plugin for pods up to reserve."""

    def __init__(self, *objects):
        self.scene = Scene(VolumeBinding)
        self.scene.fill(NODES, objects=objects)
        self.catalog = self.scene.handle.tracker(VolumeCatalog)

    def reserve(self, raw, node_name):
        """Reserve for a pod; return the status and its rollback."""
        cycle, states = self.scene.cycle(read_pod(raw)), States()
        assert self.scene.runner.pre_filter(cycle, self.scene.nodes(), states).status.is_success
        status = self.scene.runner.reserve(cycle, node_name, states)
        return status, lambda: self.scene.runner.unreserve(cycle, node_name, states)

    def owner(self, name):
        """Return the claim of a volume in the catalog."""
        found: Any = self.catalog.volume(name)
        return found.spec.claim_ref.name if found.spec.claim_ref is not None else ""

    def fitting(self, raw):
        """Return the nodes that fit a pod now."""
        cycle, nodes, states = self.scene.cycle(read_pod(raw)), self.scene.nodes(), States()
        assert self.scene.runner.pre_filter(cycle, nodes, states).status.is_success
        mask, _ = self.scene.runner.filter(cycle, nodes, states, nodes.exists)
        return {nodes.name(row) for row in mask.nonzero()[0].tolist()}


def test_the_smallest_volume_is_assumed_and_given_back():
    """After reserve the next claim has one volume less, after unreserve all again."""
    desk = Desk(
        claim("c", storage_class="s"),
        claim("d", storage_class="s"),
        STATIC,
        volume("large", storage_class="s", size="9Gi", zones=["y"]),
        volume("small", storage_class="s", size="2Gi"),
    )
    status, undo = desk.reserve(using("c"), "b")

    assert status.is_success
    assert "c" == desk.owner("small")
    assert {"b"} == desk.fitting(using("d", name="q"))
    assert BOTH == desk.fitting(using("c", name="other user"))
    undo()
    assert BOTH == desk.fitting(using("d", name="q"))
    assert "" == desk.owner("small")


def test_a_claim_whose_volume_is_to_be_made_is_sent_to_the_node():
    """After the claim is sent to a node for provisioning, another pod with the same claim fits that
    node only.
    """
    desk = Desk(OPEN, storage_class())
    _, undo = desk.reserve(using("c"), "b")

    assert {"b"} == desk.fitting(using("c", name="q"))
    undo()
    assert BOTH == desk.fitting(using("c", name="q"))


def test_an_assumption_ends_with_the_next_version():
    """An assumed claim is replaced by a newer version from the API server, not by the same version
    sent again.
    """
    desk = Desk(OPEN, STATIC, volume(storage_class="s"))
    desk.reserve(using("c"), "a")
    cluster, follow = desk.scene.cluster, desk.scene.follow
    shown = read_object(volume(storage_class="s"))[1]
    follow(cluster.put_object("PersistentVolume", shown))
    assert "c" == desk.owner("v")

    follow(
        cluster.put_object(
            "PersistentVolume", read_object(volume(storage_class="s", size="3Gi"))[1]
        )
    )
    assert "" == desk.owner("v")


def test_a_node_that_no_longer_fits_is_refused_at_reserve():
    """If another pod took the volume between filter and reserve, reserve rejects the node."""
    desk = Desk(OPEN, STATIC, volume(storage_class="s", zones=["x"]))
    status, _ = desk.reserve(using("c"), "b")

    assert (Code.UNRESOLVABLE, (REASON_UNMATCHED,)) == (status.code, status.reasons)


@pytest.mark.parametrize(
    ("args", "faults"),
    [
        (VolumeBindingArgs(), []),
        (VolumeBindingArgs(bind_timeout_seconds=0), []),
        (
            VolumeBindingArgs(bind_timeout_seconds=-1),
            [
                (
                    "bindTimeoutSeconds",
                    "Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
                )
            ],
        ),
        (VolumeBindingArgs(shape=()), []),
        (
            VolumeBindingArgs(shape=(UtilizationShapePoint(10, 11), UtilizationShapePoint(10, 0))),
            [
                (
                    "shape[1].utilization",
                    "Invalid value: 10: values must be sorted in increasing order",
                ),
                ("shape[0].score", "Invalid value: 11: not in valid range [0, 10]"),
            ],
        ),
    ],
)
def test_arguments(args, faults):
    """The messages are those of kube-scheduler."""
    assert faults == list(args.validate())


def helps(kind, verb, new=None, old=None):
    """Return whether a change wakes a pod with an open claim of class s and one bound to v."""
    scene = Scene(VolumeBinding)
    scene.fill(objects=[OPEN, claim("d", to="v"), storage_class()])
    read = [read_object(raw)[1] if raw else None for raw in (old, new)]
    change = Change(kind, verb, old=read[0], new=read[1])
    return scene.plugin.hint(change, read_pod(using("c", "d")))


@pytest.mark.parametrize(
    ("kind", "verb", "new", "old", "expected"),
    [
        ("PersistentVolumeClaim", "add", claim("c"), None, True),
        ("PersistentVolumeClaim", "update", claim("d", to="v"), claim("d"), True),
        ("PersistentVolumeClaim", "add", claim("e"), None, False),
        ("PersistentVolumeClaim", "delete", None, claim("c"), False),
        ("PersistentVolume", "add", volume("w", storage_class="s"), None, True),
        ("PersistentVolume", "add", volume("w", storage_class="t"), None, False),
        ("PersistentVolume", "update", volume("v"), volume("v", zones=["x"]), True),
        ("PersistentVolume", "update", volume("w"), volume("w", owner="c"), True),
        ("PersistentVolume", "delete", None, volume("w", owner="c"), True),
        ("PersistentVolume", "delete", None, volume("w", storage_class="s"), False),
        ("StorageClass", "add", storage_class(), None, True),
        ("StorageClass", "add", storage_class("t"), None, False),
        ("StorageClass", "update", storage_class(zones=["x"]), storage_class(), True),
        ("StorageClass", "update", storage_class(), storage_class(), False),
        ("CSINode", "add", csi_node("n"), None, True),
        ("CSINode", "update", csi_node("n", {DRIVER: 9}), csi_node("n"), False),
        (
            "CSINode",
            "update",
            csi_node("n", annotations={"storage.alpha.kubernetes.io/migrated-plugins": "x"}),
            csi_node("n"),
            True,
        ),
        ("CSIDriver", "update", csi_driver(storage_capacity=False), csi_driver(), True),
        ("CSIDriver", "update", csi_driver(), csi_driver(), False),
        ("CSIDriver", "delete", None, csi_driver(), True),
        ("CSIDriver", "delete", None, csi_driver("other"), False),
        ("CSIStorageCapacity", "add", capacity("k", zone="x", size="1Gi"), None, True),
        (
            "CSIStorageCapacity",
            "update",
            capacity("k", zone="x", size="2Gi"),
            capacity("k", zone="x", size="1Gi"),
            True,
        ),
        (
            "CSIStorageCapacity",
            "update",
            capacity("k", zone="x", size="1Gi"),
            capacity("k", zone="x", size="2Gi"),
            False,
        ),
        (
            "CSIStorageCapacity",
            "add",
            capacity("k", zone="x", size="1Gi", storage_class="t"),
            None,
            False,
        ),
    ],
)
def test_which_changes_wake_a_pod(kind, verb, new, old, expected):
    """A pod is woken by changes of its claims, their classes and volumes that can make a node fit,
    and by no others.
    """
    assert expected is helps(kind, verb, new, old)


def test_it_scores_nothing():
    """VolumeBinding does not score nodes, because the feature gate for scoring is off."""
    got = evaluate(VolumeBinding, nodes=NODES, objects=[claim(to="v"), volume()], pod=using("c"))

    assert (SKIP, {}) == (got.pre_score, got.normalized)
