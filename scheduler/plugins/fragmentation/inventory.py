"""`DeviceInventory`: the mix of bound and pending pods, and the tables of that mix and the nodes.

Follows pods, nodes and resource slices. `version` changes when the tables are recomputed: when
nodes or their devices came, went or changed, and when the mix has moved by more than the distance
in the arguments.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_text
from scheduler.objects.reports.podmix import HistoryShape
from scheduler.plugins.dynamicresources.allocation.slices import SLICE
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.fragmentation.args import FragmentationAwareArgs, ShapeSpec
from scheduler.plugins.fragmentation.devicecolumns import DeviceColumns
from scheduler.plugins.fragmentation.history import KIND as HISTORY
from scheduler.plugins.fragmentation.history import MixHistory
from scheduler.plugins.fragmentation.holes import Floats, Ints
from scheduler.plugins.fragmentation.loss import Left
from scheduler.plugins.fragmentation.mix import MOST_SHAPES, WHOLE, Mix, MixShape, is_due, mix_of
from scheduler.plugins.fragmentation.needs import PodNeed, PodNeeds
from scheduler.plugins.fragmentation.usable import size_of, unusable
from scheduler.plugins.fragmentation.worth import Beside, NodeClass, Worth
from scheduler.state.change import Change
from scheduler.state.podindex import Placed
from scheduler.state.resources import counted, pod_requests

if TYPE_CHECKING:
    from scheduler.framework import Nodes
    from scheduler.state.cluster import Cluster
    from scheduler.state.table import NodeTable

# Cells of a limiting resource on the largest node.
BESIDE_CELLS = 256
# Parts of the largest node that cpu or memory is counted in where it counts as devices.
PARTS = 8


class DeviceInventory:
    """Count shapes of bound pods, number classes of nodes and compute the tables."""

    kinds: tuple[str, ...] = (SLICE,)

    def __init__(self, encoded: bytes, catalog: DeviceCatalog) -> None:
        self.args = msgspec.json.decode(encoded, type=FragmentationAwareArgs)
        self._catalog = catalog
        self._devices = DeviceColumns(catalog, frozenset(self.args.drivers))
        self._cluster: Cluster | None = None
        # Set by the plugin: the pods that wait are part of the mix.
        self.pending: Callable[[], Iterable[Pod]] = tuple
        # Set by the plugin where the arguments name an object: pods that have left.
        self.history: MixHistory | None = None
        self.worth: Worth | None = None
        self.mix = Mix()
        self._version = 0
        # The amount of `resources` that is one device.
        self.unit: float = 1
        self._clear()

    def _clear(self) -> None:
        self._needs: dict[str, PodNeed] = {}
        self._counts: Counter[PodNeed] = Counter()
        self._changes = 0
        self._nodes_changed = self._history_changed = True
        self._worth_of: tuple[Any, ...] = ()
        self._admitted: list[tuple[str, ...]] = []
        self._classes: Ints = np.zeros(0, dtype=np.int64)
        self._rows: Ints = np.zeros(0, dtype=np.int64)

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild from `cluster`."""
        self._clear()
        self._cluster = cluster
        self.needs = PodNeeds(self.args, cluster.store.of)
        for placed in cluster.pods:
            self._count(placed)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        if change.kind == "Pod":
            if change.before is not None:
                need = self._uncount(change.before.pod.metadata.uid)
                # An assumed pod that is forgotten has not run.
                if need is not None and change.after is None and not change.before.assumed:
                    self._note_left(need)
            if change.after is not None:
                self._count(change.after)
        elif change.kind == "Node":
            self._nodes_changed |= change.verb != "update" or bool(
                change.facts & {"node.labels", "node.allocatable"}
            )
        elif change.kind == SLICE:
            self._nodes_changed = True
        elif change.kind == HISTORY:
            self._history_changed = True
        if self.history is not None:
            self.history.write_due(self._stated)

    def columns(self) -> Mapping[str, Any]:
        """Return the counted shapes, for invariants and dumps."""
        return {
            "needs": {
                str(need): count
                for need, count in sorted(self._counts.items(), key=lambda entry: str(entry[0]))
            }
        }

    @property
    def version(self) -> int:
        """Return the version of the tables after updating them."""
        if self._cluster is None:
            return self._version
        if self._nodes_changed:
            self._admitted = []
            if name := self.args.divisible:
                most = int(self._table().allocatable(name).max(initial=0))
                self.unit = max(most, PARTS) / PARTS
            self._renew(self._mix())
        elif self._history_changed or is_due(self._changes, len(self._needs)):
            self._changes, self._history_changed = 0, False
            mix = self._mix()
            if mix.replaces(self.mix, self.args.max_drift):
                self._renew(mix)
        return self._version

    def rows(self) -> Ints:
        """Return the numbers of all rows of the node table."""
        return self._rows

    def classes(self) -> Ints:
        """Return the class of each row of the node table, -1 without devices."""
        return self._classes

    def devices(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return free milli [row, place] of devices in claims, and their number, of table rows."""
        if self._cluster is None:
            return np.zeros((len(rows), 1), dtype=np.int64), np.zeros_like(rows)
        return self._devices.columns(self._cluster.table.names, rows)

    def free_devices(
        self, nodes: "NodeTable | Nodes", places: Ints, rows: Ints
    ) -> tuple[Ints, Ints | Floats, Ints | Floats]:
        """Return free milli of devices in claims, all devices, and free ones without an identity.

        `places` are the positions in `nodes` of the table's `rows`.
        """
        free, devices = self.devices(rows)
        offered, idle = np.zeros_like(devices), np.zeros_like(devices)
        for name in self.args.resources:
            here = nodes.allocatable(name)[places]
            offered = offered + here
            idle += np.maximum(here - nodes.requested(name)[places], 0)
        if self.unit == 1:
            return free, devices + offered, idle
        return free, devices + offered / self.unit, idle / self.unit

    def left(self, rows: Ints) -> Left:
        """Return the remainders of these rows of the node table; all of them have devices."""
        table = self._table()
        free, devices, whole = self.free_devices(table, rows, rows)
        beside = tuple(
            (table.allocatable(name)[rows] - table.requested(name)[rows]).astype(np.float64)
            for name in self.args.beside
        )
        return Left(self._classes[rows], beside, free, whole, devices)

    def row_of(self, node: str) -> int:
        """Return the row of a node with devices, -1 for any other."""
        row: int = self._table().rows.get(node, -1)
        is_known = 0 <= row < len(self._classes) and self._classes[row] >= 0
        return row if is_known else -1

    def shape_of(self, need: PodNeed) -> MixShape:
        """Return a requirement with the models that it admits."""
        admitted = self._models()[need.nodes] if need.nodes else ()
        return MixShape(need.beside, need.devices / self.unit, need.milli, admitted)

    def size_of(self, shape: MixShape) -> str:
        """Return the size of a shape as text: `0.25` devices, or `4Gi memory + 500m cpu`."""
        name = self.args.divisible
        if not name:
            return size_of(shape)
        beside = zip(self.args.beside, shape.beside, strict=True)
        amounts = {name: round(shape.devices * self.unit), **dict(beside)}
        return " + ".join(
            f"{resource_text(each, amount)} {each}" for each, amount in amounts.items()
        )

    def idle(self) -> float:
        """Return the idle devices of all nodes."""
        left = self._left_of_all()
        return 0.0 if left is None else float(left.free.sum() / WHOLE + left.whole.sum())

    def unusable(self, waiting: Iterable[Pod]) -> Mapping[str, float]:
        """Return the idle devices that waiting pods cannot use, by their size; see `unusable`."""
        left = self._left_of_all()
        if left is None or self.worth is None or self.args.divisible:
            return {}
        shapes: Counter[MixShape] = Counter()
        for need, count in self._needs_of(waiting).items():
            if need.devices:
                shapes[self.shape_of(need)] += count
        return unusable(left, [kind.model for kind in self.worth.classes], shapes)

    def _needs_of(self, pods: Iterable[Pod]) -> Counter[PodNeed]:
        return Counter(self.needs.of(pod, counted(pod_requests(pod))) for pod in pods)

    def _left_of_all(self) -> Left | None:
        if self.version < 0 or self.worth is None:
            return None
        return self.left(np.flatnonzero(self._classes >= 0))

    def _count(self, placed: Placed) -> None:
        if not self.needs.may_use_devices(placed.pod, placed.requests):
            return
        need = self.needs.of(placed.pod, placed.requests)
        self._needs[placed.pod.metadata.uid] = need
        self._counts[need] += 1
        self._changes += 1

    def _uncount(self, uid: str) -> PodNeed | None:
        need = self._needs.pop(uid, None)
        if need is not None:
            self._counts[need] -= 1
            if not self._counts[need]:
                del self._counts[need]
            self._changes += 1
        return need

    def _note_left(self, need: PodNeed) -> None:
        if self.history is not None and need.devices:
            self.history.left(need)

    def _stated(self, need: PodNeed) -> HistoryShape:
        """Return a requirement as the history states it."""
        return self.needs.stated(need, self.shape_of(need).models)

    def _mix(self) -> Mix:
        """Return the mix of bound and pending pods with devices, of those that have left, and of
        the arguments' shapes.
        """
        counts: Counter[MixShape] = Counter()
        for need, count in (self._counts + self._needs_of(self.pending())).items():
            if need.devices:
                counts[self.shape_of(need)] += count
        weights = sum(shape.weight for shape in self.args.shapes) or 1.0
        expected: dict[MixShape, float] = dict(counts)
        stated: list[tuple[ShapeSpec | HistoryShape, float]] = [
            (shape, self.args.shapes_weight * shape.weight / weights) for shape in self.args.shapes
        ]
        if self.history is not None:
            stated += [(shape, shape.weight) for shape in self.history.shapes]
        for shape, weight in stated:
            need = self.needs.expected(shape)
            amount = need.devices / self.unit
            key = MixShape(need.beside, amount, need.milli, tuple(sorted(shape.models)))
            expected[key] = expected.get(key, 0.0) + weight
        return mix_of(expected, MOST_SHAPES)

    def _models(self) -> list[tuple[str, ...]]:
        """Return the models that pods admit, by the number of their node requirements."""
        found = self._admitted
        if len(found) == len(self.needs.required):
            return found
        nodes = [node for node in self._table().nodes if node is not None]
        label = self.args.model_label
        every = {node.metadata.labels.get(label, "") for node in nodes}
        for required in self.needs.required[len(found) :]:
            admitted = (
                every
                if required is None
                else {n.metadata.labels.get(label, "") for n in nodes if required.matches(n)}
            )
            found.append(() if admitted == every else tuple(sorted(admitted)))
        return found

    def _renew(self, mix: Mix) -> None:
        """Recompute the tables."""
        table = self._table()
        self._nodes_changed = self._history_changed = False
        self._changes = 0
        rows = self._rows = np.arange(table.size)
        _, counts, _ = self.free_devices(table, rows, rows)
        amounts = [table.allocatable(name) for name in self.args.beside]
        beside = [
            Beside(
                name,
                max(int(column.max(initial=0)), 1) / BESIDE_CELLS,
                max(int(column.max(initial=0)), 1),
            )
            for name, column in zip(self.args.beside, amounts, strict=True)
        ]
        kinds: list[NodeClass | None] = []
        for row, node in enumerate(table.nodes):
            if node is None or not counts[row]:
                kinds.append(None)
                continue
            model = node.metadata.labels.get(self.args.model_label, "")
            kinds.append(NodeClass(model, float(counts[row]), tuple(int(c[row]) for c in amounts)))
        supply = tuple(sorted(Counter(kind for kind in kinds if kind is not None).items()))
        numbers = {kind: number for number, (kind, _) in enumerate(supply)}
        self._classes = np.array(
            [-1 if kind is None else numbers[kind] for kind in kinds], dtype=np.int64
        )
        self._version += 1
        # Drivers publish slices again without a change: the tables take a tenth of a second.
        self.mix = mix
        if self._worth_of != (mix.shapes, supply, tuple(beside)):
            self._worth_of = (mix.shapes, supply, tuple(beside))
            self.worth = Worth(mix, supply, beside, self.args.whole_node_bonus) if supply else None

    def _table(self) -> Any:
        assert self._cluster is not None  # noqa: S101 - trackers are rebuilt before their first use
        return self._cluster.table
