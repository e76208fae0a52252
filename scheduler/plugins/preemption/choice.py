"""Choose the candidate with the least harm, by kube-scheduler's criteria in order, with groups."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from scheduler.framework import IntMatrix, Placed, Rows
from scheduler.plugins.preemption.dryrun import Block
from scheduler.state.counts.rowlists import NOT_STARTED

# kube-scheduler adds 2**31 to each priority, so that more pods always weigh more.
_ABOVE_ZERO = 2**31

# The number of criteria.
CRITERIA = 6


# The criteria from the first on that keep victims few: violated budgets, priorities, their number.
MINIMAL = 4

# Picks one of several equal rows; the second argument returns the uids of a row's victims.
TieBreak = Callable[[Rows, Callable[[int], Iterable[str]]], int]


def choose(
    blocks: Sequence[Block],
    break_tie: TieBreak,
    stranded: Callable[[Sequence[Placed]], int] | None = None,
) -> tuple[int, tuple[Placed, ...], int]:
    """Return the best candidate's row, its victims and its violations; there must be a candidate.

    Fewest violated budgets, then the least important of the most important victims, smallest sum of
    priorities, fewest victims, fewest whole groups among them, latest start of the most important
    ones. All pods of a whole group are victims, with the group's priority. `break_tie` receives the
    remaining rows. With `stranded`, which counts the victims that fit nowhere else, fewest of these
    come after fewest victims.
    """
    harms = np.concatenate([harms_of(block) for block in blocks], axis=1)
    rows = np.concatenate([block.pods.rows[block.places] for block in blocks])
    if stranded is not None:
        places = [(block, place) for block in blocks for place in block.places.tolist()]
        column = np.zeros(len(rows), dtype=np.int64)
        for at in _least(harms[:MINIMAL]).tolist():
            block, place = places[at]
            column[at] = stranded(block.victims(place))
        harms = np.insert(harms, MINIMAL, column, axis=0)
    row = least_harm(
        rows, harms, lambda left: break_tie(left, lambda at: uids(_victims(blocks, at)))
    )
    return row, _victims(blocks, row), int(harms[0][rows == row][0])


def uids(victims: Iterable[Placed]) -> tuple[str, ...]:
    """Return the uids of pods, in order."""
    return tuple(victim.pod.metadata.uid for victim in victims)


def _victims(blocks: Sequence[Block], row: int) -> tuple[Placed, ...]:
    """Return the victims of a candidate."""
    for block in blocks:
        for place in block.places.tolist():
            if block.pods.rows[place] == row:
                return block.victims(place)
    raise ValueError(f"row {row} is no candidate")


def least_harm(rows: Rows, harms: IntMatrix, break_tie: Callable[[Rows], int]) -> int:
    """Return the row with the least harm, criterion by criterion.

    `harms` is indexed like `rows`.
    """
    rows = rows[_least(harms)]
    return int(rows[0]) if len(rows) == 1 else break_tie(rows)


def _least(harms: IntMatrix) -> Rows:
    """Return the candidates with the least harm, criterion by criterion."""
    left: Rows = np.arange(harms.shape[1])
    for harm in harms:
        here = harm[left]
        left = left[here == here[here.argmin()]]
        if len(left) == 1:
            break
    return left


def harms_of(block: Block) -> IntMatrix:
    """Return the criteria as numbers, [criterion, candidate]; less is better."""
    pods, leaving, starts = block.pods, block.leaving, block.pods.starts[:-1]
    highest = np.maximum.reduceat(np.where(leaving, pods.priority, -(2**62)), starts)
    heaviest = leaving & (pods.priority == highest[pods.index])
    size = np.where(leaving, pods.size, 0)
    gangs = np.zeros(len(pods), dtype=np.int64)
    gangs[list(pods.gangs)] = leaving[list(pods.gangs)]
    columns = (
        block.violations,
        highest,
        np.add.reduceat(size * (pods.priority + _ABOVE_ZERO), starts),
        np.add.reduceat(size, starts),
        np.add.reduceat(gangs, starts),
        -np.minimum.reduceat(np.where(heaviest, pods.start, NOT_STARTED), starts),
    )
    return np.array([column[block.places] for column in columns], dtype=np.int64)
