"""The objective as numbers that can be added: stages by level from the top, packed into int64
words.

For every level, pack wants few used units and then large counts, spread wants a small sum of
squared counts. Instead of squares, pairs of pods on one unit are counted: where the pods are as
many, the order is the same and the numbers are half as large. The stages of all levels in order
make one lexicographic cost; several of them share a word as long as they cannot run into one
another. Used by the exact program.
"""

import math
from dataclasses import dataclass

import numpy as np

from scheduler.groups.solver.tree import Ints, Tree

WIDEST = 1 << 58
NEVER = 1 << 60  # the cost of what cannot be; everything above half of it counts as such


@dataclass(frozen=True)
class StageField:
    """One stage: its level (1 is the top), the summed measure, and its position in the words.

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
    """How the stages of a group of `size` pods are packed into `words` numbers."""

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
        """Return the stages' values for costs [words, n] of placements of `pods` [n] each, in
        order.

        Squares instead of pairs, so that placements of different sizes can be compared.
        """
        found = []
        # Counted up from the least that all stages of a word can be, each stage is a digit.
        lowest = [0] * self.words
        for field in self.fields:
            lowest[field.word] += field.scale * field.below
        # Within a word the least important stage stands first.
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
        """Return the word that contains a level's stages."""
        return next(field.word for field in self.fields if field.level == level)


def scale_of(tree: Tree) -> StageScale:
    """Pack the stages of a tree's levels; a level's stages stay in one word."""
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
    """Return the measures of a level, the most important first, with how large they can get."""
    largest = min(tree.size, int(tree.capacity[level].max(initial=1)))
    pairs = tree.size * (largest - 1) // 2
    if tree.rule(level).kind == "spread":
        return [("pairs", pairs)]
    return [("units", min(tree.size, tree.units(level))), ("large", pairs)]


def _amounts(measure: str, counts: Ints) -> Ints:
    """Return what units with these counts add to a stage."""
    if measure == "units":
        return np.asarray((counts > 0).astype(np.int64))
    pairs = counts * (counts - 1) // 2
    return np.asarray(-pairs if measure == "large" else pairs)
