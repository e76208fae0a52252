"""The free part of each device of each node, as columns, from the catalog of DynamicResources.

Nodes with equal devices in equal use share one situation, which is computed once.
"""

import numpy as np
from numpy.typing import NDArray

from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import PoolView
from scheduler.plugins.dynamicresources.allocation.preferring import free_milli
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.fragmentation.holes import Ints
from scheduler.plugins.fragmentation.mix import WHOLE

# Situations are recomputed above this number: each use of a node's devices is another one.
MOST_SITUATIONS = 16384


class DeviceColumns:
    """Free milli of each device [row, place] and the number of devices per row."""

    def __init__(self, catalog: DeviceCatalog, drivers: frozenset[str]) -> None:
        self._catalog = catalog
        self._drivers = drivers
        self._epoch = -1
        self._clear()

    def _clear(self) -> None:
        # Position 0 of the matrix has no device, for rows without a node, which have no situation.
        self._free: Ints = np.zeros((1, 1), dtype=np.int64)
        self._counts: Ints = np.zeros(1, dtype=np.int64)
        self._used = 1
        self._places: Ints = np.full(64, -1, dtype=np.int64)  # by situation

    def columns(self, names: NDArray[np.object_], rows: Ints) -> tuple[Ints, Ints]:
        """Return free milli [row, device] and devices per row of table rows.

        `names` are all rows'.
        """
        situations = self._catalog.situations()
        if self._epoch != self._catalog.epoch or self._used > MOST_SITUATIONS:
            self._epoch = self._catalog.epoch
            self._clear()
        wanted = situations[rows]
        self._grow(int(wanted.max(initial=-1)) + 1)
        missing = (wanted >= 0) & (self._places[wanted] < 0)
        for place in np.flatnonzero(missing).tolist():
            if self._places[wanted[place]] < 0:
                self._add(int(wanted[place]), names[int(rows[place])])
        places = np.where(wanted >= 0, self._places[wanted], 0)
        return self._free[places], self._counts[places]

    def _grow(self, size: int) -> None:
        if size > len(self._places):
            grown = np.full(max(size, 2 * len(self._places)), -1, dtype=np.int64)
            grown[: len(self._places)] = self._places
            self._places = grown

    def _add(self, situation: int, node: str) -> None:
        free = [
            value
            for view in self._catalog.pools(node)
            if not self._drivers or view.id[0] in self._drivers
            for value in free_of(view, self._catalog.in_use)
        ]
        if self._used == len(self._counts) or len(free) > self._free.shape[1]:
            self._enlarge(max(self._free.shape[1], len(free)))
        self._free[self._used, : len(free)] = free
        self._counts[self._used] = len(free)
        self._places[situation] = self._used
        self._used += 1

    def _enlarge(self, width: int) -> None:
        free, counts = self._free, self._counts
        self._free = np.zeros((2 * len(free), width), dtype=np.int64)
        self._free[: len(free), : free.shape[1]] = free
        self._counts = np.zeros(2 * len(counts), dtype=np.int64)
        self._counts[: len(counts)] = counts


def free_of(view: PoolView, in_use: InUse) -> list[int]:
    """Return the free milli of the devices of a pool; partitions of one device count as one."""
    if view.fault:
        return []
    found = [free_milli(slot, in_use) for slot in view.slots if slot.is_here and not slot.taken]
    left = dict(view.counters)
    for slot in view.slots:
        if slot.taken and in_use.has(slot.id):
            for key, nanos in slot.taken.items():
                left[key] = left.get(key, 0) - nanos
    shares: dict[str, int] = {}
    for (name, counter), nanos in view.counters.items():
        if nanos > 0:
            share = max(left[name, counter], 0) * WHOLE // nanos
            shares[name] = min(shares.get(name, WHOLE), share)
    return found + list(shares.values())
