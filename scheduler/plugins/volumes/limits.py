"""NodeVolumeLimits: limit the number of volumes of each CSI driver per node."""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

import msgspec
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
)
from scheduler.objects.storage import CSIDriver, CSINode
from scheduler.plugins.volumes.attached import ATTACHMENT, CSI_NODE, AttachedVolumes
from scheduler.plugins.volumes.claims import (
    CLAIM,
    VOLUME,
    claim_uses,
    has_claims,
    is_for_pod,
    not_for_pod,
    not_found,
)
from scheduler.plugins.volumes.handles import CountedVolume
from scheduler.plugins.volumes.matching import DRIVER
from scheduler.plugins.volumes.migration import is_inline_migratable
from scheduler.state.store import Objects

LIMIT_SCALING: Final = "VolumeLimitScaling"
REASON = "node(s) exceed max volume count"


class WantedVolumes(msgspec.Struct, frozen=True):
    """The volumes that a pod adds, each once; or that a claim is missing or owned by another
    pod.
    """

    volumes: tuple[CountedVolume, ...] = ()
    missing: str = ""
    foreign: str = ""


class RequiredDrivers:
    """Rejects nodes without a CSI driver whose object prevents scheduling where it is missing."""

    def __init__(self, objects: Callable[[str], Objects]) -> None:
        self._drivers = objects(DRIVER)
        self._csi_nodes = objects(CSI_NODE)
        self._version = -1
        self._nodes_with: dict[str, list[str]] = {}

    def rejected(self, nodes: Nodes, volumes: Sequence[CountedVolume]) -> Rejected | None:
        """Return the nodes that lack a required driver; the first missing driver is the reason."""
        found: Rejected | None = None
        for driver in dict.fromkeys(volume.driver for volume in volumes):
            known: CSIDriver | None = self._drivers.get(driver)
            if known is None or not known.spec.prevent_pod_scheduling_if_missing:
                continue
            missing = nodes.exists & ~nodes.rows_named(self._installed_on(driver))
            if missing.any():
                text = f"{driver} CSI driver is not installed on the node"
                rejected = reject(missing, text)
                found = rejected if found is None else found.otherwise(rejected)
        return found

    def _installed_on(self, driver: str) -> Sequence[str]:
        if self._version != self._csi_nodes.version:
            self._version = self._csi_nodes.version
            self._nodes_with = {}
            for name, csi_node in self._csi_nodes.items():
                for one in csi_node.spec.drivers:
                    self._nodes_with.setdefault(one.name, []).append(name)
        return self._nodes_with.get(driver, ())


class NodeVolumeLimits(Plugin[NoArgs]):
    """Reject nodes on which a CSI driver would have more volumes than the CSINode allows.

    Volumes that pods on the node use already cost nothing.
    """

    reads = ("node", CSI_NODE, DRIVER, "pod.deleted", CLAIM, VOLUME, ATTACHMENT)
    local = True

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._attached = handle.tracker(AttachedVolumes)
        self._has_countable = PerSpec(_has_countable)
        is_checked = handle.feature_gates.get(LIMIT_SCALING)
        self._uninstalled = RequiredDrivers(handle.objects) if is_checked else None

    def key(self, pod: Pod) -> Hashable | None:
        """Return None for a pod without such volumes."""
        return EACH_POD if _has_countable(pod) else None

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Status | WantedVolumes:
        """Return the pod's volumes, Skip for a pod without volumes that could count."""
        if not self._has_countable.of(cycle):
            return SKIP
        pod = cycle.pod
        claims = self.handle.objects(CLAIM)
        for use in claim_uses(pod):
            claim = claims.get(use.key)
            if claim is None:
                return WantedVolumes(missing=f"looking up PVC {use.key}: {not_found(use.name)}")
            if use.is_ephemeral and not is_for_pod(claim, pod):
                return WantedVolumes(foreign=not_for_pod(claim, pod))
        return WantedVolumes(tuple(dict.fromkeys(self._attached.volumes_of(pod))))

    def filter(self, _cycle: Cycle, nodes: Nodes, wanted: WantedVolumes) -> Rejected | None:
        """Reject the nodes where a driver's volumes would be too many."""
        if wanted.missing:
            return reject(np.ones(nodes.size, dtype=np.bool_), wanted.missing, final=True)
        if wanted.foreign:
            raise ValueError(wanted.foreign)
        full = self._without_capacity(nodes, wanted)
        missing = self._uninstalled.rejected(nodes, wanted.volumes) if self._uninstalled else None
        return full if missing is None else missing.otherwise(full)

    def _without_capacity(self, nodes: Nodes, wanted: WantedVolumes) -> Rejected | None:
        """Reject the nodes on which a limit would be exceeded."""
        drivers = dict.fromkeys(volume.driver for volume in wanted.volumes)
        limited = [driver for driver in drivers if self._attached.is_limited(driver)]
        if not limited:
            return None
        moved = self._moved(nodes)
        full: BoolColumn | None = None
        for driver in limited:
            own = [volume for volume in wanted.volumes if volume.driver == driver]
            rows = self._full(driver, own, moved)
            full = rows if full is None else full | rows
        if full is None or not full.any():
            return None
        return reject(nodes.part(full), REASON)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a limit grew, volumes were removed, or a claim of the pod changed its
        volume.

        A new node counts as well: it has no limits before its CSINode exists.
        """
        if change.kind == "Node":
            return True
        if change.kind == DRIVER:
            return self._uninstalled is not None and self._frees(change.old, change.new, pod)
        if change.kind == CSI_NODE:
            return self._installs(change.old, change.new, pod) or self._limit_grew(
                change.old, change.new, pod
            )
        if change.kind == "Pod":
            gone: Pod = change.before.pod if change.before is not None else change.old
            return _has_countable(gone)
        if change.kind == ATTACHMENT:
            return change.verb == "delete" and change.old.spec.attacher in self._drivers(pod)
        if change.verb == "delete":
            return False
        uses = tuple(claim_uses(pod))
        if change.kind == CLAIM:
            return any(use.key == change.new.key for use in uses) and (
                change.old is None or change.old.spec.volume_name != change.new.spec.volume_name
            )
        claims = self.handle.objects(CLAIM)
        found = (claims.get(use.key) for use in uses)
        names = (claim.spec.volume_name for claim in found if claim is not None)
        return change.old is None and change.new.metadata.name in names

    def _full(
        self,
        driver: str,
        wanted: Sequence[CountedVolume],
        moved: dict[int, dict[CountedVolume, int]],
    ) -> BoolColumn:
        """Return the rows of the table where these volumes of one driver would exceed the limit."""
        used, limit = self._attached.used(driver), self._attached.limit(driver)
        full: BoolColumn = used > limit - len(wanted)
        special = {row for volume in wanted for row in self._attached.rows_with(volume)}
        for row in special | moved.keys():
            on = self._attached.on_row(row)
            changes = moved.get(row, {})
            count = int(used[row])
            for volume, number in changes.items():
                by_pods, attached = on.get(volume, (0, 0))
                if volume.driver == driver:
                    was_there = by_pods + attached > 0
                    count += int(by_pods + number + attached > 0) - int(was_there)
            new = sum(on.get(v, (0, 0))[0] + changes.get(v, 0) <= 0 for v in wanted)
            # kube-scheduler: a volume that is attached but used by no pod counts as new once more.
            full[row] = new > 0 and count + new > limit[row]
        return full

    def _moved(self, nodes: Nodes) -> dict[int, dict[CountedVolume, int]]:
        """Return row → volume → how many pods more (or fewer) use it in a hypothetical view."""
        moved: dict[int, dict[CountedVolume, int]] = {}
        for placed, row, sign in nodes.moves():
            changes = moved.setdefault(row, {})
            for volume in self._attached.volumes_of(placed.pod):
                changes[volume] = changes.get(volume, 0) + sign
        return moved

    def _frees(self, old: CSIDriver | None, new: CSIDriver | None, pod: Pod) -> bool:
        """Return whether a driver of the pod is required no longer."""
        is_required = new is not None and new.spec.prevent_pod_scheduling_if_missing
        was_required = old is not None and old.spec.prevent_pod_scheduling_if_missing
        return bool(was_required and not is_required) and _name_of(old) in self._drivers(pod)

    def _installs(self, old: CSINode | None, new: CSINode | None, pod: Pod) -> bool:
        """Return whether a node gets a driver of the pod, with or without a limit."""
        if self._uninstalled is None or new is None:
            return False
        before = {one.name for one in old.spec.drivers} if old is not None else set()
        added = {one.name for one in new.spec.drivers} - before
        return not added.isdisjoint(self._drivers(pod))

    def _limit_grew(self, old: CSINode | None, new: CSINode | None, pod: Pod) -> bool:
        if old is None:
            return True
        before, after = old.limits, new.limits if new is not None else {}
        return any(
            driver in before and (driver not in after or after[driver] > before[driver])
            for driver in self._drivers(pod)
        )

    def _drivers(self, pod: Pod) -> set[str]:
        return {volume.driver for volume in self._attached.volumes_of(pod)}


def _name_of(driver: CSIDriver | None) -> str:
    return "" if driver is None else driver.metadata.name


def _has_countable(pod: Pod) -> bool:
    """Return whether a pod has claims or volumes that a CSI driver serves."""
    return has_claims(pod) or any(map(is_inline_migratable, pod.spec.volumes))
