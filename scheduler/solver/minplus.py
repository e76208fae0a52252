"""Adding cost tables: the least cost of n pods over two sets of units, in words compared in order.

A table is int64 [words, pods + 1]; `NEVER` in its first word marks counts that cannot be. Called by
scheduler.solver.exact for every unit of the tree.
"""

from __future__ import annotations

import numpy as np

from scheduler.solver.costs import NEVER
from scheduler.solver.tree import Ints

CELLS = 1 << 20  # how many sums are made at once


def empty(words: int, most: int) -> Ints:
    """Return the table of no units: nothing at no cost."""
    found = never(words, most)
    found[:, 0] = 0
    return found


def never(words: int, most: int) -> Ints:
    """Return a table in which no count is possible."""
    return np.full((words, most + 1), NEVER, dtype=np.int64)


def merge(acc: Ints, child: Ints, most: int) -> Ints:
    """Return the table of both together for 0 to `most` pods (at most the sum of their lengths)."""
    if np.count_nonzero(acc[0] < NEVER // 2) < np.count_nonzero(child[0] < NEVER // 2):
        acc, child = child, acc
    words, length = acc.shape
    most = min(most, length + child.shape[1] - 2)
    options = np.flatnonzero(child[0] < NEVER // 2)
    out = never(words, most)
    if not len(options):
        return out
    pad = int(options[-1])
    padded = np.full((words, pad + most + 1), NEVER, dtype=np.int64)
    width = min(length, most + 1)
    padded[:, pad : pad + width] = acc[:, :width]
    rows = max(1, CELLS // len(options))
    for first in range(0, most + 1, rows):
        last = min(most + 1, first + rows)
        _block(padded, child, options, pad, (first, last), out)
    out[:, out[0] > NEVER // 2] = NEVER
    return out


def longer(table: Ints, length: int) -> Ints:
    """Return the table with counts up to `length` - 1, the new ones impossible."""
    if table.shape[1] >= length:
        return table
    out = never(table.shape[0], length - 1)
    out[:, : table.shape[1]] = table
    return out


def least(first: Ints, second: Ints) -> Ints:
    """Return the smaller of two tables, count by count."""
    longest = max(first.shape[1], second.shape[1])
    first, second = longer(first, longest), longer(second, longest)
    better = np.zeros(first.shape[1], dtype=np.bool_)
    same = np.ones(first.shape[1], dtype=np.bool_)
    for word in range(first.shape[0]):
        better |= same & (second[word] < first[word])
        same &= second[word] == first[word]
    return np.where(better, second, first)


def _block(
    padded: Ints, child: Ints, options: Ints, pad: int, rows: tuple[int, int], out: Ints
) -> None:
    """Fill rows `rows` of `out`: for each the least sum over the child's possible counts."""
    first, last = rows
    words = padded.shape[0]
    whole = len(options) == pad + 1
    at = None if whole else (np.arange(first, last)[:, None] + pad) - options[None, :]
    mask = None
    for word in range(words):
        if at is None:
            view = np.lib.stride_tricks.sliding_window_view(
                padded[word, first : last + pad], pad + 1
            )
            sums = view + child[word, options[::-1]]
        else:
            sums = padded[word][at] + child[word, options]
        if mask is not None:
            sums = np.where(mask, sums, 4 * NEVER)
        best = sums.min(axis=1)
        out[word, first:last] = best
        if word + 1 < words:
            same = sums == best[:, None]
            mask = same
