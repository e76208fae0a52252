"""Search guided by states: runs that reached new states are kept, and mutated into the next.

A `Script` is a recorded run: the seed of its cluster, and its actions, each with its own random
source. So an action can be inserted, removed, or changed without an effect on the others.
"""

from random import Random
from typing import NamedTuple

from tests.simulated.states import State

# One of so many runs starts with a new seed.
ANEW = 4
LONGEST = 40


class Step(NamedTuple):
    """An action by its name, and the seed of its random source."""

    move: str
    dice: int


class Script(NamedTuple):
    """A run that can be repeated; its `steps` are unknown before the first run of a seed."""

    seed: int
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return f"{self.seed}:" + ",".join(f"{move}={dice}" for move, dice in self.steps)

    @staticmethod
    def read(text: str) -> "Script":
        """Return a script from its text."""
        seed, _, steps = text.partition(":")
        pairs = (step.split("=") for step in steps.split(",") if step)
        return Script(int(seed), tuple(Step(move, int(dice)) for move, dice in pairs))


class Search:
    """Choose the next run; `states` are those reached so far."""

    def __init__(self, dice: Random, moves: tuple[str, ...]) -> None:
        self._dice = dice
        self._moves = moves
        # The runs with most new states are mutated first.
        self._kept: list[tuple[Script, int]] = []
        self.states: set[State] = set()

    def next(self) -> Script:
        """Return the next run: a new seed, or a mutation of a kept run."""
        if not self._kept or self._dice.randrange(ANEW) == 0:
            return Script(self._dice.getrandbits(32))
        scripts = [script for script, _ in self._kept]
        (one,) = self._dice.choices(scripts, [brought for _, brought in self._kept])
        return self._changed(one)

    def learn(self, script: Script, states: set[State]) -> int:
        """Keep a run that reached new states; return their number."""
        new = states - self.states
        self.states |= new
        if new:
            self._kept.append((script, len(new)))
        return len(new)

    def _changed(self, script: Script) -> Script:
        steps, dice = list(script.steps), self._dice
        for _ in range(dice.choice((1, 2, 4))):
            at = dice.randrange(len(steps) + 1)
            kind = dice.randrange(4)
            if kind == 0 and steps:
                del steps[min(at, len(steps) - 1)]
            elif kind == 1 and steps:
                at = min(at, len(steps) - 1)
                steps[at] = steps[at]._replace(dice=dice.getrandbits(32))
            elif kind == 2:
                other = dice.choice(self._kept)[0].steps
                begin = dice.randrange(len(other) + 1)
                steps[at:at] = other[begin : begin + dice.randint(1, 6)]
            else:
                steps.insert(at, Step(dice.choice(self._moves), dice.getrandbits(32)))
        seed = script.seed if dice.randrange(4) else dice.getrandbits(32)
        return Script(seed, tuple(steps[:LONGEST]))
