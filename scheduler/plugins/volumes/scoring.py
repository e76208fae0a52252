"""Scores of nodes by the utilization of a pod's storage (StorageCapacityScoring).

Per storage class, requested over capacity: of the volumes that are bound if the node binds any,
otherwise of the capacity from which volumes are provisioned. A node's score is the mean over its
classes.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.framework import IntColumn, Nodes
from scheduler.objects.quantity import quantity
from scheduler.objects.storage import STORAGE, PersistentVolumeClaim
from scheduler.plugins.allocation import UtilizationShapePoint, percent_of, score_at
from scheduler.plugins.volumes.claims import class_of
from scheduler.plugins.volumes.matching import (
    MOST_BYTES,
    Matcher,
    VolumeChoice,
    VolumePlan,
    bounded,
    requested_bytes,
)

CAPACITY_SCORING: Final = "StorageCapacityScoring"
# The node with most free capacity comes first.
DEFAULT_SHAPE: Final = (UtilizationShapePoint(0, 10), UtilizationShapePoint(100, 0))


class _Use:
    """Requested and available bytes of one class per row; `counts` are the rows that use it."""

    def __init__(self, nodes: Nodes) -> None:
        self.requested = np.zeros(nodes.size, dtype=np.int64)
        self.capacity = np.zeros(nodes.size, dtype=np.int64)
        self.counts = np.zeros(nodes.size, dtype=np.bool_)


class CapacityScorer:
    """Scores nodes by a shape: utilization in percent → 0..100."""

    def __init__(self, shape: Sequence[UtilizationShapePoint], matcher: Matcher) -> None:
        self._line = np.array(
            [score_at(shape or DEFAULT_SHAPE, used) for used in range(101)], dtype=np.int64
        )
        self._matcher = matcher

    def scores(self, nodes: Nodes, claims: Sequence[PersistentVolumeClaim]) -> IntColumn:
        """Return the score of every node for unbound claims, 0 without a scored claim."""
        plan = self._matcher.plan(nodes, claims)
        is_static = np.zeros(nodes.size, dtype=np.bool_)
        for choice in plan.choices:
            is_static |= choice.number >= 0
        static = self._mean(nodes, _static(nodes, plan.choices))
        return np.where(is_static, static, self._mean(nodes, self._dynamic(nodes, plan)))

    def _dynamic(self, nodes: Nodes, plan: VolumePlan) -> dict[str, _Use]:
        """Return the uses of provisioned claims; claims of a class share one capacity."""
        uses: dict[str, _Use] = {}
        for claim, rows in plan.made:
            capacity = self._matcher.capacity(nodes, claim)
            if capacity is None:
                continue
            use = uses.setdefault(class_of(claim), _Use(nodes))
            here = rows & (capacity >= 0)
            use.requested[here] += bounded(requested_bytes(claim))
            use.capacity[here] = capacity[here]
            use.counts |= here
        return uses

    def _mean(self, nodes: Nodes, uses: dict[str, _Use]) -> IntColumn:
        """Return the mean of the classes' scores, rounded half away from zero."""
        total = np.zeros(nodes.size, dtype=np.int64)
        number = np.zeros(nodes.size, dtype=np.int64)
        for use in uses.values():
            capacity = np.minimum(use.capacity, MOST_BYTES)
            is_full = (capacity == 0) | (use.requested > use.capacity)
            used = percent_of(np.where(is_full, 0, np.minimum(use.requested, capacity)), capacity)
            total += np.where(use.counts, self._line[np.where(is_full, 100, used)], 0)
            number += use.counts
        mean: IntColumn = (2 * total + number) // np.maximum(2 * number, 1)
        return mean


def _static(nodes: Nodes, choices: Sequence[VolumeChoice]) -> dict[str, _Use]:
    """Return the uses of the volumes that claims are bound to, by the volumes' class."""
    uses: dict[str, _Use] = {}
    for choice in choices:
        for index, volume in enumerate(choice.volumes):
            use = uses.setdefault(class_of(volume), _Use(nodes))
            here = choice.number == index
            use.requested[here] += bounded(requested_bytes(choice.claim))
            use.capacity[here] += bounded(quantity(volume.spec.capacity.get(STORAGE, 0)))
            use.counts |= here
    return uses
