"""Combine cost tables of two sets of units: the least cost of n pods over both (min-plus).

A table is int64 [words, pods + 1]; words are compared lexicographically. `NEVER` in the first word
marks impossible counts. Called by scheduler.groups.solver.exact.program for every unit of the tree.
"""

import numpy as np

from scheduler.groups.solver.costs import NEVER
from scheduler.groups.solver.tree import Ints

CELLS = 1 << 16  # how many sums are computed at once, so that they fit the cache of a core


def workspace(most: int) -> Ints:
    """Return a buffer that all merges of one tree share; allocating it costs more than a merge."""
    return np.empty(max(CELLS, most + 1), dtype=np.int64)


def empty(words: int) -> Ints:
    """Return the table of no units: 0 pods at cost 0."""
    return np.zeros((words, 1), dtype=np.int64)


def never(words: int, most: int) -> Ints:
    """Return a table in which every count is impossible."""
    return np.full((words, most + 1), NEVER, dtype=np.int64)


def merge(first: Ints, second: Ints, most: int, space: Ints) -> Ints:
    """Return the cost table of the union of both sets, for 0 to `most` pods or the largest count
    that both can take. `space` is overwritten.
    """
    options, others = _possible(first), _possible(second)
    if len(options) > len(others):
        first, second, options = second, first, others
    words, length = second.shape
    most = min(most, first.shape[1] + length - 2)
    out = never(words, most)
    if not len(options):
        return out
    pad = int(options[-1])
    padded = never(words, pad + most)
    width = min(length, most + 1)
    padded[:, pad : pad + width] = second[:, :width]
    columns = max(1, CELLS // len(options))
    for start in range(0, most + 1, columns):
        end = min(most + 1, start + columns)
        _block(padded[:, start : end + pad], first, options, out[:, start:end], space)
    return out


def longer(table: Ints, length: int) -> Ints:
    """Return the table extended to `length` counts; the new ones are impossible."""
    if table.shape[1] >= length:
        return table
    out = never(table.shape[0], length - 1)
    out[:, : table.shape[1]] = table
    return out


def least(first: Ints, second: Ints) -> Ints:
    """Return the element-wise minimum of two tables."""
    longest = max(first.shape[1], second.shape[1])
    first, second = longer(first, longest), longer(second, longest)
    if len(first) == 1:
        return np.minimum(first, second)
    better = second[0] < first[0]
    same = second[0] == first[0]
    for word in range(1, len(first)):
        better |= same & (second[word] < first[word])
        same &= second[word] == first[word]
    return np.where(better, second, first)


def _possible(table: Ints) -> Ints:
    return np.flatnonzero(table[0] < NEVER // 2)


def _block(padded: Ints, child: Ints, options: Ints, out: Ints, space: Ints) -> None:
    """Fill `out` with the minimum over the child's possible counts, for each total count.

    Ties in a word are rare; only tied sums are compared in the next word.
    """
    pad, columns = int(options[-1]), out.shape[1]
    step = padded.strides[1]
    every = np.lib.stride_tricks.as_strided(
        padded[0], (pad + 1, columns), (step, step), writeable=False
    )
    taken = every[::-1] if len(options) == pad + 1 else every[pad - options]
    sums = space[: taken.size].reshape(taken.shape)
    np.add(taken, child[0, options, None], out=sums)
    best = sums.min(axis=0)
    impossible = best > NEVER // 2
    out[0] = np.where(impossible, NEVER, best)
    if len(padded) == 1:
        return
    best[impossible] = -NEVER  # larger than any sum
    option, column = np.divmod(np.flatnonzero(sums == best), columns)
    for word in range(1, len(padded)):
        pods = options[option]
        more = padded[word, column + pad - pods] + child[word, pods]
        np.minimum.at(out[word], column, more)
        if word + 1 < len(padded):
            still = more == out[word, column]
            option, column = option[still], column[still]
