"""The score of InterPodAffinity: the weights of placed pods in a node's domains.

The pod's own preferred terms count placed pods, and terms of placed pods count if they select the
pod. Both directions are summed per topology key and domain, over all nodes.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from scheduler.framework import IntColumn, Nodes
from scheduler.state.counts.rowcounts import RowCounts
from scheduler.state.domains import Domains

MOST = 100

# The number of scores that are computed in advance.
_FEW = 4096

Weights: TypeAlias = Mapping[str, IntColumn]


class TermWeights:
    """Adds up weights per topology key and domain."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._weights: dict[str, IntColumn] = {}
        self._seen = False

    def add(self, key: str, holders: RowCounts, weight: int) -> None:
        """Add `weight` for each of `holders` to its domain."""
        if not holders:
            return
        domains = self._nodes.domains(key)
        sums = holders.sums(domains)
        sums[0] = 0
        self._seen = self._seen or bool(sums.any())
        if weight != 1:
            sums *= weight
        weights = self._weights.get(key)
        self._weights[key] = sums if weights is None else weights + sums

    def move(self, key: str, row: int, weight: int) -> None:
        """Add `weight` to the domain of one row, for a hypothetical pod."""
        domains = self._nodes.domains(key)
        slot = domains.slots[row]
        if slot:
            self._seen = True
            weights = self._weights.setdefault(key, _nothing(domains))
            weights[slot] += weight

    def weights(self) -> Weights | None:
        """Return the sums; None if nothing was added to any domain."""
        return self._weights if self._seen else None


def raw(nodes: Nodes, weights: Weights) -> IntColumn:
    """Return for each row the sum of the weights of its domains."""
    total: IntColumn | None = None
    for key, sums in weights.items():
        if sums.any():
            part = sums.take(nodes.domains(key).slots, mode="clip")
            total = part if total is None else total + part
    return nodes.constant(0) if total is None else total


def normalized(nodes: Nodes, scores: IntColumn) -> IntColumn:
    """Stretch scores onto 0..100; all 0 when they are equal."""
    feasible = nodes.feasible
    kept = scores if np.count_nonzero(feasible) == len(feasible) else scores[feasible]
    if not len(kept):
        return nodes.constant(0)
    least, most = int(kept.min()), int(kept.max())
    if least == most:
        return nodes.constant(0)
    above = scores - least
    if most - least <= _FEW:
        # A look-up is several times cheaper than a division; numbers out of range are clipped.
        return _shares(most - least).take(above, mode="clip")
    # Infeasible rows may have any value; the framework requires 0..100 on all rows.
    return np.where(feasible, _share(above, most - least), 0)


@lru_cache(maxsize=64)
def _shares(span: int) -> IntColumn:
    return _share(np.arange(span + 1, dtype=np.int64), span)


def _share(above: IntColumn, span: int) -> IntColumn:
    """Return `above` as hundredths of `span` as kube-scheduler does: as a float, times 100, cut."""
    shares = above / span
    shares *= MOST
    return shares.astype(np.int64)


def _nothing(domains: Domains) -> IntColumn:
    return np.zeros(domains.size, dtype=np.int64)
