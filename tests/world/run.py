"""Run many worlds and print what was reached: `python -m tests.world.run --minutes 1000 --seed 1`.

Every seed is a world of its own; every so many-th of them (`--long`) lives for a day or more, most of it quiet,
and in the others trouble never ends. A law that is broken is printed with how to play the same run again. The
exit code is 1 when a law was broken.
"""

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from tests.world.alone import alone
from tests.world.laws import Law
from tests.world.moves import Play
from tests.world.playing import Length


@dataclass
class Sum:
    """What all runs together came to."""

    seeds: int = 0
    virtual_s: float = 0.0
    quiet_s: float = 0.0
    binds: int = 0
    excused: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    states: set[tuple[object, ...]] = field(default_factory=set)
    broken: list[tuple[int, Law]] = field(default_factory=list)

    def add(self, played: Play) -> None:
        """Add one run."""
        history = played.world.history
        self.binds += history.binds
        self.excused += history.excused
        self.moves += played.made
        self.checked += played.world.audit.checked
        self.states |= played.states
        self.quiet_s += played.quiet_s

    def lines(self, first: int, cpu_s: float) -> Iterable[str]:
        """Yield the table."""
        minutes = self.virtual_s / 60
        yield "| | |\n|---|---|"
        yield f"| seeds | {self.seeds}, from {first} on |"
        yield f"| virtual minutes | {minutes:.0f} ({minutes / max(cpu_s, 1e-9):.1f} in a second of CPU) |"
        yield f"| of them quiet, in worlds that live for days | {self.quiet_s / 60:.0f} |"
        yield f"| binds, each held to capacity and to be the only one | {self.binds} |"
        yield f"| of them over room that others had just taken | {self.excused} |"
        yield f"| states reached | {len(self.states)} |"
        yield from (
            f"| law asked: {name} | {times} |" for name, times in self.checked.most_common()
        )
        yield from (f"| move: {name} | {times} |" for name, times in self.moves.most_common())
        yield f"| laws broken | {len(self.broken)} |"


def one(seed: int, length: Length, total: Sum) -> None:
    """Run one seed and add it up."""
    run = alone(seed, length)
    total.seeds += 1
    total.virtual_s += run.virtual_s
    if run.played is not None:
        total.add(run.played)
    if run.broken is not None:
        total.broken.append((seed, run.broken.law))
        minutes = total.virtual_s / 60
        print(f"seed {seed} after {minutes:.1f} virtual minutes: {run.broken}", flush=True)
        again = f"--days {length.days:g} --long 1" if length.days else f"--moves {length.moves}"
        print(f"to play it again: make world SEED={seed} ARGS='--seeds 1 {again}'", flush=True)


def main(arguments: list[str]) -> int:
    """Run worlds until there are as many minutes, seconds of CPU, or seeds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=inf, help="virtual minutes in all")
    parser.add_argument("--cpu-seconds", type=float, default=inf, help="CPU time in all")
    parser.add_argument("--seeds", type=float, default=inf, help="how many seeds")
    parser.add_argument("--seed", type=int, help="the first seed; a fresh one without")
    parser.add_argument("--moves", type=int, default=100, help="moves in each world")
    parser.add_argument("--long", type=int, default=0, help="every so many-th lives for days")
    parser.add_argument("--days", type=float, default=1.0, help="for how many at least")
    parser.add_argument("--until-broken", action="store_true", help="end with the first broken law")
    parser.add_argument("--skip", default="", help="seeds to leave out, with commas between")
    asked = parser.parse_args(arguments)
    skipped = {int(text) for text in asked.skip.split(",") if text}
    if min(asked.minutes, asked.cpu_seconds, asked.seeds) == inf:
        parser.error("say how long: --minutes, --cpu-seconds or --seeds")
    first = asked.seed if asked.seed is not None else secrets.randbelow(10**9)
    print(f"worlds of {asked.moves} moves, from seed {first} on", flush=True)
    total, began, next_seed = Sum(), time.process_time(), first
    while (
        total.virtual_s < asked.minutes * 60
        and time.process_time() - began < asked.cpu_seconds
        and total.seeds < asked.seeds
        and not (total.broken and asked.until_broken)
    ):
        if (seed := next_seed) not in skipped:
            is_long = asked.long and seed % asked.long == 0
            one(seed, Length(asked.moves, asked.days if is_long else 0.0), total)
        next_seed += 1
    print("\n".join(total.lines(first, time.process_time() - began)), flush=True)
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
