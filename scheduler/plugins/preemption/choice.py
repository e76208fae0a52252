"""Which candidate is the least harm: kube-scheduler's five criteria, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.base.arrays import IntColumn, Rows
from scheduler.plugins.preemption.dryrun import Block
from scheduler.state.podindex import Placed
from scheduler.state.rowlists import NOT_STARTED

# kube-scheduler adds 2**31 to each priority, so that more pods always weigh more.
_ABOVE_ZERO = 2**31


def choose(
    blocks: Sequence[Block], break_tie: Callable[[Rows], int]
) -> tuple[int, tuple[Placed, ...]]:
    """Return the best candidate's row and who has to leave it; there must be a candidate.

    Fewest violated budgets, then the least important of the most important victims, smallest sum of
    priorities, fewest victims, latest start of the most important ones. `break_tie` gets the rows
    that are left.
    """
    harms = np.concatenate([_harms(block) for block in blocks], axis=1)
    rows = np.concatenate([block.pods.rows[block.places] for block in blocks])
    left = np.arange(len(rows))
    for harm in harms:
        left = left[harm[left] == harm[left].min()]
    row = int(rows[left[0]]) if len(left) == 1 else break_tie(rows[left])
    for block in blocks:
        for place in block.places.tolist():
            if block.pods.rows[place] == row:
                return row, block.victims(place)
    raise ValueError(f"row {row} is no candidate")


def _harms(block: Block) -> IntColumn:
    """Return the criteria as numbers, [criterion, candidate]; less is better."""
    pods, leaving, starts = block.pods, block.leaving, block.pods.starts[:-1]
    highest = np.maximum.reduceat(np.where(leaving, pods.priority, -(2**62)), starts)
    heaviest = leaving & (pods.priority == highest[pods.index])
    columns = (
        block.violations,
        highest,
        np.add.reduceat(np.where(leaving, pods.priority + _ABOVE_ZERO, 0), starts),
        np.add.reduceat(leaving.astype(np.int64), starts),
        -np.minimum.reduceat(np.where(heaviest, pods.start, NOT_STARTED), starts),
    )
    return np.array([column[block.places] for column in columns], dtype=np.int64)
