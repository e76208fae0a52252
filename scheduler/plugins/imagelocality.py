"""ImageLocality: prefer nodes that hold the pod's images already.

An image counts for its size times the share of nodes that hold it, so that a rare image does not
draw all its pods to one node.
"""

from __future__ import annotations

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.args import NoArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.pershape import PerSpec
from scheduler.framework.plugin import Plugin
from scheduler.framework.rowrule import RowRule
from scheduler.objects.pod import Pod
from scheduler.state.shapes import images

LEAST_BYTES = 23 * 1024 * 1024
MOST_BYTES_PER_CONTAINER = 1000 * 1024 * 1024

_MOST_COMBINED = 8
_MOST_KEPT = 128

# The images of a pod, and the bytes that score 100.
_Key = tuple[tuple[str, ...], int]


class _Kept(msgspec.Struct, frozen=True):
    version: object
    there: tuple[int, int]
    column: IntColumn


class ImageLocality(Plugin[NoArgs]):
    """Score by the bytes of the pod's images that a node holds; 0 under 23Mi, 100 from 1000Mi each."""

    reads = ("node.images",)
    bounded = True

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = PerSpec(lambda pod: tuple(full_name(name) for name in images(pod)))
        self._kept: dict[_Key, _Kept] = {}

    def score(self, cycle: Cycle, nodes: Nodes) -> IntColumn:
        """Return 0..100 by the bytes present."""
        key = self._needs(cycle)
        version = nodes.images_version
        kept = self._kept.get(key)
        there = (nodes.count, nodes.size)
        if kept is not None and kept.version is version and kept.there == there:
            return kept.column
        column = _scores(*key, nodes)
        if version is not None:
            column.flags.writeable = False
            if kept is None and len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = _Kept(version, there, column)
        return column

    def score_rule(self, cycle: Cycle) -> RowRule:
        """Return the images: pods that need the same ones are alike."""
        return RowRule(self._needs(cycle))

    def _needs(self, cycle: Cycle) -> _Key:
        return self._names.of(cycle), MOST_BYTES_PER_CONTAINER * _containers(cycle.pod)


def _scores(names: tuple[str, ...], most: int, nodes: Nodes) -> IntColumn:
    held: list[BoolColumn] = []
    weights: list[int] = []
    for name in names:
        column = nodes.image_held(name)
        if column is not None:
            held.append(column)
            weights.append(nodes.image_spread_bytes(name))
    return _by_combination(held, weights, most) if held else nodes.constant(_score(0, most))


def _by_combination(held: list[BoolColumn], weights: list[int], most: int) -> IntColumn:
    """Score each combination of images once and look it up for each row."""
    if len(held) > _MOST_COMBINED:
        sums = sum(column * np.int64(weight) for column, weight in zip(held, weights, strict=True))
        scores = [_score(present, most) for present in np.asarray(sums).tolist()]
        return np.array(scores, dtype=np.int64)
    combination = held[0].view(np.uint8)
    for bit, column in enumerate(held[1:], start=1):
        combination = combination | (column.view(np.uint8) << np.uint8(bit))
    present = [0]
    for weight in weights:
        present += [total + weight for total in present]
    return np.array([_score(total, most) for total in present], dtype=np.int64).take(combination)


def full_name(image: str) -> str:
    """Return the image's name with `:latest` where it has no tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _containers(pod: Pod) -> int:
    return len(pod.spec.containers) + len(pod.spec.init_containers)


def _score(present: int, most: int) -> int:
    if present < LEAST_BYTES:
        present = LEAST_BYTES
    elif present > most:
        present = most
    return 100 * (present - LEAST_BYTES) // (most - LEAST_BYTES)
