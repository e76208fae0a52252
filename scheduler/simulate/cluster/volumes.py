"""The volume controller and provisioners of a simulation.

A scheduler only requests: it writes a claim into a volume, or a node onto a claim, and waits. This
module simulates the controllers of a cluster with working storage: it binds the claim to the
volume, or provisions a volume that the node can use. Called by `Rest` after each write.
"""

from typing import Any

from msgspec.structs import replace

from scheduler.engine.effects import Watched
from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.objects.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    CSISource,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    StorageClass,
    VolumeNodeAffinity,
    with_annotation,
)
from scheduler.state.cluster import Cluster

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
BOUND = PhaseStatus("Bound")


class VolumeController:
    """Bind claims and provision volumes; reads the cluster, returns changes as events."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def overdue(self) -> list[Watched]:
        """Return the consequences of writes before the simulation began."""
        events: list[Watched] = []
        for volume in self._cluster.store.of(VOLUME).values():
            events += self._after_volume(volume)
        served = {event.object.key for event in events if event.kind == CLAIM}
        for claim in self._cluster.store.of(CLAIM).values():
            if claim.key not in served:
                events += self._after_claim(claim)
        return events

    def misdirected(self) -> list[Watched]:
        """Return the claims whose selected node does not exist, without it."""
        found = []
        for claim in self._cluster.store.of(CLAIM).values():
            node = claim.metadata.annotations.get(SELECTED_NODE, "")
            if node and not claim.spec.volume_name and node not in self._cluster.table.rows:
                found.append(Watched(CLAIM, "MODIFIED", _rescheduled(claim)))
        return found

    def after(self, kind: str, obj: Any) -> list[Watched]:
        """Return the consequences of a write of `obj`."""
        if kind == VOLUME:
            return self._after_volume(obj)
        if kind == CLAIM:
            return self._after_claim(obj)
        return []

    def _after_volume(self, volume: PersistentVolume) -> list[Watched]:
        wanted = volume.spec.claim_ref
        if wanted is None or volume.status.phase == BOUND.phase:
            return []
        claim = self._cluster.store.of(CLAIM).get(f"{wanted.namespace}/{wanted.name}")
        if claim is None or (wanted.uid and wanted.uid != claim.metadata.uid):
            return []
        return _bound(claim, volume)

    def _after_claim(self, claim: PersistentVolumeClaim) -> list[Watched]:
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        if claim.spec.volume_name or not node:
            return []
        found = self._cluster.store.of(CLASS).get(claim.spec.storage_class_name or "")
        if found is None or found.provisioner == NO_PROVISIONER:
            return []
        volume = self._provisioned(claim, found, node)
        return [Watched(VOLUME, "ADDED", volume), *_bound(claim, volume)]

    def _provisioned(
        self, claim: PersistentVolumeClaim, of: StorageClass, node: str
    ) -> PersistentVolume:
        """Return the volume that the class's provisioner creates for a pod on `node`."""
        meta, spec = claim.metadata, claim.spec
        name = f"pvc-{meta.uid or claim.key.replace('/', '-')}"
        return PersistentVolume(
            metadata=AnnotatedMeta(name=name),
            spec=PersistentVolumeSpec(
                capacity={STORAGE: spec.resources.requests.get(STORAGE, 0)},
                access_modes=spec.access_modes,
                storage_class_name=of.metadata.name,
                volume_mode=spec.volume_mode,
                claim_ref=ObjectReference(CLAIM, meta.namespace, meta.name, meta.uid),
                node_affinity=self._reach(of, node),
                csi=CSISource(of.provisioner, name),
            ),
        )

    def _reach(self, of: StorageClass, node: str) -> VolumeNodeAffinity | None:
        """Return the nodes that can use such a volume: the node's own topology among those
        allowed.
        """
        keys = {one.key for term in of.allowed_topologies for one in term.match_label_expressions}
        row = self._cluster.table.rows.get(node)
        there = self._cluster.table.nodes[row] if row is not None else None
        if not keys or there is None:
            return None
        labels = there.metadata.labels
        expressions = tuple(
            NodeSelectorRequirement(key, "In", (labels[key],))
            for key in sorted(keys)
            if key in labels
        )
        return VolumeNodeAffinity(NodeSelector((NodeSelectorTerm(expressions),)))


def _rescheduled(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return a claim without its node, as a provisioner writes it that cannot find the node."""
    left = {key: text for key, text in claim.metadata.annotations.items() if key != SELECTED_NODE}
    without = replace(claim, metadata=replace(claim.metadata, annotations=left))
    written: PersistentVolumeClaim = touched(without, claim.metadata.resource_version)
    return written


def touched(obj: Any, version: str) -> Any:
    """Return an object written over version `version`, with the next version."""
    following = str(int(version) + 1) if version.isdecimal() else "1"
    return replace(obj, metadata=replace(obj.metadata, resource_version=following))


def _bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> list[Watched]:
    """Return the events that bind a claim and a volume."""
    annotated = with_annotation(claim, BIND_COMPLETED, "yes")
    metadata = replace(annotated, annotations=annotated.annotations | {BOUND_BY_CONTROLLER: "yes"})
    spec = replace(claim.spec, volume_name=volume.metadata.name)
    own = replace(claim, metadata=metadata, spec=spec, status=BOUND)
    return [
        Watched(
            VOLUME,
            "MODIFIED",
            touched(replace(volume, status=BOUND), volume.metadata.resource_version),
        ),
        Watched(CLAIM, "MODIFIED", touched(own, claim.metadata.resource_version)),
    ]
