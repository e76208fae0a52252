"""`Reserving`: the over-reserve cache, the free amounts of every node beyond the agents' reports.

A report is accepted when its fingerprint matches known pods; then only the others are deducted. An
unmatched report waits, and the previous one stays in force. Everything is updated by changes, never
periodically. Only the arithmetic is deferred until `columns` is read, or until much is pending:
pods without zone requests need not pay for it one by one. A pod of ours with exclusive resources is
deducted at once: the next pod of its kind would wait for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from scheduler.framework import BoolColumn, PerShape, Placed, is_any
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.plugins.numa.demand import ZoneDemand, demand_of, holds_exclusive
from scheduler.plugins.numa.reservations import (
    NOTHING_OWED,
    Freed,
    NodeTotals,
    Owed,
    Reservations,
    freed_by,
    listed_by,
    node_totals_of,
    says_where,
)
from scheduler.plugins.numa.zonecolumns import ZoneColumns
from scheduler.plugins.numa.zones import (
    ALL,
    AUTODETECT,
    ONLY_EXCLUSIVE,
    Zones,
    counts_only_exclusive,
    expected_fingerprint,
    kubelet_settings,
    read_zones,
)
from scheduler.state.columns import Column

if TYPE_CHECKING:
    from scheduler.state.cluster import Cluster


# A report usually arrives within a minute; after that an operator is alerted.
_LONG_S = 120.0
_LOOK_EVERY_S = 10.0

# Above this number of nodes they are deducted before a read: a millisecond at most.
_MOST_LEFT = 256


class Following(msgspec.Struct, frozen=True):
    """The settings of the cache: our profiles, the resync method, and whether settings are
    followed.

    `frees` states that freed amounts of pods will be read: reports are parsed for that on arrival.
    """

    profiles: frozenset[str] = frozenset()
    method: str = AUTODETECT
    follows_settings: bool = True
    frees: bool = False


class Reserving:
    """The free amounts of every node's zones; the plugin reads `columns`."""

    def __init__(self, following: Following, demand: PerShape[ZoneDemand]) -> None:
        self._following = following
        self._demand = demand
        self._cluster: Cluster | None = None
        self._reset()

    def _reset(self) -> None:
        self._columns = ZoneColumns(deducts=True)
        # Nodes whose pods changed since their row of the columns was written.
        self._left: dict[str, None] = {}
        self.by_node: dict[str, Reservations] = {}
        self._rows: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._next_look = 0.0
        # Nodes with foreign pods that no report includes; the new ones have no time yet.
        self._stale: dict[str, None] = {}
        self._fresh_stale: dict[str, None] = {}
        self._foreign: Column[np.int32] = Column(np.int32)
        self._foreign_exclusive: Column[np.int32] = Column(np.int32)

    def clear(self, cluster: Cluster) -> None:
        """Drop everything; pods are looked up in `cluster` from now on."""
        self._reset()
        self._cluster = cluster

    # Queries of the plugin.

    @property
    def columns(self) -> ZoneColumns:
        """Return the current free amounts."""
        if self._left:
            self._deduct()
        return self._columns

    @property
    def published(self) -> ZoneColumns:
        """Return the columns as reported: up to date except for amounts."""
        return self._columns

    @property
    def has_stale(self) -> bool:
        """Return whether any node has foreign pods that no report includes."""
        return bool(self._stale)

    def stale(self, detect: str, now: float) -> BoolColumn | None:
        """Return the rows of the table with foreign pods that no report includes, None for none.

        `now`, in seconds, is recorded as the time since when.
        """
        if detect not in (ALL, ONLY_EXCLUSIVE) or not self._stale:
            return None
        column = self._foreign if detect == ALL else self._foreign_exclusive
        self._note_time(now)
        rows: BoolColumn = column.values > 0
        return rows if is_any(rows) else None

    def long_stale(self, now: float) -> Iterator[Reservations]:
        """Yield, once each, the nodes that have been stale for longer than the limit."""
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_EVERY_S
        for name in self._stale:
            reserved = self.by_node.get(name)
            if reserved is None or reserved.since is None or reserved.is_reported:
                continue
            if now - reserved.since >= _LONG_S:
                reserved.is_reported = True
                yield reserved

    def node_totals(self, name: str) -> NodeTotals | None:
        """Return the exclusive amounts of all pods of a node; None for a node without a report."""
        reserved = self.by_node.get(name)
        if reserved is not None and reserved.node_totals is None:
            layout = self._columns.layouts[self._columns.layout_ids[self._rows[name]]]
            here = self._cluster.pods.on(name) if self._cluster is not None else {}
            reserved.node_totals = node_totals_of(here.values(), reserved, self._demand, layout.ids)
        return None if reserved is None else reserved.node_totals

    def _note_time(self, now: float) -> None:
        for name in self._fresh_stale:
            reserved = self.by_node.get(name)
            if reserved is not None and reserved.since is None:
                reserved.since = now
        self._fresh_stale.clear()

    def settle(self) -> None:
        """Match again the waiting reports of nodes whose pods have changed since."""
        if not self._due:
            return
        due, self._due = self._due, {}
        for name in due:
            reserved = self.by_node.get(name)
            if reserved is not None and reserved.waiting is not None:
                self._offer(name, reserved, reserved.waiting, None)

    # Applying changes.

    def add(self, name: str, row: int) -> None:
        """Add a node."""
        self._rows[name] = row
        self._columns.grow(row + 1)
        self._foreign.grow(row + 1)
        self._foreign_exclusive.grow(row + 1)

    def drop(self, name: str, row: int) -> None:
        """Remove a node."""
        del self._rows[name]
        self.by_node.pop(name, None)
        self._stale.pop(name, None)
        self._columns.clear(row)
        self._foreign.clear(row)
        self._foreign_exclusive.clear(row)

    def publish(
        self, name: str, topology: NodeResourceTopology | None, zones: Zones | None
    ) -> None:
        """Store a report, or its deletion."""
        if topology is None:
            self.by_node.pop(name, None)
            self._columns.clear(self._rows[name])
            self._count(name, None)
            return
        reserved = self.by_node.get(name)
        if reserved is None:
            reserved = self.by_node[name] = Reservations(name)
        self._offer(name, reserved, topology, zones)

    def pod(self, before: Placed | None, after: Placed | None) -> None:
        """Apply a pod that was added to a node, left one, or changed on it."""
        if before is not None and after is not None and before.node == after.node:
            self._altered(before, after)
            return
        if before is not None:
            self._went(before)
        if after is not None:
            self._came(after)

    def _altered(self, before: Placed, after: Placed) -> None:
        reserved = self.by_node.get(after.node)
        if reserved is None:
            return
        if reserved.waiting is not None:
            self._fall_due(reserved.name)
        if before.shape is after.shape:
            return
        reserved.node_totals = None
        uid = after.pod.metadata.uid
        was = reserved.owed.pop(uid, None)
        if was is None and not reserved.misses(after):
            return
        now = self._owed(after)
        if now is not NOTHING_OWED:
            reserved.owed[uid] = now
        for owed in (was or NOTHING_OWED, now):
            self._owes(reserved, owed)

    def _went(self, placed: Placed) -> None:
        reserved = self.by_node.get(placed.node)
        if reserved is None:
            return
        was = reserved.went(placed)
        if was is not None:
            self._owes(reserved, was)
        self._moved(reserved)

    def _came(self, placed: Placed) -> None:
        reserved = self.by_node.get(placed.node)
        if reserved is None:
            return
        reserved.remember(placed, came=True)
        if reserved.waiting is not None or reserved.frozen:
            self._moved(reserved)
        if not reserved.misses(placed):
            return
        now = self._owed(placed)
        if now is NOTHING_OWED:
            return
        reserved.owed[placed.pod.metadata.uid] = now
        self._owes(reserved, now)
        if placed.assumed and self._demand.of(placed).is_aligned:
            self._deduct()

    def _moved(self, reserved: Reservations) -> None:
        """Record that a node has other pods."""
        if reserved.waiting is not None:
            self._fall_due(reserved.name)
        if reserved.frozen:
            self._leave(reserved.name)

    def _fall_due(self, name: str) -> None:
        """Record that a node's waiting report may match now."""
        self._due[name] = None

    def _owes(self, reserved: Reservations, owed: Owed) -> None:
        """Update the indexes of nodes with reserved amounts after a change by `owed`."""
        if owed.needs:
            self._leave(reserved.name)
        if owed.is_foreign:
            self._count(reserved.name, reserved)

    def _offer(
        self, name: str, reserved: Reservations, topology: NodeResourceTopology, zones: Zones | None
    ) -> None:
        """Accept a report if the pods that it includes are known, or no other report is in
        force.
        """
        pods = self._cluster.pods.on(name) if self._cluster is not None else {}
        text = expected_fingerprint(topology)
        listed = listed_by(topology)
        only_exclusive = counts_only_exclusive(topology, self._following.method)

        def counts(placed: Placed) -> bool:
            return not only_exclusive or holds_exclusive(self._demand.of(placed), listed)

        seen = reserved.accounted(text, pods, counts)
        if seen is None and not self._takes_unnamed(reserved, topology, text):
            reserved.waiting = topology
            return
        reserved.listed = listed
        if seen is None and not text and reserved.taken is not None:
            reserved.owed.clear()
        elif seen is not None or reserved.taken is None:
            reserved.seen = seen
            missed = {uid: self._owed(one) for uid, one in pods.items() if reserved.misses(one)}
            reserved.owed = {uid: owed for uid, owed in missed.items() if owed is not NOTHING_OWED}
        reserved.taken, reserved.placement, reserved.shares, reserved.node_totals = (
            topology,
            None,
            {},
            None,
        )
        reserved.frozen = tuple(reserved.accounted_for(pods)) if says_where(topology) else ()
        reserved.waiting = None if seen is not None or not text else topology
        row = self._rows[name]
        self._columns.put(row, zones or read_zones(topology), kubelet_settings(topology))
        self._leave(name)
        self._count(name, reserved)
        if self._following.frees:
            self.node_totals(name)

    def _takes_unnamed(
        self, reserved: Reservations, topology: NodeResourceTopology, text: str
    ) -> bool:
        """Return whether a report is accepted although the pods that it includes are unknown."""
        if reserved.taken is None:
            return True
        if not text and not reserved.owed:
            return True
        changed = kubelet_settings(reserved.taken) != kubelet_settings(topology)
        return changed and self._following.follows_settings

    def _owed(self, placed: Placed) -> Owed:
        needs = self._demand.of(placed).taken
        if placed.pod.spec.scheduler_name in self._following.profiles:
            return Owed(needs) if needs else NOTHING_OWED
        reserved = self.by_node.get(placed.node)
        listed = reserved.listed if reserved is not None else frozenset()
        exclusive = is_foreign(placed, self._following.profiles, ONLY_EXCLUSIVE, listed)
        return Owed(needs, is_foreign=True, is_exclusive=exclusive)

    def _leave(self, name: str) -> None:
        """Defer a node's amounts until the next read."""
        self._left[name] = None
        if len(self._left) >= _MOST_LEFT:
            self._deduct()

    def _deduct(self) -> None:
        """Update the columns."""
        left, self._left = self._left, {}
        changed = []
        for name in left:
            row, reserved = self._rows.get(name), self.by_node.get(name)
            if row is not None and reserved is not None:
                changed.append((row, reserved.taken_for(), self._freed(name, reserved)))
        self._columns.deduct(changed)

    def _freed(self, name: str, reserved: Reservations) -> Freed | None:
        """Return the amounts of pods that left since the report, if it has their zones."""
        if not reserved.frozen:
            return None
        here = self._cluster.pods.on(name) if self._cluster is not None else {}
        gone = [placed for placed in reserved.frozen if placed.pod.metadata.uid not in here]
        return freed_by(gone, reserved, self._demand) if gone else None

    def _count(self, name: str, reserved: Reservations | None) -> None:
        owed = list(reserved.owed.values()) if reserved is not None else []
        row = self._rows[name]
        self._foreign.set(row, sum(one.is_foreign for one in owed))
        self._foreign_exclusive.set(row, sum(one.is_exclusive for one in owed))
        if self._foreign.values[row]:
            self._stale[name] = None
            self._fresh_stale[name] = None
        else:
            self._stale.pop(name, None)
            self._fresh_stale.pop(name, None)
            if reserved is not None:
                reserved.since, reserved.is_reported = None, False

    # For people.

    def is_stale(self, name: str) -> bool:
        """Return whether a foreign pod uses an unknown zone of the node."""
        return name in self._stale

    def stale_since(self) -> dict[str, float]:
        """Return since when nodes are stale, in seconds since the epoch, if recorded."""
        found = ((name, self.by_node[name].since) for name in self._stale if name in self.by_node)
        return {name: since for name, since in found if since is not None}


def is_foreign(
    placed: Placed, profiles: Collection[str], detect: str, listed: frozenset[str]
) -> bool:
    """Return whether a bound pod of another scheduler makes its node's figures unreliable."""
    if placed.pod.spec.scheduler_name in profiles:
        return False
    if detect == ONLY_EXCLUSIVE:
        return holds_exclusive(demand_of(placed.pod), listed)
    return detect == ALL
