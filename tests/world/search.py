"""Search that is guided by states: runs that reached new ones are kept, and changed into the next.

A `Script` is a run as it was played: the seed of its world, and its moves, each with dice of its own. So a move can
be put in, taken out, or played otherwise, and those before and after it stay what they are.
"""

from random import Random
from typing import NamedTuple

from tests.world.states import State

# Of so many runs one begins anew, with a seed of its own.
ANEW = 4
LONGEST = 40


class Step(NamedTuple):
    """A move by its name, and the seed of its dice."""

    move: str
    dice: int


class Script(NamedTuple):
    """A run that can be played again; none of its `steps` are known before a seed has been played."""

    seed: int
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return f"{self.seed}:" + ",".join(f"{move}={dice}" for move, dice in self.steps)

    @staticmethod
    def read(text: str) -> "Script":
        """Read what `str` has made of a script."""
        seed, _, steps = text.partition(":")
        pairs = (step.split("=") for step in steps.split(",") if step)
        return Script(int(seed), tuple(Step(move, int(dice)) for move, dice in pairs))


class Search:
    """Chooses what to play next; `states` are those that were reached."""

    def __init__(self, dice: Random, moves: tuple[str, ...]) -> None:
        self._dice = dice
        self._moves = moves
        # Those that brought most come first to be changed: by how many new states each reached.
        self._kept: list[tuple[Script, int]] = []
        self.states: set[State] = set()

    def next(self) -> Script:
        """Return a run to play: a fresh seed, or a changed one of those that were kept."""
        if not self._kept or self._dice.randrange(ANEW) == 0:
            return Script(self._dice.getrandbits(32))
        scripts = [script for script, _ in self._kept]
        (one,) = self._dice.choices(scripts, [brought for _, brought in self._kept])
        return self._changed(one)

    def learn(self, script: Script, states: set[State]) -> int:
        """Keep a run that reached new states; return how many."""
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
