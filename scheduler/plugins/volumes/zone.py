"""VolumeZone: restrict a pod to the zones and regions of its volumes' labels."""

from collections.abc import Hashable, Iterator

import numpy as np

from scheduler.framework import (
    EACH_POD,
    SKIP,
    BoolColumn,
    Change,
    Cycle,
    Handle,
    NoArgs,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    Rejected,
    Status,
    reject,
    unresolvable,
)
from scheduler.objects.pod import NodeSelectorRequirement
from scheduler.objects.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.plugins.volumes.claims import CLAIM, CLASS, VOLUME, class_of, not_found
from scheduler.plugins.volumes.migration import BETA_REGION, BETA_ZONE, REGION, ZONE

REASON = "node(s) had no available volume zone"

# Label of a volume → label that a node may carry instead.
_LABELS = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}

# (label of the volume, values that a node may have).
Topologies = tuple[tuple[str, tuple[str, ...]], ...]


class VolumeZone(Plugin[NoArgs]):
    """Reject nodes in other zones or regions than the pod's volumes; nodes without labels pass."""

    reads = (CLASS, "node.labels", CLAIM, VOLUME)
    local = True

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = PerSpec(_claim_names)

    def key(self, pod: Pod) -> Hashable | None:
        """Return None for a pod without such volumes."""
        return EACH_POD if _claim_names(pod) else None

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Status | Topologies:
        """Return the zones of the bound volumes; Skip if none has a zone label."""
        names = self._names.of(cycle)
        if not names:
            return SKIP
        found: list[tuple[str, tuple[str, ...]]] = []
        for name in names:
            answer = self._topologies(cycle.pod, name)
            if isinstance(answer, Status):
                return answer
            found.extend(answer)
        return tuple(found) or SKIP

    def filter(self, _cycle: Cycle, nodes: Nodes, topologies: Topologies) -> Rejected | None:
        """Reject the nodes whose zone or region is another."""
        fits = np.ones(nodes.size, dtype=np.bool_)
        for label, values in topologies:
            fits = fits & _in(nodes, label, values)
        is_labelled = np.zeros(nodes.size, dtype=np.bool_)
        for label in _LABELS:
            is_labelled = is_labelled | nodes.label_mask(NodeSelectorRequirement(label, "Exists"))
        elsewhere = is_labelled & ~fits
        return reject(elsewhere, REASON, final=True) if elsewhere.any() else None

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the change concerns a claim, class or volume of the pod, or any node."""
        if change.kind == "Node":
            return True
        if change.verb == "delete":
            return False
        new, old = change.new, change.old
        if change.kind == CLASS:
            # The binding mode is immutable.
            return (
                change.verb == "add"
                and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
                and any(class_of(claim) == new.metadata.name for claim in self._claims(pod))
            )
        namespace = pod.metadata.namespace
        if change.kind == CLAIM:
            return new.metadata.namespace == namespace and new.metadata.name in _claim_names(pod)
        return (old is None or _labelled(old) != _labelled(new)) and any(
            claim.spec.volume_name == new.metadata.name for claim in self._claims(pod)
        )

    def _topologies(self, pod: Pod, name: str) -> Status | Topologies:
        if not name:
            return unresolvable("PersistentVolumeClaim had no name")
        claim = self.handle.objects(CLAIM).get(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            return unresolvable(not_found(name))
        bound_to = claim.spec.volume_name
        if not bound_to:
            return self._unbound(claim)
        volume = self.handle.objects(VOLUME).get(bound_to)
        if volume is None:
            return unresolvable(f'persistentvolume "{bound_to}" not found')
        return _labelled(volume)

    def _unbound(self, claim: PersistentVolumeClaim) -> Status | Topologies:
        name = class_of(claim)
        if not name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        found = self.handle.objects(CLASS).get(name)
        if found is None:
            return unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
        if found.volume_binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
        if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return ()
        return unresolvable("PersistentVolume had no name")

    def _claims(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        claims = self.handle.objects(CLAIM)
        for name in _claim_names(pod):
            claim = claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is not None:
                yield claim


def _claim_names(pod: Pod) -> tuple[str, ...]:
    """Return the claims that a pod names itself; kube-scheduler: not its ephemeral ones."""
    return tuple(
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )


def _labelled(volume: PersistentVolume) -> Topologies:
    """Return the zone and region labels of a volume; a value may be a set, `a__b`."""
    found = []
    for label in _LABELS:
        value = volume.metadata.labels.get(label)
        values = tuple(part.strip() for part in value.split("__")) if value is not None else ()
        if values and all(values):  # a label that does not parse is passed over
            found.append((label, values))
    return tuple(found)


def _in(nodes: Nodes, label: str, values: tuple[str, ...]) -> BoolColumn:
    """Return the rows whose label, or its current replacement, has one of the values."""
    own = nodes.label_mask(NodeSelectorRequirement(label, "In", values))
    today = _LABELS[label]
    if today == label:
        return own
    is_missing = nodes.label_mask(NodeSelectorRequirement(label, "DoesNotExist"))
    return own | (is_missing & nodes.label_mask(NodeSelectorRequirement(today, "In", values)))
