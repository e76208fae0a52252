"""Adding cost tables: the least cost of n pods over two sets of units, in words compared in order.

A table is int64 [words, pods + 1]; `NEVER` in its first word marks counts that cannot be. Several tables
of one width, one for each number of used units, are stacked as rows. Called by scheduler.solver.exact
for every unit of the tree.
"""

from __future__ import annotations

import numpy as np

from scheduler.solver.costs import NEVER
from scheduler.solver.tree import Bools, Ints

CELLS = 1 << 16  # how many sums are made at once: what a core's own cache holds


def workspace(rows: int, most: int) -> Ints:
    """Return the place for sums that all merges of one tree share: fresh memory costs more than they do."""
    return np.empty(max(CELLS, rows * (most + 1)), dtype=np.int64)


def empty(words: int, rows: int = 1) -> Ints:
    """Return the tables of no units: nothing at no cost, in the first row."""
    found = np.full((rows, words, 1), NEVER, dtype=np.int64)
    found[0] = 0
    return found


def merge(acc: Ints, child: Ints, most: int, space: Ints) -> Ints:
    """Return the tables of `acc`'s rows with one more unit, for 0 to `most` pods.

    They end where the sum of both lengths does. `space` is overwritten.
    """
    rows, words, length = acc.shape
    if rows == 1 and _possible(acc[0]).sum() < _possible(child).sum():
        acc, child = child[None], acc[0]
        length = acc.shape[2]
    most = min(most, length + child.shape[1] - 2)
    options = np.flatnonzero(_possible(child))
    out = np.full((rows, words, most + 1), NEVER, dtype=np.int64)
    if not len(options):
        return out
    pad = int(options[-1])
    padded = np.full((rows, words, pad + most + 1), NEVER, dtype=np.int64)
    width = min(length, most + 1)
    padded[:, :, pad : pad + width] = acc[:, :, :width]
    columns = max(1, CELLS // (rows * len(options)))
    for first in range(0, most + 1, columns):
        last = min(most + 1, first + columns)
        _block(padded[:, :, first : last + pad], child, options, out[:, :, first:last], space)
    return out


def longer(tables: Ints, length: int) -> Ints:
    """Return tables with counts up to `length` - 1, the new ones impossible."""
    if tables.shape[-1] >= length:
        return tables
    out = np.full((*tables.shape[:-1], length), NEVER, dtype=np.int64)
    out[..., : tables.shape[-1]] = tables
    return out


def least(first: Ints, second: Ints) -> Ints:
    """Return the smaller of two tables of one length, row by row and count by count."""
    if first.shape[1] == 1:
        return np.minimum(first, second)
    better = second[:, 0] < first[:, 0]
    same = second[:, 0] == first[:, 0]
    for word in range(1, first.shape[1]):
        better |= same & (second[:, word] < first[:, word])
        same &= second[:, word] == first[:, word]
    return np.where(better[:, None], second, first)


def _possible(table: Ints) -> Bools:
    return np.asarray(table[0] < NEVER // 2)


def _block(padded: Ints, child: Ints, options: Ints, out: Ints, space: Ints) -> None:
    """Fill `out`: for each count the least sum over the child's possible counts.

    Ties in a word are rare; only they are looked at in the next one.
    """
    pad, columns = int(options[-1]), out.shape[2]
    every = np.lib.stride_tricks.as_strided(
        padded[:, 0],
        (padded.shape[0], pad + 1, columns),
        (padded.strides[0], padded.strides[2], padded.strides[2]),
        writeable=False,
    )
    taken = every[:, ::-1] if len(options) == pad + 1 else every[:, pad - options]
    sums = space[: taken.size].reshape(taken.shape)
    np.add(taken, child[0, options, None], out=sums)
    best = sums.min(axis=1)
    impossible = best > NEVER // 2
    out[:, 0] = np.where(impossible, NEVER, best)
    if padded.shape[1] == 1:
        return
    best[impossible] = -NEVER  # nothing is equal to it
    ties = np.flatnonzero(sums == best[:, None])
    row, option, column = np.unravel_index(ties, sums.shape)
    for word in range(1, padded.shape[1]):
        pods = options[option]
        more = padded[row, word, column + pad - pods] + child[word, pods]
        np.minimum.at(out[:, word], (row, column), more)
        if word + 1 < padded.shape[1]:
            still = more == out[row, word, column]
            row, option, column = row[still], option[still], column[still]
