"""Looks up the AppGroup and the NetworkTopology of a pod, and reports a missing one.

The AppGroup is looked up in the pod's own namespace first, then in those of the arguments; the
NetworkTopology in those of the arguments. If an object is missing, the plugin scores all nodes
equally and rejects none; an event on the pod names the object and the namespaces, a metric counts
it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from scheduler.framework import AreaPaths, Handle, Pod, Rows
from scheduler.objects.groups.appgroup import GROUP_LABEL
from scheduler.objects.network import NetworkTopology
from scheduler.plugins.network.args import TopologyArgs
from scheduler.plugins.network.bandwidth.bookings import BookedAmounts
from scheduler.plugins.network.costs import CostTable, between, links_between
from scheduler.plugins.network.dependencies import GroupNeeds
from scheduler.plugins.network.grouppods import GroupPods
from scheduler.plugins.network.membership import Membership
from scheduler.plugins.network.need import Need
from scheduler.plugins.network.tracker import NetworkTracker


class PodTies(NamedTuple):
    """A pod of a group with dependencies, and the known network.

    `group` is the key of its AppGroup, `kind` distinguishes different dependencies of one workload.
    """

    group: str
    workload: str
    needs: tuple[Need, ...]
    table: CostTable
    kind: str


class Lookup:
    """The look-ups of one plugin; caches the table of costs until its object changes."""

    def __init__(self, plugin: str, args: TopologyArgs, handle: Handle) -> None:
        self.tracker = handle.tracker(NetworkTracker)
        self._plugin = plugin
        self._args = args
        self._handle = handle
        self._topologies = handle.objects("NetworkTopology")
        self._known: tuple[NetworkTopology, CostTable] | None = None

    def ties(self, pod: Pod, *, both: bool) -> PodTies | None:
        """Return the dependencies of a pod; None if the plugin does not distinguish nodes for it.

        `both` counts those that depend on the pod as well.
        """
        label = pod.metadata.labels.get(GROUP_LABEL, "")
        if not label:
            return None
        key, workload, known = self._needs(pod)
        if known is None:
            searched = _unique(pod.metadata.namespace, *self._args.namespaces)
            self._missing(pod, "AppGroup", label, searched)
            return None
        needs = known.of(workload, both=both)
        if not needs:
            return None
        table = self.table()
        if table is None:
            name = self._args.network_topology_name
            self._missing(pod, "NetworkTopology", name, self._args.namespaces)
            return None
        return PodTies(key, workload, needs, table, "both" if both else "own")

    def indirect_ties(self, pod: Pod) -> PodTies | None:
        """Return the other dependencies of the pod's counterparts; None if they are unknown."""
        key, workload, known = self._needs(pod)
        table = self.table() if known is not None else None
        if known is None or table is None:
            return None
        needs = known.indirect(workload)
        return PodTies(key, workload, needs, table, "indirect") if needs else None

    def network_paths(self, pod: Pod, rows: Rows, *, books: bool) -> AreaPaths | None:
        """Return the network cost between these rows; None without a NetworkTopology.

        With `books`, include the links that could be too narrow for the pod's application.
        """
        table = self.table()
        if table is None:
            return None
        found, places = between(table, self.tracker.places, rows)
        if not books or not table.capacities:
            return found
        bookings = self.membership.bookings
        key = self.membership.key_of(pod)
        others = [
            all_of + own
            for all_of, own in zip(
                bookings.amounts(), bookings.changed_by(key, GroupPods()), strict=True
            )
        ]
        links = links_between(table, self.tracker.places, places, BookedAmounts(*others))
        return msgspec.structs.replace(found, links=links)

    @property
    def membership(self) -> Membership:
        """Return the pods of each AppGroup under these arguments."""
        return self.tracker.membership(self._args.namespaces)

    def table(self) -> CostTable | None:
        """Return the table of costs in use, None without a NetworkTopology."""
        topology = self.topology()
        if topology is None:
            return None
        if self._known is None or self._known[0] is not topology:
            known, table = self._known, CostTable(topology, self._args.weights_name)
            # The operator's annotations of nodes and bookings change no cost: cached results stay
            # valid.
            is_same = known is not None and known[1].is_same(table)
            self._known = (topology, known[1] if known is not None and is_same else table)
        return self._known[1]

    def topology(self) -> NetworkTopology | None:
        """Return the NetworkTopology in use, or None."""
        known = self._topologies
        for namespace in self._args.namespaces:
            found: NetworkTopology | None = known.get(
                f"{namespace}/{self._args.network_topology_name}"
            )
            if found is not None:
                return found
        return None

    def measured_at(self) -> str | None:
        """Return the time of calculation of the current cost table; None for a user's table."""
        topology = self.topology()
        name = self._args.weights_name
        if topology is None or any(one.name == name for one in topology.spec.weights):
            return None
        return topology.status.weight_calculation_time

    def _needs(self, pod: Pod) -> tuple[str, str, GroupNeeds | None]:
        """Return (AppGroup, workload, dependencies) of a pod; dependencies None if unknown."""
        membership = self.membership
        key, workload = membership.key_and_workload(pod)
        return key, workload, membership.needs_of(key)

    def _missing(self, pod: Pod, kind: str, name: str, namespaces: Sequence[str]) -> None:
        where = ", ".join(namespaces)
        text = (
            f'{kind} "{name}" was not found in namespace(s) {where}: '
            f"{self._plugin} treats all nodes equally"
        )
        self._handle.missing(pod, self._plugin, kind, text)


def _unique(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
