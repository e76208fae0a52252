"""The loss of value by a placement, for columns of nodes: the objective of FragmentationAware."""

from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np

from scheduler.plugins.fragmentation.holes import CELLS, Floats, Ints
from scheduler.plugins.fragmentation.mix import WHOLE
from scheduler.plugins.fragmentation.worth import Worth

# Devices of a large node: their remainders weigh `node_fit` in total.
_NODE_DEVICES = 8


class Weights(msgspec.Struct, frozen=True):
    """Penalties on remainders: of the device, of the node's devices, and of limiting resources."""

    device_fit: float = 0.01
    node_fit: float = 0.01
    beside_fit: float = 0.01


class Left(msgspec.Struct, frozen=True):
    """Remainders of nodes: class, limiting resources, milli of each device, further whole devices.

    `devices` is the number of a node's devices, `whole` are free devices without an identity, as
    with extended resources; fractions where cpu or memory counts as devices.
    """

    classes: Ints
    beside: tuple[Floats, ...]
    free: Ints
    whole: Ints | Floats
    devices: Ints | Floats


def losses(
    worth: Worth, weights: Weights, left: Left, beside: Sequence[float], devices: float, milli: int
) -> Floats:
    """Return the loss in devices of placing a pod on each of the rows, all of which fit it."""
    holes = worth.holes[left.free * CELLS // WHOLE].sum(axis=1) + left.whole
    idle = left.free.sum(axis=1) / WHOLE + left.whole
    untouched = idle == left.devices
    extra = np.zeros(len(holes))
    taken: Floats | float = devices * milli / WHOLE
    lost: Floats | float = float(devices)
    if devices == 1 and milli < WHOLE:
        lost, extra = _shared(worth, weights, left.free, milli)
    after_beside = [column - need for column, need in zip(left.beside, beside, strict=True)]
    before = worth.of_holes(left.classes, left.beside, holes, np.where(untouched, left.devices, 0))
    whole_after = np.where(untouched & (devices == 0), left.devices, 0)
    after = worth.of_holes(left.classes, after_beside, np.maximum(holes - lost, 0), whole_after)
    extra = extra + weights.node_fit * (idle - taken) / _NODE_DEVICES
    extra = extra + weights.beside_fit * worth.share_left(after_beside)
    return np.asarray(before - after + extra, dtype=np.float64)


class Need(Protocol):
    """A pod's requirements."""

    @property
    def beside(self) -> Sequence[float]:
        """Return the amounts of the limiting resources."""

    @property
    def devices(self) -> float:
        """Return the number of devices."""

    @property
    def milli(self) -> int:
        """Return the part of each device."""


def remainder(worth: Worth, weights: Weights, left: Left, need: Need) -> Left:
    """Return the free amounts of one row after placing a pod that fits it."""
    free, whole = left.free.copy(), left.whole
    if need.devices == 1 and need.milli < WHOLE:
        place = int(device_keys(worth, weights, free, need.milli)[0].argmin())
        free[0, place] = max(int(free[0, place]) - need.milli, 0)
    elif need.devices:
        places = np.flatnonzero(free[0] == WHOLE)[: int(need.devices)]
        free[0, places] = 0
        whole = np.maximum(whole - (need.devices - len(places)), 0)
    beside = tuple(column - used for column, used in zip(left.beside, need.beside, strict=True))
    return Left(left.classes, beside, free, whole, left.devices)


def device_keys(worth: Worth, weights: Weights, free: Ints, milli: int) -> Floats:
    """Return the loss per device of giving a pod a share of it; infinite where it does not fit."""
    fits = free >= milli
    after = np.where(fits, free - milli, 0)
    holes = worth.holes
    lost = holes[free * CELLS // WHOLE] - holes[after * CELLS // WHOLE]
    return np.where(fits, lost + weights.device_fit * after / WHOLE, np.inf)


def _shared(worth: Worth, weights: Weights, free: Ints, milli: int) -> tuple[Floats, Floats]:
    """Return the value lost on the best device of each row, and the penalty for its remainder."""
    keys = device_keys(worth, weights, free, milli)
    best = keys.argmin(axis=1)
    rows = np.arange(len(free))
    after = np.maximum(free[rows, best] - milli, 0)
    penalty = weights.device_fit * after / WHOLE
    lost = np.where(np.isinf(keys[rows, best]), 1.0, keys[rows, best] - penalty)
    return np.asarray(lost, dtype=np.float64), np.asarray(penalty, dtype=np.float64)
