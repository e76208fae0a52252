"""ImageLocality: prefer nodes that already have the pod's images.

An image counts with its size times the share of nodes that have it, so that a rare image does not
attract all its pods to one node.
"""

import numpy as np

from scheduler.framework import (
    V1_37,
    BoolColumn,
    Cycle,
    Handle,
    IntColumn,
    NoArgs,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    images,
)

LEAST_BYTES = 23 * 1024 * 1024
MOST_BYTES_PER_CONTAINER = 1000 * 1024 * 1024

_MOST_COMBINED = 8

# The images of a pod, and the bytes that score 100.
_Key = tuple[tuple[str, ...], int]


class ImageLocality(Plugin[NoArgs]):
    """Score by the bytes of the pod's images on a node; 0 under 23Mi, 100 from 1000Mi each."""

    reads = ("node.images",)

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._counts_volumes = handle.release >= V1_37
        self._needs = PerSpec(self.key)

    def key(self, pod: Pod) -> _Key:
        """Return the images: pods with the same images are equivalent."""
        names = tuple(full_name(name) for name in images(pod))
        number = len(pod.spec.containers) + len(pod.spec.init_containers)
        if self._counts_volumes:
            number += sum(volume.image is not None for volume in pod.spec.volumes)
        return names, MOST_BYTES_PER_CONTAINER * number

    def score(self, cycle: Cycle, nodes: Nodes) -> IntColumn:
        """Return 0..100 by the bytes present."""
        return _scores(*self._needs.of(cycle), nodes)


def _scores(names: tuple[str, ...], most: int, nodes: Nodes) -> IntColumn:
    columns: list[BoolColumn] = []
    weights: list[int] = []
    for name in names:
        column = nodes.image_present(name)
        if column is not None:
            columns.append(column)
            weights.append(nodes.image_spread_bytes(name))
    return _by_combination(columns, weights, most) if columns else nodes.constant(_score(0, most))


def _by_combination(columns: list[BoolColumn], weights: list[int], most: int) -> IntColumn:
    """Score each combination of images once and look it up for each row."""
    if len(columns) > _MOST_COMBINED:
        sums = sum(
            column * np.int64(weight) for column, weight in zip(columns, weights, strict=True)
        )
        scores = [_score(present, most) for present in np.asarray(sums).tolist()]
        return np.array(scores, dtype=np.int64)
    combination = columns[0].view(np.uint8)
    for bit, column in enumerate(columns[1:], start=1):
        combination = combination | (column.view(np.uint8) << np.uint8(bit))
    present = [0]
    for weight in weights:
        present += [total + weight for total in present]
    return np.array([_score(total, most) for total in present], dtype=np.int64).take(combination)


def full_name(image: str) -> str:
    """Return the image's name with `:latest` where it has no tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def _score(present: int, most: int) -> int:
    if present < LEAST_BYTES:
        present = LEAST_BYTES
    elif present > most:
        present = most
    return 100 * (present - LEAST_BYTES) // (most - LEAST_BYTES)
