"""VolumeRestrictions: in-tree disks that one node can mount once, and claims for one pod alone."""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import ClassVar

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
    PerShape,
    PerSpec,
    Placed,
    Plugin,
    Pod,
    Rejected,
    Status,
    reject,
    unresolvable,
)
from scheduler.objects.storage import READ_WRITE_ONCE_POD
from scheduler.plugins.volumes.claims import CLAIM, has_storage, not_found
from scheduler.plugins.volumes.disks import Disk, DisksInUse, conflicts, pod_claims, pod_disks

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)


class WantedDisks:
    """The disks that a pod uses, and the users of its ReadWriteOncePod claims.

    `uses` are the uses of such a claim by pods on nodes, `moved` the changes of hypothetical moves
    on a node: by disk, how often it is written and how often read.
    """

    __slots__ = ("disks", "moved", "uses")

    def __init__(
        self,
        disks: tuple[tuple[Disk, bool], ...],
        uses: Mapping[str, int],
        moved: Mapping[tuple[Disk, str], tuple[int, int]] | None = None,
    ) -> None:
        self.disks = disks
        self.uses: Counter[str] = Counter(uses)
        self.moved = dict(moved or {})

    @property
    def is_claim_used(self) -> bool:
        """Return whether some pod uses a claim that allows no other."""
        return any(number > 0 for number in self.uses.values())

    def copy(self) -> "WantedDisks":
        """Return an independent copy."""
        return WantedDisks(self.disks, self.uses, self.moved)

    def move(self, placed: Placed, sign: int) -> None:
        """Count a pod on its node once more or less."""
        for claim in pod_claims(placed.pod):
            if claim in self.uses:
                self.uses[claim] += sign
        for disk, is_read in pod_disks(placed.pod):
            written, read = self.moved.get((disk, placed.node), (0, 0))
            changed = (written, read + sign) if is_read else (written + sign, read)
            self.moved[disk, placed.node] = changed


class VolumeRestrictions(Plugin[NoArgs]):
    """Reject nodes with a conflicting disk, and all nodes while a ReadWriteOncePod claim is in use.

    Not local: the node of the other pod with such a claim decides for every node.
    """

    reads = ("pod.deleted", "node", CLAIM)
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": 'cannot read "PreFilterVolumeRestrictions" from cycleState'
    }

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._in_use = handle.tracker(DisksInUse)
        self._has_storage = PerSpec(has_storage)
        self._disks = PerShape(pod_disks)

    def key(self, pod: Pod) -> Hashable | None:
        """Return None for a pod without such volumes."""
        return EACH_POD if has_storage(pod) else None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | WantedDisks:
        """Return the pod's disks and exclusive claims; Skip if none of them can conflict."""
        if not self._has_storage.of(cycle):
            return SKIP
        claims = self.handle.objects(CLAIM)
        uses: dict[str, int] = {}
        for key in pod_claims(cycle.pod):
            claim = claims.get(key)
            if claim is None:
                return unresolvable(not_found(key.partition("/")[2]))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                users = self._in_use.claim_users(key)
                uses[key] = sum(n for node, n in users.items() if nodes.row(node) is not None)
        wanted = WantedDisks(self._disks.of(cycle), uses)
        return wanted if wanted.disks or wanted.is_claim_used else SKIP

    def filter(self, _cycle: Cycle, nodes: Nodes, wanted: WantedDisks) -> Rejected | None:
        """Reject the nodes that use one of the disks, and all nodes if a claim is taken."""
        rejected: Rejected | None = None
        if wanted.disks:
            taken = self._taken(wanted, nodes)
            rejected = reject(taken, REASON_DISK) if taken.any() else None
        if not wanted.is_claim_used:
            return rejected
        everywhere = reject(np.ones(nodes.size, dtype=np.bool_), REASON_CLAIM)
        return everywhere if rejected is None else rejected.otherwise(everywhere)

    def add_pod(self, wanted: WantedDisks, placed: Placed, _row: int) -> None:
        """Count a pod that is added to a node."""
        wanted.move(placed, 1)

    def remove_pod(self, wanted: WantedDisks, placed: Placed, _row: int) -> None:
        """Stop counting a pod that leaves a node."""
        wanted.move(placed, -1)

    def concerns(self, wanted: WantedDisks, placed: Placed) -> bool:
        """Return whether a pod uses one of the disks or claims."""
        pod = placed.pod
        return bool(pod.spec.volumes) and (
            conflicts(wanted.disks, pod) or any(key in wanted.uses for key in pod_claims(pod))
        )

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a disk or claim of the pod was given back, a claim appeared, or a node."""
        if change.kind == "Node":
            return True
        if change.kind == CLAIM:
            return change.verb == "add" and change.new.key in pod_claims(pod)
        gone: Pod = change.before.pod if change.before is not None else change.old
        return conflicts(pod_disks(pod), gone) or not set(pod_claims(pod)).isdisjoint(
            pod_claims(gone)
        )

    def _taken(self, wanted: WantedDisks, nodes: Nodes) -> BoolColumn:
        taken = np.zeros(nodes.size, dtype=np.bool_)
        for disk, reads in wanted.disks:
            users = dict(self._in_use.users(disk))
            for (other, node), (written, read) in wanted.moved.items():
                if other == disk:
                    before = users.get(node, (0, 0))
                    users[node] = (before[0] + written, before[1] + read)
            for node, (written, read) in users.items():
                row = nodes.row(node)
                if row is not None and (written > 0 or (read > 0 and not reads)):
                    taken[row] = True
        return taken
