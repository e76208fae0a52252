"""`AttachedVolumes`: the number of volumes of each CSI driver on every node, and the node's limit.

Follows every change; NodeVolumeLimits reads it. A volume counts once per node, for any number of
pods and before it is attached. Claim, volume and class determine a claim's volume, so pods are
counted again when one of these changes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from scheduler.framework import Change, IntColumn, PerSpec, Placed, Pod
from scheduler.objects.storage import CSINode, VolumeAttachment
from scheduler.plugins.volumes import claims
from scheduler.plugins.volumes.handles import (
    CountedVolume,
    claim_keys,
    inline_volumes,
    volume_of_attachment,
    volume_of_claim,
    volumes_of,
)
from scheduler.state.columns import Column

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster

CSI_NODE, ATTACHMENT = "CSINode", "VolumeAttachment"
NO_LIMIT = np.iinfo(np.int64).max


class _Claim(msgspec.Struct, eq=False):
    """A claim that placed pods use: its pods, its volume, and the objects that determine the
    volume.
    """

    users: dict[str, str] = {}  # pod uid → node
    volume: CountedVolume | None = None
    volume_name: str = ""
    class_name: str = ""


class AttachedVolumes:
    """Volumes in use by node and driver, as columns over the rows of the node table."""

    kinds: tuple[str, ...] = (claims.CLAIM, claims.VOLUME, claims.CLASS, CSI_NODE, ATTACHMENT)

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._has_storage = PerSpec(claims.has_storage)
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, int] = {}
        self._claims: dict[str, _Claim] = {}
        self._by_volume_name: dict[str, dict[str, None]] = {}
        # attachment → (node, name of its volume, what is counted)
        self._attachments: dict[str, tuple[str, str, CountedVolume | None]] = {}
        self._attachments_of: dict[str, dict[str, None]] = {}
        # node → volume → (uses by pods, attachments)
        self._on: dict[str, dict[CountedVolume, tuple[int, int]]] = {}
        self._nodes_of: dict[CountedVolume, dict[str, None]] = {}  # nodes where pods use it
        self._used: dict[str, Column[np.int64]] = {}
        self._limits: dict[str, Column[np.int64]] = {}

    def rebuild(self, cluster: "Cluster") -> None:
        """Recount all volumes from `cluster`."""
        self._clear()
        self._cluster = cluster
        for name, row in cluster.table.rows.items():
            self._node(name, row)
        for placed in cluster.pods:
            self._pod(placed, 1)
        for attachment in cluster.store.of(ATTACHMENT).values():
            self._attach(attachment)

    def passes_over(self, placed: Placed) -> bool:
        """Return whether pods of such a spec use no volume."""
        return not self._has_storage.of(placed)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "Pod":
            before, after = change.before, change.after
            if claims.keeps_volumes(before, after):
                return
            if before is not None:
                self._pod(before, -1)
            if after is not None:
                self._pod(after, 1)
        elif change.kind == "Node":
            self._node_changed(change)
        elif change.kind in self.kinds:
            self._object_changed(change)

    def columns(self) -> Mapping[str, Any]:
        """Return uses and limits by driver, without entries that equal the default."""
        found: dict[str, Any] = {}
        for driver in self._used:
            if self.used(driver).any():
                found[f"used {driver}"] = self.used(driver).copy()
        for driver in self._limits:
            if (self.limit(driver) != NO_LIMIT).any():
                found[f"limit {driver}"] = self.limit(driver).copy()
        return found

    # Questions of the plugin.

    def used(self, driver: str) -> IntColumn:
        """Return the number of a driver's volumes on each row of the table; not to be written
        to.
        """
        return self._column(self._used, driver, 0)

    def limit(self, driver: str) -> IntColumn:
        """Return the maximum number of volumes of a driver per row, NO_LIMIT for unlimited."""
        return self._column(self._limits, driver, NO_LIMIT)

    def is_limited(self, driver: str) -> bool:
        """Return whether some node has, or had, a limit for the driver."""
        return driver in self._limits

    def rows_with(self, volume: CountedVolume) -> list[int]:
        """Return the rows on which pods use a volume."""
        nodes = self._nodes_of.get(volume, ())
        return [self._rows[node] for node in nodes if node in self._rows]

    def on_row(self, row: int) -> Mapping[CountedVolume, tuple[int, int]]:
        """Return the volumes on a row, each with its uses by pods and its attachments."""
        node = self._cluster.table.name(row) if self._cluster is not None else ""
        return self._on.get(node, {})

    def volumes_of(self, pod: Pod) -> list[CountedVolume]:
        """Return the volumes that a pod uses, as they are counted."""
        return volumes_of(self._objects, pod)

    def _objects(self, kind: str) -> Mapping[str, Any]:
        return self._cluster.store.of(kind) if self._cluster is not None else {}

    def _column(self, columns: dict[str, Column[np.int64]], driver: str, fill: int) -> IntColumn:
        size = self._cluster.table.size if self._cluster is not None else 0
        column = columns.get(driver)
        if column is None:
            return np.full(size, fill, dtype=np.int64)
        column.grow(size)
        return column.values

    # Following changes.

    def _pod(self, placed: Placed, sign: int) -> None:
        if not self._has_storage.of(placed):
            return
        pod, node = placed.pod, placed.node
        for key in claim_keys(pod):
            claim = self._claims.get(key)
            if claim is None:
                claim = self._begin(key)
            if sign > 0:
                claim.users[pod.metadata.uid] = node
            else:
                claim.users.pop(pod.metadata.uid, None)
            if claim.volume is not None:
                self._hold(node, claim.volume, sign, 0)
            if not claim.users:
                self._end(key, claim)
        for volume in inline_volumes(pod):
            self._hold(node, volume, sign, 0)

    def _begin(self, key: str) -> _Claim:
        claim = self._claims[key] = _Claim()
        self._look_up(key, claim)
        return claim

    def _end(self, key: str, claim: _Claim) -> None:
        del self._claims[key]
        self._forget_volume_name(key, claim)

    def _look_up(self, key: str, claim: _Claim) -> None:
        """Update the volume that a claim refers to."""
        obj = self._objects(claims.CLAIM).get(key)
        self._forget_volume_name(key, claim)
        claim.volume_name = obj.spec.volume_name if obj is not None else ""
        claim.class_name = claims.class_of(obj) if obj is not None else ""
        claim.volume = volume_of_claim(self._objects, key)
        if claim.volume_name:
            self._by_volume_name.setdefault(claim.volume_name, {})[key] = None

    def _forget_volume_name(self, key: str, claim: _Claim) -> None:
        keys = self._by_volume_name.get(claim.volume_name)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._by_volume_name[claim.volume_name]

    def _refresh(self, key: str) -> None:
        """Count a claim's users again when it refers to another volume."""
        claim = self._claims.get(key)
        if claim is None:
            return
        old = claim.volume
        self._look_up(key, claim)
        if claim.volume == old:
            return
        for node in claim.users.values():
            if old is not None:
                self._hold(node, old, -1, 0)
            if claim.volume is not None:
                self._hold(node, claim.volume, 1, 0)

    def _object_changed(self, change: Change) -> None:
        obj = change.new if change.new is not None else change.old
        name = obj.metadata.name
        if change.kind == claims.CLAIM:
            self._refresh(obj.key)
        elif change.kind == claims.VOLUME:
            for key in list(self._by_volume_name.get(name, ())):
                self._refresh(key)
            self._volume_changed(name)
        elif change.kind == claims.CLASS:
            for key in [key for key, one in self._claims.items() if one.class_name == name]:
                self._refresh(key)
        elif change.kind == CSI_NODE:
            if name in self._rows:
                self._limit(self._rows[name], change.old, change.new)
        else:
            self._detach(name)
            if change.new is not None:
                self._attach(change.new)

    def _volume_changed(self, name: str) -> None:
        """Evaluate the attachments of a volume again."""
        for key in list(self._attachments_of.get(name, ())):
            self._detach(key)
            self._attach(self._objects(ATTACHMENT)[key])

    def _attach(self, attachment: VolumeAttachment) -> None:
        node = attachment.spec.node_name
        name = attachment.spec.source.persistent_volume_name or ""
        volume = volume_of_attachment(self._objects, attachment)
        if volume is not None:
            self._hold(node, volume, 1, 1)
        self._attachments[attachment.metadata.name] = (node, name, volume)
        self._attachments_of.setdefault(name, {})[attachment.metadata.name] = None

    def _detach(self, name: str) -> None:
        if name not in self._attachments:
            return
        node, volume_name, volume = self._attachments.pop(name)
        del self._attachments_of[volume_name][name]
        if not self._attachments_of[volume_name]:
            del self._attachments_of[volume_name]
        if volume is not None:
            self._hold(node, volume, -1, 1)

    def _hold(self, node: str, volume: CountedVolume, sign: int, kind: int) -> None:
        """Add `sign` to the number of pods that use a volume (kind 0) or of its attachments (kind
        1).
        """
        on = self._on.setdefault(node, {})
        by_pods, attached = on.get(volume, (0, 0))
        was_there = by_pods + attached > 0
        by_pods, attached = (by_pods + sign, attached) if kind == 0 else (by_pods, attached + sign)
        if by_pods + attached > 0:
            on[volume] = (by_pods, attached)
        else:
            del on[volume]
            if not on:
                del self._on[node]
        if kind == 0:
            self._note_node(volume, node, is_there=by_pods > 0)
        is_there = by_pods + attached > 0
        if is_there != was_there and node in self._rows:
            self._add(volume.driver, self._rows[node], 1 if is_there else -1)

    def _note_node(self, volume: CountedVolume, node: str, *, is_there: bool) -> None:
        nodes = self._nodes_of.setdefault(volume, {})
        if is_there:
            nodes[node] = None
        else:
            nodes.pop(node, None)
        if not nodes:
            del self._nodes_of[volume]

    def _add(self, driver: str, row: int, number: int) -> None:
        column = self._used.setdefault(driver, Column(np.int64))
        column.grow(row + 1)
        column.add(row, number)

    def _node_changed(self, change: Change) -> None:
        name = change.node.metadata.name
        if change.verb == "add" and self._cluster is not None:
            self._node(name, self._cluster.table.rows[name])
        elif change.verb == "delete":
            row = self._rows.pop(name)
            for columns in (self._used, self._limits):
                for column in columns.values():
                    if row < len(column.values):
                        column.clear(row)

    def _node(self, name: str, row: int) -> None:
        self._rows[name] = row
        for volume in self._on.get(name, ()):
            self._add(volume.driver, row, 1)
        self._limit(row, None, self._objects(CSI_NODE).get(name))

    def _limit(self, row: int, old: CSINode | None, new: CSINode | None) -> None:
        after = new.limits if new is not None else {}
        for driver in {**(old.limits if old is not None else {}), **after}:
            column = self._limits.setdefault(driver, Column(np.int64, NO_LIMIT))
            column.grow(row + 1)
            column.set(row, after.get(driver, NO_LIMIT))
