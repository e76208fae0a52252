"""FragmentationAware: place pods where the remaining devices have the highest value for future
pods.

The score is the loss of value by the placement (`loss`), by tables that are computed from the mix
of pods (`inventory`). The node with the least loss scores 100, all others 99 or less: a loss of one
device scores 0.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from scheduler.base.errors import ConfigError
from scheduler.framework import (
    SKIP,
    BoolColumn,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    Plugin,
    Pod,
    Rows,
    Status,
)
from scheduler.plugins.dynamicresources.allocation.slices import SLICE
from scheduler.plugins.dynamicresources.catalog import device_catalog
from scheduler.plugins.dynamicresources.podclaims import CLAIM
from scheduler.plugins.fragmentation.args import FragmentationAwareArgs
from scheduler.plugins.fragmentation.history import KIND as HISTORY
from scheduler.plugins.fragmentation.history import MixHistory
from scheduler.plugins.fragmentation.inventory import DeviceInventory
from scheduler.plugins.fragmentation.loss import Left, Weights, device_keys, losses, remainder
from scheduler.plugins.fragmentation.needs import PodNeed
from scheduler.plugins.fragmentation.usable import usable_texts
from scheduler.state.resources import counted, pod_requests

# Raw scores are in parts of a device; a power of two, as `_normalize` divides every row by it.
_SHIFT = 20
_UNIT = 1 << _SHIFT
_LEAST = int(np.iinfo(np.int64).min)
# Columns of raw scores, one per requirement of pods, whose normalized scores are kept.
_MOST_NORMALIZED = 64


class FragmentationAware(Plugin[FragmentationAwareArgs]):
    """Prefer the node where a placement costs future pods the least usable capacity."""

    reads = (
        "node",
        "node.allocatable",
        "node.labels",
        "pod.added",
        "pod.deleted",
        "pod.requests",
        CLAIM,
        SLICE,
    )
    local = True

    def __init__(self, args: FragmentationAwareArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._catalog = device_catalog(handle)
        encoded = msgspec.json.encode(args)
        self.inventory = handle.tracker(DeviceInventory, encoded, self._catalog)
        self.inventory.pending = handle.pending_pods
        if args.history:
            self._follow_history(encoded)
        self._weights = Weights(args.device_fit, args.node_fit, args.beside_fit)
        self.key_follows = (self.inventory, handle.objects(SLICE), self._catalog)
        if args.chooses_devices:
            self._catalog.order = self._device_order
        self.normalize = self._normalize
        self._normalized: dict[int, _Normalized] = {}

    def key(self, pod: Pod) -> Hashable | None:
        """Return the pod's requirements, with the versions of the tables and of the device use.

        A claim may change the use of devices on nodes other than its pod's.
        """
        version = self.inventory.version
        if self.inventory.worth is None:
            return None
        need = self.inventory.needs.of(pod, counted(pod_requests(pod)))
        return version, self._catalog.version, need

    def pre_score(self, cycle: Cycle, _nodes: Nodes) -> Status | PodNeed:
        """Return the pod's requirements; Skip where no node has devices."""
        if self.inventory.version < 0 or self.inventory.worth is None:
            return SKIP
        return self.inventory.needs.of_shape(cycle)

    def score(self, _cycle: Cycle, nodes: Nodes, need: PodNeed) -> IntColumn:
        """Return minus the loss of each row in 2**-20 of a device.

        0 on rows without devices.
        """
        inventory = self.inventory
        if inventory.worth is None:
            return nodes.constant(0)
        classes = nodes.part(inventory.classes())[: nodes.size]
        places = np.flatnonzero(classes >= 0)
        if not len(places):
            return nodes.constant(0)
        scores = np.zeros(nodes.size, dtype=np.int64)
        left = self._left(nodes, places)
        devices = need.devices / inventory.unit
        found = losses(inventory.worth, self._weights, left, need.beside, devices, need.milli)
        scores[places] = np.rint(-found * _UNIT).astype(np.int64)
        if self.args.keeps_others_off and not need.devices:
            # A whole device is the largest difference that `_normalize` keeps.
            scores[places] -= _UNIT
        return scores

    def score_cells(self, cycle: Cycle, nodes: Nodes, need: PodNeed) -> Callable[[int], int]:
        """Return the scores of single rows; a row without devices needs no column."""
        class_of = self.inventory.classes().item

        def cell(row: int) -> int:
            if class_of(row) < 0:
                return 0
            return int(self.score(cycle, nodes.only(np.array([row])), need)[0])

        return cell

    def figures(self, cycle: Cycle, node: str) -> tuple[str, ...]:
        """Return the capacity of the node's devices after the pod, for `explain`."""
        inventory = self.inventory
        if inventory.version < 0 or inventory.worth is None or (row := inventory.row_of(node)) < 0:
            return ()
        left = inventory.left(np.array([row]))
        need = inventory.shape_of(inventory.needs.of_shape(cycle))
        after = remainder(inventory.worth, self._weights, left, need)
        model = inventory.worth.classes[int(left.classes[0])].model
        texts = usable_texts(after, inventory.mix, model, inventory.size_of)
        if not texts:
            return ()
        each = "requests" if self.args.divisible else "devices"
        return (f"usable afterwards, pods x {each} of each: {', '.join(texts)}",)

    def _follow_history(self, encoded: bytes) -> None:
        """Count the pods that have left, from the object that the arguments name."""
        args, handle = self.args, self.handle
        history = handle.tracker(
            MixHistory, args.history, encoded, name=f"{HISTORY} {args.history}"
        )
        if history.encoded != encoded:
            raise ConfigError(
                f'two profiles name history "{args.history}" and count shapes by different '
                "arguments of FragmentationAware: give one of them another name"
            )
        history.connect(
            handle, args.history_half_life_hours * 3600.0, float(args.history_period_seconds)
        )
        self.inventory.history = history

    def _left(self, nodes: Nodes, places: Rows) -> Left:
        """Return the remainders of the nodes at these positions of the view."""
        inventory = self.inventory
        rows = nodes.part(inventory.rows())[places]
        free, devices, whole = inventory.free_devices(nodes, places, rows)
        beside = tuple(
            (nodes.allocatable(name)[places] - nodes.requested(name)[places]).astype(np.float64)
            for name in self.args.beside
        )
        return Left(inventory.classes()[rows], beside, free, whole, devices)

    def _device_order(self, free: Sequence[int], milli: int) -> list[int]:
        """Return the order in which devices with these free milli are tried for a share."""
        worth = self.inventory.worth
        if worth is None:
            return list(range(len(free)))
        keys = device_keys(worth, self._weights, np.array(free, dtype=np.int64), milli)
        return [int(place) for place in np.argsort(keys, kind="stable")]

    def _normalize(self, _cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
        """Return 100 for the least loss, and 99 down to 0 for up to one device more."""
        known = self._normalized.get(id(raw))
        row = int(raw.argmax()) if known is None else known.row
        # A masked maximum takes ten times as long as a plain one.
        best = raw.item(row) if nodes.feasible[row] else _best(raw, nodes.feasible)
        if known is not None and known.best == best:
            return known.scores
        behind = np.minimum(best - raw, _UNIT)
        scores = np.where(behind <= 0, 100, 99 - (behind * 99 >> _SHIFT))
        if not raw.flags.writeable:  # kept, and updated in a copy: the same scores until then
            scores.flags.writeable = False
            if known is None and len(self._normalized) == _MOST_NORMALIZED:
                del self._normalized[next(iter(self._normalized))]
            self._normalized[id(raw)] = _Normalized(raw, row, best, scores)
        return scores


class _Normalized(NamedTuple):
    """Raw scores, the row of the highest, the best of a feasible row, and the scores for that.

    The reference to `raw` keeps its `id` from being used again.
    """

    raw: IntColumn
    row: int
    best: int
    scores: IntColumn


def _best(raw: IntColumn, feasible: BoolColumn) -> int:
    return int(raw.max(where=feasible, initial=_LEAST))
