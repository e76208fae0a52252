"""NetworkOverhead: place pods near their dependencies, inside cost limits and bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache

import numpy as np

from scheduler.framework import (
    EACH_POD,
    SKIP,
    AreaPaths,
    BoolColumn,
    Change,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    Placed,
    Plugin,
    Pod,
    Reason,
    Rejected,
    Rows,
    Status,
    no_rows,
)
from scheduler.objects.groups.appgroup import GROUP_LABEL
from scheduler.plugins.network.args import Bandwidth, Dependents, Indirect, NetworkOverheadArgs
from scheduler.plugins.network.bandwidth.headroom import LinkHeadroom
from scheduler.plugins.network.lookup import Lookup
from scheduler.plugins.network.places import NOWHERE
from scheduler.plugins.network.ties import TiesState

_TABLE = 4096
_MANY = "Node(s) do not meet several network requirements from Workload dependencies"
_ONE = (
    "Node {} does not meet several network requirements from Workload dependencies: "
    "Satisfied: {} Violated: {}"
)


class NetworkRejected(Rejected, frozen=True):
    """A rejection whose text for a single node has the node's name and counts.

    A pod's message summarises all nodes, where thousands of names would not help.
    """

    name: Callable[[int], str] = str
    counts: Callable[[int], tuple[int, int]] = lambda _row: (0, 0)

    def texts(self, row: int) -> tuple[str, ...]:
        """Return the reasons of one row."""
        return tuple(
            _ONE.format(self.name(row), *self.counts(row)) if text == _MANY else text
            for text in super().texts(row)
        )


class NetworkOverhead(Plugin[NetworkOverheadArgs]):
    """Reject nodes too expensive for most of the pod's dependencies; score by total cost."""

    reads = (
        "node",
        "node.deleted",
        "node.labels",
        "pod.added",
        "pod.deleted",
        "pod.labels",
        "self.labels",
        "AppGroup",
        "NetworkTopology",
    )

    def __init__(self, args: NetworkOverheadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.lookup = Lookup(self.name, args, handle)
        self._tracker = self.lookup.tracker
        self._both = args.dependents is Dependents.COUNT
        self._enforces = args.bandwidth is Bandwidth.ENFORCE
        self._headroom: LinkHeadroom | None = None

    def key(self, pod: Pod) -> Hashable | None:
        """Return None for a pod of no group."""
        return EACH_POD if pod.metadata.labels.get(GROUP_LABEL) else None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | TiesState:
        """Find the placed pods that the pod is tied to; Skip if there are none."""
        if not cycle.pod.metadata.labels.get(GROUP_LABEL):
            return SKIP
        ties = self.lookup.ties(cycle.pod, both=self._both)
        state = None if ties is None else TiesState.on(nodes, ties, self.lookup)
        return SKIP if state is None else state

    def filter(self, _cycle: Cycle, nodes: Nodes, state: TiesState) -> Rejected | None:
        """Reject nodes where more limits are broken than kept, and nodes behind a full link."""
        places = self._tracker.place_column(nodes)
        reasons = []
        rows, counts = self._too_expensive(nodes, state, places)
        if rows is not None:
            reasons.append(Reason(rows, _MANY))
        if self._enforces and state.ties.table.capacities:
            reasons += [
                Reason(full.places[places], full.text) for full in self._links(state).full(state)
            ]
        if not reasons:
            return None
        rows = reasons[0].rows
        for reason in reasons[1:]:
            rows = rows | reason.rows
        return NetworkRejected(rows, no_rows(nodes.size), tuple(reasons), nodes.name, counts)

    def pre_score(
        self, cycle: Cycle, nodes: Nodes, state: TiesState | None = None
    ) -> Status | TiesState:
        """Find pods that the pod is tied to indirectly, if it is tied to none directly; Skip if
        there are none.
        """
        if not cycle.pod.metadata.labels.get(GROUP_LABEL):
            return SKIP
        if state is None and self.args.indirect is Indirect.COUNT:
            ties = self.lookup.indirect_ties(cycle.pod)
            state = None if ties is None else TiesState.on(nodes, ties, self.lookup)
        return SKIP if state is None else state

    def score(self, cycle: Cycle, nodes: Nodes, state: TiesState | None) -> IntColumn:
        """Return the accumulated cost of the pod's ties."""
        if state is None:
            answer = self.pre_filter(cycle, nodes)
            if isinstance(answer, Status):
                return nodes.constant(0)
            state = answer
        # Places are valid indices: mode="clip" changes nothing and is twice as fast as "raise".
        raw = state.verdicts().cost.take(self._tracker.place_column(nodes), mode="clip")
        state.take_off_own(raw, nodes)
        return raw

    def normalize(self, _cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
        """Return 100 for the node of least cost, 0 for that of highest cost; all 0 if every cost is
        0.
        """
        return cheapest_best(nodes, raw, score_at_zero=0)

    def add_pod(self, state: TiesState, placed: Placed, row: int) -> None:
        """Count a hypothetical pod."""
        state.move(placed.pod, row, 1)

    def remove_pod(self, state: TiesState, placed: Placed, row: int) -> None:
        """Stop counting a pod, hypothetically."""
        state.move(placed.pod, row, -1)

    def concerns(self, state: TiesState, placed: Placed) -> bool:
        """Return whether the pod is tied to the placed one, or the placed one may book
        bandwidth.
        """
        group, workload = state.membership.key_and_workload(placed.pod)
        if not group:
            return False
        if self._enforces and state.ties.table.capacities:
            return True  # the placed pod may book on a link that this pod needs
        return group == state.ties.group and any(
            need.workload == workload for need in state.ties.needs
        )

    def network_paths(self, pod: Pod, rows: Rows) -> AreaPaths | None:
        """Return the network cost between pods on these rows, for pods that are placed together."""
        return self.lookup.network_paths(pod, rows, books=self._enforces)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a change can bring counterparts nearer or free bandwidth on a link."""
        if change.kind != "Pod" or change.pod.metadata.uid == pod.metadata.uid:
            return True
        return any(
            GROUP_LABEL in one.metadata.labels
            for one in (change.old, change.new)
            if one is not None
        )

    def _links(self, state: TiesState) -> LinkHeadroom:
        table, places = state.ties.table, state.places
        headroom = self._headroom
        if headroom is None or headroom.table is not table or headroom.size != len(places):
            headroom = self._headroom = LinkHeadroom(table, places)
        return headroom

    def _too_expensive(
        self, nodes: Nodes, state: TiesState, places: Rows
    ) -> tuple[BoolColumn | None, Callable[[int], tuple[int, int]]]:
        """Return the rows where too many limits are violated, None for none, and the counts
        by row.
        """
        kept, broken, _ = state.verdicts()
        lone = self._on_lone_nodes(nodes, state)

        def counts(row: int) -> tuple[int, int]:
            # On its own node a tie is kept, whatever labels the node lacks.
            own = int(lone[row]) if lone is not None else 0
            return int(kept[places[row]]) + own, int(broken[places[row]]) - own

        bad = broken > 0 if self.args.strict else broken > kept
        rows: BoolColumn | None = bad.take(places, mode="clip") if np.count_nonzero(bad) else None
        if lone is not None:
            rows = np.zeros(nodes.size, dtype=np.bool_) if rows is None else rows
            for row in np.flatnonzero(lone).tolist():
                good, poor = counts(row)
                rows[row] = poor > (0 if self.args.strict else good)
        return rows, counts

    def _on_lone_nodes(self, nodes: Nodes, state: TiesState) -> IntColumn | None:
        """Return the number of tied pods on each row without region and zone, or None."""
        if not state.is_any_nowhere():
            return None
        lone = np.flatnonzero(state.cell_places() == NOWHERE)
        return self._tracker.spread(nodes, state.pods.rows[lone], state.ties_by_cell()[lone])


def cheapest_best(nodes: Nodes, raw: IntColumn, *, score_at_zero: int = 100) -> IntColumn:
    """Return 100 for the feasible node of least cost and 0 for that of highest cost; equal ones get
    100.

    If all costs are 0, `score_at_zero`. The percentage is rounded down before it is subtracted from
    100.
    """
    # Picking by a mask costs twice as much as finding the rows first.
    feasible = nodes.feasible
    count = np.count_nonzero(feasible)
    if not count:
        return nodes.constant(0)
    costs = raw if count == len(raw) else raw.take(feasible.nonzero()[0], mode="clip")
    # Finding where the smallest is costs half of finding out how small it is.
    low, high = int(costs[costs.argmin()]), int(costs[costs.argmax()])
    if low == high:
        return nodes.constant(100 if high else score_at_zero)
    width = high - low
    if width <= _TABLE and 0 <= low <= _TABLE:
        # A look-up in a small table is several times faster than a division of whole columns.
        return _shares(width)[_TABLE - low :].take(raw, mode="clip")
    normalized: IntColumn = 100 - 100 * (raw - low) // width
    return normalized.clip(0, 100)


@lru_cache(maxsize=64)
def _shares(width: int) -> IntColumn:
    """Return scores by distance from the cheapest cost: 100 minus its percentage of `width`, up to
    `width`.

    The first `_TABLE` entries are 100, so that a slice of the table can start at cost 0.
    """
    shares = 100 - 100 * np.arange(width + 1) // width
    table: IntColumn = np.concatenate((np.full(_TABLE, 100), shares))
    table.flags.writeable = False
    return table
