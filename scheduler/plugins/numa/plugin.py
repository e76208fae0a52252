"""NodeResourceTopologyMatch: place pods where the kubelet can align them with NUMA zones.

The kubelet chooses the zones; this plugin rejects nodes whose kubelet would reject the pod, and
prefers nodes that serve it well. Nothing is written on pods or nodes.
"""

from collections.abc import Hashable

import numpy as np

from scheduler.base import reasons
from scheduler.framework import (
    EACH_POD,
    SKIP,
    BoolColumn,
    Change,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    Plugin,
    Pod,
    Rejected,
    RowCache,
    Status,
    is_any,
    reject,
)
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.plugins.numa import filtering, leastnuma, scoring
from scheduler.plugins.numa.args import (
    ENABLED,
    EXACT,
    LEAST_NUMA_NODES,
    NodeResourceTopologyMatchArgs,
)
from scheduler.plugins.numa.demand import Needs, ZoneDemand, demand_of
from scheduler.plugins.numa.eviction import ZoneEvictions
from scheduler.plugins.numa.filtering import hidden_splits
from scheduler.plugins.numa.reserving import Following
from scheduler.plugins.numa.states import figures, why_stale
from scheduler.plugins.numa.tracker import KIND, Topologies, is_same
from scheduler.plugins.numa.zones import ALL, RESTRICTED, SINGLE
from scheduler.plugins.numa.zoneview import ZoneView

STALE = "invalid node topology data"


class NodeResourceTopologyMatch(Plugin[NodeResourceTopologyMatchArgs]):
    """Reject nodes whose kubelet could not align the pod; score by zone or by number of zones."""

    reads = ("pod.deleted", "node", "node.allocatable", KIND, "self.requests")
    local = True

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._topologies = handle.tracker(Topologies)
        self._demand = self._topologies.demand
        self._reserving = self._evictions = None
        if args.reserves:
            cache = args.cache
            follows = cache.resync_scope == ALL
            frees = args.preemption_mode == ENABLED
            following = Following(handle.profiles, cache.resync_method, follows, frees)
            self._reserving = self._topologies.reserve(following)
            self._evictions = ZoneEvictions(self._reserving, self._demand, frees=frees)
        self._infeasible = RowCache(self._no_zone)
        self._scores = RowCache(self._worth)
        self.key_follows = (_Reported(self._topologies),)

    def key(self, _pod: Pod) -> Hashable | None:
        """Return None while no node has a report: zones have no effect, all nodes are equal."""
        return EACH_POD if self._topologies.latest.count else None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | ZoneDemand:
        """Return the pod's requests; Skip for one without effect on zones."""
        demand = self._demanded(cycle)
        if demand.needs_nothing:
            return SKIP
        if self._topologies.is_empty:
            return SKIP
        if self._reserving is not None:
            self._reserving.settle()
        return SKIP if self._fits_anywhere(demand, nodes) else demand

    def filter(self, cycle: Cycle, nodes: Nodes, demand: ZoneDemand) -> Rejected | None:
        """Reject nodes with stale data, and those whose zones do not fit the pod."""
        view = self._view(nodes)
        stale = self._stale(view, cycle)
        changed = None
        if self._evictions is not None and nodes.amounts_touched is None:
            changed = self._evictions.zones_after(view, nodes)
        rejected = reject(stale, STALE) if stale is not None else None
        if changed is not None:
            view = changed.view
            for text, rows in changed.refused.items():
                if is_any(rows):
                    aligns = self._checked(view)
                    rejected = _first(rejected, reject(rows & aligns, text))
        unfit = self._unfit(view, demand)
        if unfit is None:
            return rejected
        return unfit if rejected is None else rejected.otherwise(unfit)

    def score(self, cycle: Cycle, nodes: Nodes, _state: ZoneDemand | None) -> IntColumn:
        """Return 0..100; 100 for pods without exclusive CPUs, 0 where zones are unknown."""
        demand = self._demanded(cycle)
        if not demand.is_guaranteed:
            return nodes.constant(100)
        if self._topologies.is_empty:
            return nodes.constant(0)
        view = self._view(nodes)
        rows = view.known & nodes.feasible
        stale = self._stale(view, cycle)
        if stale is not None:
            rows = rows & ~stale
        if not is_any(rows):
            return nodes.constant(0)
        (worth,) = self._scores.columns(demand, view)
        return np.where(rows, worth, 0)

    def reserve(self, cycle: Cycle, node: str, _state: ZoneDemand | None) -> None:
        """Exclude the node until the pod is bound, if nodes with reservations are discarded.

        The over-reserve cache needs no call: it follows assumed pods.
        """
        if self.args.discard_reserved_nodes:
            self._topologies.hold(cycle.pod.metadata.uid, node)

    def unreserve(self, cycle: Cycle, _node: str, _state: ZoneDemand | None) -> None:
        """Undo the reservation."""
        self._topologies.release(cycle.pod.metadata.uid)

    def post_bind(self, cycle: Cycle, _node: str) -> None:
        """End the reservation: the pod is bound."""
        self._topologies.release(cycle.pod.metadata.uid)

    def hint(self, change: Change, _pod: Pod) -> bool:
        """Return whether a change may help: deleted pods on nodes with topologies, new reports."""
        if change.kind == KIND:
            old: NodeResourceTopology | None = change.old
            return not is_same(old, change.new)
        if change.kind != "Pod":
            return True
        if change.before is None and change.after is None:
            return True  # the pod requests less, or a nomination ended
        before = change.before
        return before is None or self._topologies.topology(before.node) is not None

    def figures(self, cycle: Cycle, node: str) -> tuple[str, ...]:
        """Return figures about a node's zones, for `explain`."""
        return figures(self._topologies, node, cycle.now)

    def _demanded(self, cycle: Cycle) -> ZoneDemand:
        demand = self._demand.of(cycle)
        qos = cycle.pod.status.qos_class
        return demand if not qos or qos == demand.qos else demand_of(cycle.pod)

    def _fits_anywhere(self, demand: ZoneDemand, nodes: Nodes) -> bool:
        """Return whether no node can be rejected: the pod has shared requests only, and every zone
        lists them.
        """
        if demand.is_guaranteed or self.args.preemption_mode == ENABLED:
            return False  # a dry run may be impossible whatever the pod requests
        topologies, reserving = self._topologies, self._reserving
        if topologies.has_reserved or (reserving is not None and reserving.has_stale):
            return False
        columns = topologies.latest if reserving is None else reserving.published
        if not columns.suits_all(demand.names):
            return False
        rare = demand.rare
        return not rare or all(topologies.offers(name, nodes.size) is None for name in rare)

    def _view(self, nodes: Nodes) -> ZoneView:
        columns = self._topologies.latest if self._reserving is None else self._reserving.columns
        return ZoneView(columns, self._topologies, nodes)

    def _stale(self, view: ZoneView, cycle: Cycle) -> BoolColumn | None:
        """Return the rows with unreliable data; None if there are none."""
        if self.args.discard_reserved_nodes:
            used = self._topologies.reserved_rows()
            if not used:
                return None
            rows = np.zeros(len(self._topologies.latest.known), dtype=np.bool_)
            rows[used] = True
            return view.of_table(rows)
        if self._reserving is None:
            return None
        stale = self._reserving.stale(self.args.cache.foreign_pods_detect, cycle.now)
        if stale is None:
            return None
        for reserved in self._reserving.long_stale(cycle.now):
            self.handle.node_warning(
                reserved.name, cycle.profile, reasons.INVALID_TOPOLOGY_DATA, why_stale(reserved)
            )
        return view.of_table(stale)

    def _checked(self, view: ZoneView) -> BoolColumn:
        rows = np.zeros(view.size, dtype=np.bool_)
        for policy in self.args.policies:
            rows |= view.has_policy(policy)
        return rows

    def _unfit(self, view: ZoneView, demand: ZoneDemand) -> Rejected | None:
        rejected = None
        if SINGLE in self.args.policies:
            rejected = self._unfit_single(view, demand)
        if RESTRICTED in self.args.policies:
            rows = view.has_policy(RESTRICTED)
            if is_any(rows):
                for infeasible, text in filtering.unfit_restricted(
                    view, demand, rows, by_pod=view.pod_scope
                ):
                    rejected = _first(rejected, reject(infeasible, text))
        return rejected

    def _unfit_single(self, view: ZoneView, demand: ZoneDemand) -> Rejected | None:
        rejected = None
        whole = self._single(view, by_pod=True)
        if whole is not None:
            rejected = self._without_zone(view, demand, whole, demand.whole, "pod")
        alone = self._single(view, by_pod=False)
        if alone is None:
            return rejected
        if len(demand.parts) == 1:
            (part,) = demand.parts
            found = self._without_zone(view, demand, alone, part.needs, part.kind)
            return _first(rejected, found)
        found = filtering.unfit_by_container(view, demand, alone)
        if found is not None and self.args.alignment == EXACT:
            found = hidden_splits(view, demand, found)
        return _first(rejected, found)

    def _single(self, view: ZoneView, *, by_pod: bool) -> BoolColumn | None:
        """Return the rows that align by single-numa-node in one of the scopes.

        None if there are none.
        """
        rows = view.aligned(SINGLE, by_pod=by_pod)
        if rows is None or view.is_whole:
            return rows
        return rows if is_any(rows) else None

    def _without_zone(
        self,
        view: ZoneView,
        demand: ZoneDemand,
        rows: BoolColumn,
        needs: Needs,
        what: str,
    ) -> Rejected | None:
        """Return those of `rows` without a zone that fits all of `needs`."""
        (no_zone,) = self._infeasible.columns((needs, demand.is_guaranteed), view)
        infeasible = rows & no_zone
        return reject(infeasible, f"{filtering.CANNOT} {what}") if is_any(infeasible) else None

    def _no_zone(self, key: tuple[Needs, bool], view: ZoneView) -> tuple[BoolColumn]:
        needs, is_guaranteed = key
        found = filtering.fit(view, needs, is_guaranteed=is_guaranteed, scratch=view.scratch)
        return (found.infeasible(view.size),)

    def _worth(self, demand: ZoneDemand, view: ZoneView) -> tuple[IntColumn]:
        strategy = self.args.scoring_strategy
        if strategy.type == LEAST_NUMA_NODES:
            return (leastnuma.score_by_count(view, demand, view.known),)
        return (scoring.score_by_zone(view, demand, strategy, view.has_policy(SINGLE)),)


class _Reported:
    """A version that changes when the first node reports, or the last report is deleted."""

    def __init__(self, topologies: Topologies) -> None:
        self._topologies = topologies

    @property
    def version(self) -> int:
        """Return 1 if there is a report, else 0."""
        return int(self._topologies.latest.count > 0)


def _first(one: Rejected | None, other: Rejected | None) -> Rejected | None:
    """Unite two rejections; where both reject a row, the first applies."""
    if one is None or other is None:
        return one or other
    return one.otherwise(other)
