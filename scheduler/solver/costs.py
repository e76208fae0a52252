"""The objective as numbers that can be added: stages by level from the top, packed into int64 words.

For every level, pack wants few used units and then large counts, spread wants a small sum of squared
counts. The stages of all levels in order make one lexicographic cost; several of them share a word as
long as they cannot run into one another. Used by the exact program, the check and the solver alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scheduler.solver.instance import Level
from scheduler.solver.tree import Ints

WIDEST = 1 << 58
NEVER = 1 << 60  # the cost of what cannot be; everything above half of it counts as such


@dataclass(frozen=True)
class Field:
    """One stage: of which level (1 is the top), what is summed, where it stands in the words."""

    level: int
    measure: str
    word: int
    scale: int


@dataclass(frozen=True)
class Scale:
    """How the stages of a group of `size` pods are packed into `words` numbers."""

    size: int
    words: int
    fields: tuple[Field, ...]

    def unit_costs(self, level: int) -> Ints:
        """Return [words, size + 1]: what one unit of a level adds by its count; 0 adds nothing."""
        counts = np.arange(self.size + 1)
        costs = np.zeros((self.words, self.size + 1), dtype=np.int64)
        for field in self.fields:
            if field.level == level:
                costs[field.word] += field.scale * amounts(field.measure, counts)
        return costs

    def word_of(self, level: int) -> int:
        """Return the word that a level's stages stand in."""
        return next(field.word for field in self.fields if field.level == level)


def measures(levels: tuple[Level, ...]) -> list[tuple[int, str]]:
    """Return (level, measure) of all stages, the most important first."""
    found = []
    for level, each in enumerate(levels, start=1):
        if each.rule.kind == "pack":
            found += [(level, "units"), (level, "large")]
        else:
            found.append((level, "squares"))
    return found


def amounts(measure: str, counts: Ints) -> Ints:
    """Return what units with these counts add to a stage."""
    if measure == "units":
        return np.asarray((counts > 0).astype(np.int64))
    return np.asarray(-counts * counts if measure == "large" else counts * counts)


def scale_of(levels: tuple[Level, ...], size: int) -> Scale:
    """Pack the stages of `levels`; a level's stages stay in one word."""
    ranges = {"units": size + 1, "large": size * size + 1, "squares": size * size + 1}
    words: list[list[tuple[int, str]]] = [[]]
    width = 1
    for level in range(1, len(levels) + 1):
        stages = [one for one in measures(levels) if one[0] == level]
        needed = int(np.prod([ranges[measure] for _, measure in stages], dtype=object))
        if width * needed > WIDEST and words[-1]:
            words.append([])
            width = 1
        words[-1] += stages
        width *= needed
    fields = []
    for word, stages in enumerate(words):
        scale = 1
        for level, measure in reversed(stages):
            fields.append(Field(level, measure, word, scale))
            scale *= ranges[measure]
    order = {stage: at for at, stage in enumerate(measures(levels))}
    fields.sort(key=lambda field: order[field.level, field.measure])
    return Scale(size, len(words), tuple(fields))
