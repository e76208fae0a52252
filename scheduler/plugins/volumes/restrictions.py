"""VolumeRestrictions: in-tree disks that one node can mount once, and claims for one pod alone."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.framework.args import NoArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.pershape import PerShape
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import SKIP, Rejected, Status, reject, unresolvable
from scheduler.objects.pod import Pod
from scheduler.objects.storage import READ_WRITE_ONCE_POD
from scheduler.plugins.volumes.claims import CLAIM, not_found
from scheduler.plugins.volumes.disks import Disk, DisksInUse, conflicts, pod_claims, pod_disks
from scheduler.state.change import Change

REASON_DISK = "node(s) had no available disk"
REASON_CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)


class Wanted(msgspec.Struct, frozen=True):
    """The disks that a pod wants, and whether a claim of its that allows one pod is in use."""

    disks: tuple[tuple[Disk, bool], ...]
    is_claim_used: bool


class VolumeRestrictions(Plugin[NoArgs]):
    """Reject nodes with a conflicting disk, and all nodes while a ReadWriteOncePod claim is in use.

    Not local: which node the other pod of such a claim sits on decides for every node, so on
    hypothetical nodes the pre-filter is worked out anew.
    """

    reads = ("pod.deleted", "node", CLAIM)

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._in_use = handle.tracker(DisksInUse)
        self._disks = PerShape(pod_disks)

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | Wanted:
        """Return what the pod wants, Skip when nothing of it can conflict."""
        if not cycle.pod.spec.volumes:
            return SKIP
        claims = self.handle.objects(CLAIM)
        single: list[str] = []
        for key in pod_claims(cycle.pod):
            claim = claims.get(key)
            if claim is None:
                return unresolvable(not_found(key.partition("/")[2]))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                single.append(key)
        disks = self._disks.of(cycle)
        is_used = bool(single) and self._is_used(single, nodes)
        return Wanted(disks, is_used) if disks or is_used else SKIP

    def filter(self, _cycle: Cycle, nodes: Nodes, wanted: Wanted) -> Rejected | None:
        """Reject the nodes that hold one of the disks, and all if a claim is taken."""
        rejected: Rejected | None = None
        if wanted.disks:
            taken = self._taken(wanted.disks, nodes)
            rejected = reject(taken, REASON_DISK) if taken.any() else None
        if not wanted.is_claim_used:
            return rejected
        everywhere = reject(np.ones(nodes.size, dtype=np.bool_), REASON_CLAIM)
        return everywhere if rejected is None else rejected.otherwise(everywhere)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Whether a disk or claim of the pod was given back, a claim appeared, or a node."""
        if change.kind == "Node":
            return True
        if change.kind == CLAIM:
            return change.verb == "add" and change.new.key in pod_claims(pod)
        gone: Pod = change.before.pod if change.before is not None else change.old
        return conflicts(pod_disks(pod), gone) or not set(pod_claims(pod)).isdisjoint(
            pod_claims(gone)
        )

    def _is_used(self, claims: list[str], nodes: Nodes) -> bool:
        """Whether a pod on a node that exists uses one of the claims."""
        uses = Counter(
            {
                claim: sum(
                    number
                    for node, number in self._in_use.claim_users(claim).items()
                    if nodes.row(node) is not None
                )
                for claim in claims
            }
        )
        for placed, _, sign in nodes.moves():
            for claim in pod_claims(placed.pod):
                uses[claim] += sign
        return any(uses[claim] > 0 for claim in claims)

    def _taken(self, wanted: tuple[tuple[Disk, bool], ...], nodes: Nodes) -> BoolColumn:
        taken = np.zeros(nodes.size, dtype=np.bool_)
        moved: dict[tuple[Disk, str], list[int]] = {}
        for placed, _, sign in nodes.moves():
            for disk, is_read in pod_disks(placed.pod):
                moved.setdefault((disk, placed.node), [0, 0])[is_read] += sign
        for disk, reads in wanted:
            users = dict(self._in_use.users(disk))
            for (other, node), (written, read) in moved.items():
                if other == disk:
                    before = users.get(node, (0, 0))
                    users[node] = (before[0] + written, before[1] + read)
            for node, (written, read) in users.items():
                row = nodes.row(node)
                if row is not None and (written > 0 or (read > 0 and not reads)):
                    taken[row] = True
        return taken
