"""`Worth`: the value of a node's remaining devices for future pods.

worth(node) = scarcity(model) * (use(limiting resources, sum of hole(free share)) + bonus if unused)

The tables depend on the mix and on the models alone; they are computed once per mix. Looking a
column of nodes up costs a few array operations.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from scheduler.plugins.fragmentation.holes import CELLS, Floats, Ints, hole_values
from scheduler.plugins.fragmentation.mix import WHOLE, Mix, MixShape
from scheduler.plugins.fragmentation.usage import expected_use, interpolated

# Cells of value per device.
PER_DEVICE = 12


class Beside(msgspec.Struct, frozen=True):
    """A resource that limits the use of devices: its name, the width of a cell, the largest node's
    amount.
    """

    name: str
    step: float
    most: float

    @property
    def cells(self) -> int:
        """Return the cells of the largest node."""
        return max(int(np.ceil(self.most / self.step)), 1)


class NodeClass(msgspec.Struct, frozen=True, order=True):
    """Nodes of one class: device model, devices per node, limiting resources of an empty node."""

    model: str
    devices: float
    beside: tuple[int, ...]

    def admits(self, shape: MixShape) -> bool:
        """Return whether an empty node of this class can run the shape."""
        fits = all(need <= has for need, has in zip(shape.beside, self.beside, strict=True))
        return fits and shape.devices <= self.devices and shape.admits(self.model)


# The classes of a cluster with the number of their nodes.
Supply = tuple[tuple[NodeClass, int], ...]


class Worth:
    """Tables of one mix over one inventory."""

    def __init__(self, mix: Mix, supply: Supply, beside: Sequence[Beside], bonus: float) -> None:
        self._bonus = bonus
        self._beside = tuple(beside)
        users = [(shape, share) for shape, share in mix.shapes if shape.devices]
        self.holes = _holes(users)
        self.classes = [node_class for node_class, _ in supply]
        self.scarcity = np.array(_scarcities(users, supply))
        most = max((node_class.devices for node_class in self.classes), default=1)
        self._cells = int(np.ceil(PER_DEVICE * most))
        table_of, self._uses = self._tables(users)
        self._table_of = np.array(table_of, dtype=np.int64)

    def of(self, classes: Ints, beside: Sequence[Floats], free: Ints, untouched: Ints) -> Floats:
        """Return the value per row, in devices.

        `classes` index `self.classes`, `beside` has a column per resource, `free` is milli of each
        device [row, device], `untouched` the number of devices of rows whose devices are all
        unused, else 0.
        """
        holes = self.holes[free * CELLS // WHOLE].sum(axis=1)
        return self.of_holes(classes, beside, holes, untouched)

    def of_holes(
        self, classes: Ints, beside: Sequence[Floats], holes: Floats, untouched: Ints
    ) -> Floats:
        """Return the value per row from the sum of its devices' values."""
        used = holes
        cells = holes * PER_DEVICE
        numbers = self._table_of[classes]
        for resource, column, tables in zip(self._beside, beside, self._uses, strict=True):
            found = interpolated(tables, numbers, column / resource.step, cells)
            used = np.minimum(used, found)
        return np.asarray(self.scarcity[classes] * (used + self._bonus * untouched))

    def share_left(self, beside: Sequence[Floats]) -> Floats:
        """Return the mean free share of the largest node's limiting resources, per row."""
        shares = [
            column / resource.most for column, resource in zip(beside, self._beside, strict=True)
        ]
        return np.asarray(sum(shares) / max(len(shares), 1), dtype=np.float64)

    def _tables(self, users: Sequence[tuple[MixShape, float]]) -> tuple[list[int], list[Floats]]:
        """Return the number of each class's table, and the tables per resource beside.

        Classes whose models admit the same shapes share a table.
        """
        numbers: dict[tuple[int, ...], int] = {}
        table_of = []
        for node_class in self.classes:
            admitted = tuple(
                index for index, (shape, _) in enumerate(users) if shape.admits(node_class.model)
            )
            table_of.append(numbers.setdefault(admitted, len(numbers)))
        return table_of, [
            np.array(
                [
                    self._table(place, resource, [users[index] for index in admitted])
                    for admitted in numbers
                ]
            )
            for place, resource in enumerate(self._beside)
        ]

    def _table(
        self, number: int, resource: Beside, users: Sequence[tuple[MixShape, float]]
    ) -> Floats:
        total = sum(share for _, share in users) or 1.0
        demands = [
            (shape.beside[number] / resource.step, self._worth(shape) * PER_DEVICE, share / total)
            for shape, share in users
        ]
        return expected_use(demands, resource.cells, self._cells, 1 / PER_DEVICE)

    def _worth(self, shape: MixShape) -> float:
        if shape.is_shared:
            return float(self.holes[_cells(shape.milli)])
        return shape.amount


def _cells(milli: int) -> int:
    return -(-milli * CELLS // WHOLE)


def _holes(users: Sequence[tuple[MixShape, float]]) -> Floats:
    counts: dict[int, float] = {}
    for shape, share in users:
        if shape.is_shared:
            size = _cells(shape.milli)
            counts[size] = counts.get(size, 0.0) + share
    return hole_values(list(counts), list(counts.values()))


def _scarcities(users: Sequence[tuple[MixShape, float]], supply: Supply) -> list[float]:
    """Return the price of each class: 1 plus the pressure on it, less the least pressure.

    The demand, scaled to the inventory, is distributed over the classes that admit it by their
    devices.
    """
    devices = np.array([float(node_class.devices * count) for node_class, count in supply])
    pressure = np.zeros(len(supply))
    total = sum(shape.amount * share for shape, share in users)
    for shape, share in users:
        admitting = np.array([node_class.admits(shape) for node_class, _ in supply], dtype=bool)
        if devices[admitting].sum() > 0:
            demand = shape.amount * share / total * devices.sum()
            pressure[admitting] += demand / devices[admitting].sum()
    return (1.0 + pressure - pressure.min(initial=np.inf)).tolist() if len(supply) else []
