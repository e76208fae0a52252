"""Keep `status` of every NetworkTopology, and its slices, in step with spec, nodes, pods and
measurements.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from operators.cooperative import in_turns
from operators.keeper import Key, StatusKeeper
from operators.networktopology import measuring
from operators.networktopology.allocated import LabelLink, Place, booked_by, has_capacities
from operators.networktopology.checks import READ_LEVELS, Values
from operators.networktopology.measured import Calculated, MeasuredNode, calculated, samples
from operators.networktopology.slicekeeper import SETTLE_S, SliceKeeper, Slices
from operators.networktopology.slices import slices_of
from operators.networktopology.status import ObservedTopology, merge_patch, status_of
from operators.operator import OperatorSurroundings, Recipe
from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, Workload, namespace_of
from scheduler.objects.kinds import Kind
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL, NetworkTopology
from scheduler.state.view import ClusterView

NETWORK_TOPOLOGY = Kind(
    "NetworkTopology",
    "networktopology.diktyo.x-k8s.io",
    "v1alpha1",
    "networktopologies",
    NetworkTopology,
    required=False,
)


class MeasuredResult(msgspec.Struct, frozen=True):
    """The result of a measurement for these nodes; `number` identifies it."""

    number: int
    measurement: measuring.Measurement
    nodes: Sequence[MeasuredNode]
    costs: Calculated
    slices: Slices


class NetworkTopologyOperator(StatusKeeper[NetworkTopology]):
    """Counts nodes, validates tables, converts measurements into costs, and sums the bookings of
    pods.
    """

    kind = NETWORK_TOPOLOGY
    wakes = ("Node", "Pod", "AppGroup", "NetworkTopologySlice")

    def __init__(self, around: OperatorSurroundings) -> None:
        super().__init__(around)
        self._measuring = measuring.Measuring(around.api, around.clock, around.reported)
        self._slices = SliceKeeper(around)
        self._bookings = PodBookings(around.view, around.settings.app_group.namespaces)
        self._nodes: tuple[MeasuredNode, ...] = ()
        self._values: Values = {}
        self._results: dict[Key, MeasuredResult] = {}
        self._calculations = self._looks = 0
        self._retry_at: float | None = None
        self._error = ""

    async def gather(self) -> None:
        """Query the due sources, compute costs, write slices, and count allocations."""
        self._measuring.forget(self.objects)
        for key, topology in list(self.objects.items()):
            await self._measuring.refresh(key, topology)
        if self.objects:
            self._look_at_nodes()
        for key, topology in list(self.objects.items()):
            await self._calculate(key, topology)
        self._settle_gathering(await self._slices.keep(self._wanted_slices()))
        if any(
            has_capacities(table) for one in self.objects.values() for table in one.spec.weights
        ):
            await self._bookings.count(self._places())

    def patience_s(self) -> float | None:
        """Return the time of the next poll of a source, or of the next retry."""
        now = self.around.clock.now()
        due = [one for one in (self._measuring.next_due(), self._retry_at) if one is not None]
        if self._slices.is_settling:
            due.append(now + SETTLE_S)
        return max(0.1, min(due) - now) if due else None

    async def surroundings(self, key: Key, obj: NetworkTopology) -> Hashable:
        """Return measurements and their faults, nodes, and allocations if they are shown."""
        result, (_, fault) = self._results.get(key), self._measuring.of(key)
        return (
            self.around.view.node_count(),
            self._looks,
            result.number if result else 0,
            self._is_expired(key, obj),
            fault,
            self._bookings.version if any(map(has_capacities, obj.spec.weights)) else 0,
        )

    async def patch(self, key: Key, obj: NetworkTopology) -> dict[str, Any]:
        """Return the fields of status to be written."""
        result, (measurement, fault) = self._results.get(key), self._measuring.of(key)
        observed = ObservedTopology(
            node_count=self.around.view.node_count(),
            generation=obj.metadata.generation,
            previous=obj.status,
            now=rfc3339(self.around.clock.now()),
            measured=None if result is None else result.costs,
            measured_at="" if result is None else rfc3339(result.measurement.taken_at),
            source=measuring.source_of(obj) or "" if measurement is None else measurement.source,
            fault=fault,
            refused=() if measurement is None else measurement.reading.refused,
            expired=self._is_expired(key, obj),
            bookings=self._bookings.totals,
            values=self._values,
        )
        wanted = status_of(obj.spec, observed)
        return merge_patch(obj.status, wanted, legacy=self.around.legacy)

    async def _calculate(self, key: Key, topology: NetworkTopology) -> None:
        """Convert the newest measurement into costs, once; nodes without a measurement change
        nothing.
        """
        measurement, _ = self._measuring.of(key)
        if measurement is None:
            self._results.pop(key, None)
            return
        reading, known = measurement.reading, self._results.get(key)
        measured = [node for node in self._nodes if node.name in measurement.nodes]
        if known is not None and (known.measurement, known.nodes) == (measurement, measured):
            return
        found = await samples(self._nodes, reading, measurement.taken_at)
        costs = await calculated(found, self.around.calculator, unit_us=reading.unit_us)
        at = rfc3339(measurement.taken_at)
        slices = await slices_of(topology, found, self._slices.published(key), at)
        self._calculations += 1
        self._results[key] = MeasuredResult(
            self._calculations, measurement, measured, costs, slices
        )

    def _wanted_slices(self) -> dict[Key, Slices | None]:
        """Return the slices of each topology; None while its source has not responded yet."""
        wanted: dict[Key, Slices | None] = {}
        for key, topology in self.objects.items():
            result = self._results.get(key)
            if result is not None:
                wanted[key] = result.slices
            elif measuring.source_of(topology) is not None and not self._is_expired(key, topology):
                wanted[key] = None
        return wanted

    def _is_expired(self, key: Key, topology: NetworkTopology) -> bool:
        """Return whether the costs in the status are older than their source's responses are
        valid.
        """
        since = parse_rfc3339(topology.status.weight_calculation_time)
        if key in self._results or since is None or measuring.source_of(topology) is None:
            return False
        return self.around.clock.now() - since >= measuring.expires_s(topology.spec)

    def _settle_gathering(self, error: str) -> None:
        self._retry_at = self.around.clock.now() + measuring.RETRY_S if error else None
        if error != self._error:
            self._error = error
            self.around.report(error)

    def _look_at_nodes(self) -> None:
        """Read the nodes with the relevant labels; changed nodes lead to new costs."""
        nodes = tuple(
            MeasuredNode(
                node.metadata.name,
                {
                    key: node.metadata.labels[key]
                    for key in READ_LEVELS
                    if key in node.metadata.labels
                },
            )
            for node in self.around.view.nodes()
        )
        if nodes != self._nodes:
            self._nodes = nodes
            self._looks += 1
            found = {
                key: {node.labels[key] for node in nodes if key in node.labels}
                for key in READ_LEVELS
            }
            self._values = found if nodes else {}

    def _places(self) -> Mapping[str, Place]:
        return {
            node.name: (node.labels.get(REGION_LABEL, ""), node.labels.get(ZONE_LABEL, ""))
            for node in self._nodes
        }


RECIPE = Recipe("networktopology", NETWORK_TOPOLOGY, NetworkTopologyOperator)


class _Group(NamedTuple):
    """The allocations of a group, with the workloads and pods that they were computed from."""

    workloads: Sequence[Workload]
    pods: Mapping[str, Counter[Place]]
    links: Mapping[LabelLink, int]


class PodBookings:
    """Computes the bandwidth that all applications allocate per link, cached by group.

    Sums do not depend on the history of events, so a restart books the same. A group whose pods
    have not moved keeps its bookings. The rule itself is in `allocated`. `namespaces` are those
    where the plugins look up AppGroups besides the pod's own.
    """

    def __init__(self, view: ClusterView, namespaces: Sequence[str]) -> None:
        self._view = view
        self._namespaces = namespaces
        self._groups: dict[Key, _Group] = {}
        self.totals: Mapping[LabelLink, int] = {}
        self.version = 0

    async def count(self, places: Mapping[str, Place]) -> None:
        """Update `totals`; `places` has the locations of nodes."""
        there, groups = self._booking()
        pods: dict[Key, dict[str, Counter[Place]]] = defaultdict(lambda: defaultdict(Counter))
        async for handful in in_turns(list(self._view.pods()) if groups else ()):
            for placed in handful:
                meta, place = placed.pod.metadata, places.get(placed.node)
                name = meta.labels.get(GROUP_LABEL, "")
                if place is None or name not in there:
                    continue
                namespace = namespace_of(there[name], meta.namespace, self._namespaces)
                if namespace is not None and (namespace, name) in groups:
                    pods[namespace, name][meta.labels.get(WORKLOAD_LABEL, "")][place] += 1
        self._groups = {key: one for key, one in self._groups.items() if key in groups}
        totals: Counter[LabelLink] = Counter()
        async for some in in_turns(groups.items(), 50):
            for key, workloads in some:
                totals.update(self._of(key, workloads, pods.get(key, {})))
        if totals != self.totals:
            self.totals = totals
            self.version += 1

    def _booking(self) -> tuple[Mapping[str, set[str]], Mapping[Key, Sequence[Workload]]]:
        """Return the namespaces of all groups by name, and the workloads that request bandwidth."""
        there: dict[str, set[str]] = defaultdict(set)
        members_of: dict[Key, Sequence[Workload]] = {}
        for group in self._view.objects("AppGroup").values():
            meta, members = group.metadata, group.spec.members
            there[meta.name].add(meta.namespace)
            if any(on.min_bandwidth for one in members for on in one.dependencies):
                members_of[meta.namespace, meta.name] = members
        return there, members_of

    def _of(
        self, key: Key, workloads: Sequence[Workload], pods: Mapping[str, Counter[Place]]
    ) -> Mapping[LabelLink, int]:
        known = self._groups.get(key)
        if known is None or known.workloads != workloads or known.pods != pods:
            known = self._groups[key] = _Group(workloads, pods, booked_by(workloads, pods))
        return known.links
