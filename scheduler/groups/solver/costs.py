"""The objective as additive numbers: the stages of all levels packed into int64 words.

Per level, pack prefers few used units, then large pod counts; spread prefers a small sum of squared
counts. The numbers count pairs of pods on one unit instead of squares: for a given number of pods
the order is the same and the numbers are half as large. The stages in their order are one
lexicographic cost. A word has as many stages as fit without one overflowing into another. Used by
the exact program.
"""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.groups.solver.tree import Ints, Tree

WIDEST = 1 << 58
NEVER = 1 << 60  # the cost of an impossible count; a sum above half of it is impossible too


@dataclass(frozen=True)
class StageField:
    """The position of one stage in the words: its level (1 is the top), measure, word and factor.

    Its value is between -`below` and `most`.
    """

    level: int
    measure: str
    word: int
    scale: int
    most: int
    below: int


@dataclass(frozen=True)
class StageScale:
    """The packing of the stages of a group of `size` pods into `words` numbers."""

    size: int
    words: int
    fields: tuple[StageField, ...]

    def unit_costs(self, level: int) -> Ints:
        """Return [words, size + 1]: the cost of one unit of a level by its count; 0 for an empty
        unit.
        """
        counts = np.arange(self.size + 1)
        costs = np.zeros((self.words, self.size + 1), dtype=np.int64)
        for field in self.fields:
            if field.level == level:
                costs[field.word] += field.scale * _amounts(field.measure, counts)
        return costs

    def stages(self, words: Ints, pods: Ints) -> list[Ints]:
        """Return the stage values, in order, of costs [words, n] for placements of `pods` [n] pods.

        The values are sums of squares, not pairs, so placements of different sizes can be compared.
        """
        found = []
        # Minus the least value that a word can have, each stage is a digit of the word.
        lowest = [0] * self.words
        for field in self.fields:
            lowest[field.word] += field.scale * field.below
        # The least important stage is the lowest digit of its word.
        for at in sorted(range(len(self.fields)), key=lambda at: (self.fields[at].word, -at)):
            field = self.fields[at]
            digits = words[field.word] + lowest[field.word]
            value = digits // field.scale % (field.most + field.below + 1) - field.below
            if field.measure == "pairs":
                value = 2 * value + pods
            elif field.measure == "large":
                value = 2 * value - pods
            found.append(np.asarray(value))
        return found

    def word_of(self, level: int) -> int:
        """Return the index of the word that contains a level's stages."""
        return next(field.word for field in self.fields if field.level == level)


def scale_of(tree: Tree) -> StageScale:
    """Pack the stages of a tree's levels into words; a level's stages share one word."""
    words: list[list[tuple[int, str, int]]] = [[]]
    width = 1
    for level in range(1, tree.depth + 1):
        if level in tree.bare:
            continue
        stages = [(level, measure, most) for measure, most in measures(tree, level)]
        needed = math.prod(most + 1 for _, _, most in stages)
        if width * needed > WIDEST and words[-1]:
            words.append([])
            width = 1
        words[-1] += stages
        width *= needed
    fields = []
    for word, stages in enumerate(words):
        scale = 1
        for level, measure, most in reversed(stages):
            is_large = measure == "large"
            span = (0, most) if is_large else (most, 0)
            fields.append(StageField(level, measure, word, scale, *span))
            scale *= most + 1
    return StageScale(tree.size, len(words), tuple(fields))


def measures(tree: Tree, level: int) -> list[tuple[str, int]]:
    """Return the measures of a level, the most important first, each with its largest value."""
    largest = min(tree.size, int(tree.capacity[level].max(initial=1)))
    pairs = tree.size * (largest - 1) // 2
    if tree.rule(level).kind == "spread":
        return [("pairs", pairs)]
    return [("units", min(tree.size, tree.units(level))), ("large", pairs)]


def _amounts(measure: str, counts: Ints) -> Ints:
    """Return by pod count what one unit adds to a stage."""
    if measure == "units":
        return np.asarray((counts > 0).astype(np.int64))
    pairs = counts * (counts - 1) // 2
    return np.asarray(-pairs if measure == "large" else pairs)
