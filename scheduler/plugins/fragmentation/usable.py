"""Which idle devices pods of a shape can use: for `explain`, and the gauge of unusable devices."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.plugins.fragmentation.holes import Floats, Ints
from scheduler.plugins.fragmentation.loss import Left
from scheduler.plugins.fragmentation.mix import WHOLE, Mix, MixShape

Booleans = NDArray[np.bool_]
# Label of the devices that no waiting shape can use.
EVERY = "every"
# Labels of the gauge, and shapes in a text.
MOST_LABELS = 15
_MOST_TEXTS = 4


def pods_that_fit(left: Left, shape: MixShape) -> Ints:
    """Return per row how many pods of a shape fit the free amounts; models are not compared."""
    if shape.is_shared:
        count = (left.free // shape.milli).sum(axis=1) + left.whole * (WHOLE // shape.milli)
    else:
        whole = (left.free == WHOLE).sum(axis=1) + left.whole
        count = whole // (shape.devices or 1)
    for free, need in zip(left.beside, shape.beside, strict=True):
        if need:
            count = np.minimum(count, np.maximum(free, 0).astype(np.int64) // need)
    return np.asarray(count, dtype=np.int64)


def usable_texts(
    left: Left, mix: Mix, model: str, name: Callable[[MixShape], str]
) -> tuple[str, ...]:
    """Return how many pods of the commonest sizes the one row of `left` can take, by size."""
    sizes: dict[str, list[tuple[MixShape, float]]] = {}
    for shape, share in mix.shapes:
        sizes.setdefault(name(shape), []).append((shape, share))
    frequent = sorted(sizes.items(), key=lambda entry: -sum(share for _, share in entry[1]))
    found = []
    for size, shapes in frequent[:_MOST_TEXTS]:
        # Pods of one size differ in their other requests: the most frequent combination counts.
        shape = max(shapes, key=lambda entry: entry[1])[0]
        count = int(pods_that_fit(left, shape)[0]) if shape.admits(model) else 0
        found.append(f"{count} x {size}")
    return tuple(found)


def size_of(shape: MixShape) -> str:
    """Return the devices of a shape as text: `0.25` or `8`."""
    return f"{shape.amount:g}"


def unusable(
    left: Left, models: Sequence[str], waiting: Mapping[MixShape, int]
) -> Mapping[str, float]:
    """Return the idle devices that waiting pods cannot use, by size, and those of no use to any.

    `models` has the model of each class. Pods of one size count together: a device is usable if one
    of them fits. Only the sizes of the most waiting pods are returned; all count for `EVERY`.
    """
    idle, whole = left.free / WHOLE, left.whole.astype(np.float64)
    usable: dict[str, tuple[Booleans, Booleans]] = {}
    counts: dict[str, int] = {}
    for shape, count in waiting.items():
        size = size_of(shape)
        counts[size] = counts.get(size, 0) + count
        devices, others = _usable(left, models, shape)
        before = usable.get(size)
        if before is not None:
            devices, others = devices | before[0], others | before[1]
        usable[size] = devices, others
    frequent = sorted(usable, key=lambda size: (-counts[size], size))[:MOST_LABELS]
    found = {size: _outside(idle, whole, [usable[size]]) for size in frequent}
    if usable:
        found[EVERY] = _outside(idle, whole, usable.values())
    return found


def _usable(left: Left, models: Sequence[str], shape: MixShape) -> tuple[Booleans, Booleans]:
    """Return which devices [row, place], and which rows' further devices, a pod can use."""
    admitted = np.array([shape.admits(model) for model in models], dtype=bool)
    fits = (pods_that_fit(left, shape) > 0) & admitted[left.classes]
    least = shape.milli if shape.is_shared else WHOLE
    return fits[:, None] & (left.free >= least), fits & (left.whole > 0)


def _outside(idle: Floats, whole: Floats, usable: Iterable[tuple[Booleans, Booleans]]) -> float:
    devices, others = np.ones(idle.shape, dtype=bool), np.ones(whole.shape, dtype=bool)
    for used, used_others in usable:
        devices &= ~used
        others &= ~used_others
    return round(float(idle[devices].sum() + whole[others].sum()), 3)
