"""The volumes that a pod's unbound claims would get on each node, and whether missing ones can be
provisioned.

The rules of Kubernetes' volume binder, for all nodes at once: of the free volumes that suit a claim
and are reachable from a node, the smallest is taken, but one that is set aside for the claim comes
first. A volume serves one claim; if none is left, the claim's class must be able to provision one.
Reads only.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, IntColumn, Nodes, Rows
from scheduler.objects.quantity import quantity
from scheduler.objects.selectors import selector_matches
from scheduler.objects.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    STORAGE,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.plugins.volumes.catalog import VolumeCatalog
from scheduler.plugins.volumes.claims import CLASS, class_of
from scheduler.plugins.volumes.handles import Objects
from scheduler.plugins.volumes.places import SelectedRows, among, mask_of

DRIVER, CAPACITY = "CSIDriver", "CSIStorageCapacity"
# 64 PiB; a hundred times as much fits in an int64.
MOST_BYTES = 2**56


class VolumeChoice(msgspec.Struct, frozen=True):
    """The volumes that one claim gets; `number` is the place in `volumes` per row, -1 for none."""

    claim: PersistentVolumeClaim
    volumes: tuple[PersistentVolume, ...]
    number: Rows

    def of(self, row: int) -> PersistentVolume | None:
        """Return the volume that the claim gets on a row."""
        number = int(self.number[row])
        return self.volumes[number] if number >= 0 else None


class VolumePlan(msgspec.Struct, frozen=True):
    """The choice for each claim on each row.

    `unmatched` are the rows on which some claim gets no volume, `cramped` those without storage
    capacity to provision one. On all other rows each claim has a choice there or is one of `made`
    (claim, rows).
    """

    unmatched: BoolColumn
    cramped: BoolColumn
    choices: tuple[VolumeChoice, ...]
    made: tuple[tuple[PersistentVolumeClaim, BoolColumn], ...]


class Matcher:
    """Plans bindings of claims from objects in memory."""

    def __init__(self, objects: Objects, catalog: VolumeCatalog, places: SelectedRows) -> None:
        self._objects = objects
        self._catalog = catalog
        self._places = places

    def plan(self, nodes: Nodes, claims: Sequence[PersistentVolumeClaim]) -> VolumePlan:
        """Return the plan for unbound claims whose classes wait for a consumer."""
        left = nodes.exists
        made: list[tuple[PersistentVolumeClaim, BoolColumn]] = []
        choices: list[VolumeChoice] = []
        sent = [claim for claim in claims if SELECTED_NODE in claim.metadata.annotations]
        for claim in sent:
            # Its volume is being provisioned for one node: no other node is possible.
            left = left & nodes.rows_named((claim.metadata.annotations[SELECTED_NODE],))
        unmatched = nodes.exists & ~left
        made += [(claim, left) for claim in sent]
        taken: dict[str, list[Rows | BoolColumn]] = {}
        others = [claim for claim in claims if SELECTED_NODE not in claim.metadata.annotations]
        for claim in sorted(others, key=requested_bytes):
            choice = self._choose(nodes, claim, left, taken)
            choices.append(choice)
            needy = left & (choice.number < 0)
            if np.count_nonzero(needy):
                made.append((claim, needy))
        return self._with_provisioning(nodes, unmatched, left, choices, made)

    def _with_provisioning(
        self,
        nodes: Nodes,
        unmatched: BoolColumn,
        left: BoolColumn,
        choices: list[VolumeChoice],
        made: list[tuple[PersistentVolumeClaim, BoolColumn]],
    ) -> VolumePlan:
        """Find the rows where no volume can be provisioned for a claim without one."""
        cramped = np.zeros(nodes.size, dtype=np.bool_)
        for claim, rows in made:
            needy = rows & left
            if not np.count_nonzero(needy):
                continue
            found = self._objects(CLASS).get(class_of(claim))
            if found is None or found.provisioner in ("", NO_PROVISIONER):
                refused = needy
            else:
                refused = needy & ~self._places.of_topologies(nodes, found.allowed_topologies)
                short = needy & ~refused & ~self._with_capacity(nodes, claim, found)
                cramped, left = cramped | short, left & ~short
            unmatched, left = unmatched | refused, left & ~refused
        return VolumePlan(unmatched, cramped, tuple(choices), tuple(made))

    def _choose(
        self,
        nodes: Nodes,
        claim: PersistentVolumeClaim,
        rows: BoolColumn,
        taken: dict[str, list[Rows | BoolColumn]],
    ) -> VolumeChoice:
        """Choose a volume for one claim on each of `rows`; record in `taken` the rows where it is
        used.
        """
        still_open = rows.copy()
        number = np.full(nodes.size, -1, dtype=np.intp)
        volumes: list[PersistentVolume] = []
        for volume, is_set_aside in self._suitable(claim):
            available = still_open
            if volume.metadata.name in taken:
                available = still_open.copy()
                for gone in taken[volume.metadata.name]:
                    available[gone] = False
            affinity = volume.spec.node_affinity
            selector = affinity.required if affinity is not None else None
            here = among(self._places.of_affinity(nodes, selector), available)
            if not (np.count_nonzero(here) if here.dtype == np.bool_ else len(here)):
                if is_set_aside:
                    still_open = _without(still_open, available)
                continue
            number[here] = len(volumes)
            volumes.append(volume)
            taken.setdefault(volume.metadata.name, []).append(here)
            # A volume that is set aside for the claim is its volume even if it is unreachable.
            still_open = _without(still_open, available if is_set_aside else here)
            if not np.count_nonzero(still_open):
                break
        return VolumeChoice(claim, tuple(volumes), number)

    def _suitable(self, claim: PersistentVolumeClaim) -> Iterator[tuple[PersistentVolume, bool]]:
        """Yield the volumes that suit a claim, best first, each with whether it is set aside for
        it.
        """
        size, class_name = requested_bytes(claim), class_of(claim)
        for volume in self._catalog.reserved_for(claim):
            is_large_enough = quantity(volume.spec.capacity.get(STORAGE, 0)) >= size
            if is_large_enough and class_of(volume) == class_name and _matches_claim(volume, claim):
                yield volume, True
        modes, selector = set(claim.spec.access_modes), claim.spec.selector
        for volume in self._catalog.free(class_name, size):
            if (
                _matches_claim(volume, claim)
                and modes.issubset(volume.spec.access_modes)
                and (selector is None or selector_matches(selector, volume.metadata.labels))
            ):
                yield volume, False

    def _with_capacity(
        self, nodes: Nodes, claim: PersistentVolumeClaim, found: StorageClass
    ) -> BoolColumn:
        """Return the rows where the class's driver reports enough capacity for the claim."""
        if not self._reports_capacity(claim, found):
            return nodes.exists
        rows = np.zeros(nodes.size, dtype=np.bool_)
        for capacity in self._sufficient(claim, found):
            rows[self._rows_of(nodes, capacity)] = True
        return rows

    def capacity(self, nodes: Nodes, claim: PersistentVolumeClaim) -> IntColumn | None:
        """Return the reported capacity per row, -1 for none; None if the class reports none.

        Of several objects for one row the first by name counts: kube-scheduler takes any. An
        object with `maximumVolumeSize` alone counts with that size.
        """
        found = self._objects(CLASS).get(class_of(claim))
        if found is None or not self._reports_capacity(claim, found):
            return None
        amounts = np.full(nodes.size, -1, dtype=np.int64)
        for capacity in sorted(self._sufficient(claim, found), key=_name, reverse=True):
            limit = capacity.limit if capacity.capacity is None else capacity.capacity
            amounts[self._rows_of(nodes, capacity)] = bounded(quantity(limit or 0))
        return amounts

    def _reports_capacity(self, claim: PersistentVolumeClaim, found: StorageClass) -> bool:
        """Return whether reported capacity restricts the claim."""
        driver = self._objects(DRIVER).get(found.provisioner)
        return driver is not None and driver.spec.storage_capacity and _names_size(claim)

    def _sufficient(
        self, claim: PersistentVolumeClaim, found: StorageClass
    ) -> Iterator[CSIStorageCapacity]:
        """Yield the capacity objects of a class in which the claim fits."""
        size = requested_bytes(claim)
        for capacity in self._objects(CAPACITY).values():
            if (
                capacity.storage_class_name == found.metadata.name
                and capacity.node_topology is not None
                and capacity.limit is not None
                and quantity(capacity.limit) >= size
            ):
                yield capacity

    def _rows_of(self, nodes: Nodes, capacity: CSIStorageCapacity) -> Rows | BoolColumn:
        topology = capacity.node_topology
        here = None if topology is None else self._places.of_labels(nodes, topology)
        return mask_of(here, nodes.size) if here is None else here


def _name(capacity: CSIStorageCapacity) -> tuple[str, str]:
    return capacity.metadata.namespace, capacity.metadata.name


def bounded(size: int) -> int:
    """Return a size that a percentage can be computed of in int64."""
    return max(0, min(size, MOST_BYTES))


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    """Return the requested size of a claim in bytes."""
    return quantity(claim.spec.resources.requests.get(STORAGE, 0))


def _without(mask: BoolColumn, rows: Rows | BoolColumn) -> BoolColumn:
    left = mask.copy()
    left[rows] = False
    return left


def _names_size(claim: PersistentVolumeClaim) -> bool:
    return STORAGE in claim.spec.resources.requests


def _matches_claim(volume: Any, claim: Any) -> bool:
    """Return whether mode and attributes class agree and the volume is not being deleted."""
    own, wanted = volume.spec, claim.spec
    return bool(
        (own.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
        and own.volume_attributes_class_name == wanted.volume_attributes_class_name
        and volume.metadata.deletion_timestamp is None
    )
