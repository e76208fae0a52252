"""`DisksInUse`: which in-tree disks and which claims the pods of each node use.

Fed by every change of a placed pod; used by VolumeRestrictions. Stores names of nodes, not rows:
disks and single-pod claims are on few nodes, and pods may name a node before it exists.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from scheduler.framework import Change, PerSpec, Placed, Pod
from scheduler.objects.pod import Volume
from scheduler.plugins.volumes.claims import has_storage, keeps_volumes

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

# The identity of a disk: a kind and its identifying fields.
Disk = tuple[str, ...]


def disks_of(volume: Volume) -> tuple[tuple[Disk, bool], ...]:
    """Return the disks of a volume as (disk, whether it is mounted read-only).

    An RBD image counts once per monitor, since one shared monitor makes two images the same.
    """
    if volume.gce_persistent_disk is not None:
        source = volume.gce_persistent_disk
        return ((("gce", source.pd_name), source.read_only),)
    if volume.aws_elastic_block_store is not None:
        # kube-scheduler: two pods may not even read the same EBS volume.
        return ((("ebs", volume.aws_elastic_block_store.volume_id), False),)
    if volume.iscsi is not None:
        return ((("iscsi", volume.iscsi.iqn), volume.iscsi.read_only),)
    if volume.rbd is not None:
        rbd = volume.rbd
        return tuple(
            (("rbd", monitor, rbd.pool, rbd.image), rbd.read_only)
            for monitor in dict.fromkeys(rbd.monitors)
        )
    return ()


def pod_disks(pod: Pod) -> tuple[tuple[Disk, bool], ...]:
    """Return the disks of a pod as (disk, whether it is mounted read-only)."""
    return tuple(disk for volume in pod.spec.volumes for disk in disks_of(volume))


def pod_claims(pod: Pod) -> tuple[str, ...]:
    """Return the claims, as `namespace/name`, that the pod's spec names; ephemeral claims are
    excluded.
    """
    namespace = pod.metadata.namespace
    return tuple(
        f"{namespace}/{volume.persistent_volume_claim.claim_name}"
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    )


class DisksInUse:
    """Counts by disk and node the writable and read-only mounts, and by claim and node the uses."""

    kinds: tuple[str, ...] = ()
    follows = frozenset(("Pod",))

    def __init__(self) -> None:
        self._has_storage = PerSpec(has_storage)
        self._disks: dict[Disk, dict[str, tuple[int, int]]] = {}
        self._claims: dict[str, dict[str, int]] = {}

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""
        self._disks, self._claims = {}, {}
        for placed in cluster.pods:
            self._count(placed, 1)

    def passes_over(self, placed: Placed) -> bool:
        """Return whether a pod with this spec uses no disk."""
        return not self._has_storage.of(placed)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind != "Pod":
            return
        before, after = change.before, change.after
        if keeps_volumes(before, after):
            return
        if before is not None:
            self._count(before, -1)
        if after is not None:
            self._count(after, 1)

    def columns(self) -> Mapping[str, Any]:
        """Return the counts by disk or claim and node."""
        found: dict[str, Any] = {}
        for disk, nodes in self._disks.items():
            found.update({f"{' '.join(disk)} on {node}": both for node, both in nodes.items()})
        for claim, users in self._claims.items():
            found.update({f"{claim} on {node}": number for node, number in users.items()})
        return found

    def users(self, disk: Disk) -> Mapping[str, tuple[int, int]]:
        """Return (number of writable mounts, number of read-only mounts) of one disk, by node."""
        return self._disks.get(disk, {})

    def claim_users(self, claim: str) -> Mapping[str, int]:
        """Return the number of uses of one claim by pods, by node."""
        return self._claims.get(claim, {})

    def _count(self, placed: Placed, sign: int) -> None:
        if not self._has_storage.of(placed):
            return
        node = placed.node
        for disk, is_read in pod_disks(placed.pod):
            nodes = self._disks.setdefault(disk, {})
            written, read = nodes.get(node, (0, 0))
            nodes[node] = (written, read + sign) if is_read else (written + sign, read)
            _tidy(self._disks, disk, node, is_empty=nodes[node] == (0, 0))
        for claim in pod_claims(placed.pod):
            users = self._claims.setdefault(claim, {})
            users[node] = users.get(node, 0) + sign
            _tidy(self._claims, claim, node, is_empty=not users[node])


def conflicts(wanted: Iterable[tuple[Disk, bool]], other: Pod) -> bool:
    """Return whether a pod with the disks `wanted` cannot share a node with the pod `other`."""
    used = pod_disks(other)
    return any(
        disk == own and not (reads and is_read) for disk, is_read in wanted for own, reads in used
    )


def _tidy(table: dict[Any, dict[str, Any]], key: Any, node: str, *, is_empty: bool) -> None:
    if is_empty:
        del table[key][node]
        if not table[key]:
            del table[key]
