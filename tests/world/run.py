"""Run many worlds and print what was reached: `python -m tests.world.run --minutes 1000 --seed 1`.

Every seed is a world of its own. A law that is broken is printed with its seed, which plays the same run
again: `python -m tests.world.run --seed SEED --seeds 1`. The exit code is 1 when a law was broken.
"""

import argparse
import gc
import logging
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

import looptime
import structlog

from tests.world.moves import Play, play


@dataclass
class Sum:
    """What all runs together came to."""

    seeds: int = 0
    virtual_s: float = 0.0
    binds: int = 0
    excused: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    states: set[tuple[object, ...]] = field(default_factory=set)
    broken: list[tuple[int, str]] = field(default_factory=list)

    def add(self, played: Play) -> None:
        """Add one run."""
        history = played.world.history
        self.binds += history.binds
        self.excused += history.excused
        self.moves += played.made
        self.checked += played.world.audit.checked
        self.states |= played.states

    def lines(self, first: int, cpu_s: float) -> Iterable[str]:
        """Yield the table."""
        minutes = self.virtual_s / 60
        yield "| | |\n|---|---|"
        yield f"| seeds | {self.seeds}, from {first} on |"
        yield f"| virtual minutes | {minutes:.0f} ({minutes / max(cpu_s, 1e-9):.1f} in a second of CPU) |"
        yield f"| binds, each held to capacity and to be the only one | {self.binds} |"
        yield f"| of them over room that others had just taken | {self.excused} |"
        yield f"| states reached | {len(self.states)} |"
        yield from (
            f"| law asked: {name} | {times} |" for name, times in self.checked.most_common()
        )
        yield from (f"| move: {name} | {times} |" for name, times in self.moves.most_common())
        yield f"| laws broken | {len(self.broken)} |"


def one(seed: int, moves: int, total: Sum) -> None:
    """Run one seed on a loop of its own and add it up."""
    loop = looptime.new_event_loop(start=0, noop_cycles=0)
    try:
        total.add(loop.run_until_complete(play(seed, moves)))
    except Exception as broken:  # noqa: BLE001 - what a world cannot go on after breaks a law as well
        total.broken.append((seed, str(broken)))
        minutes = (total.virtual_s + loop.time()) / 60
        said = f"{type(broken).__name__}: {broken}".removeprefix("AssertionError: ")
        print(f"seed {seed} after {minutes:.1f} virtual minutes: {said[:1000]}", flush=True)
    finally:
        total.seeds += 1
        total.virtual_s += loop.time()
        loop.close()
        gc.collect()


def main(arguments: list[str]) -> int:
    """Run worlds until there are as many minutes, seconds of CPU, or seeds as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=inf, help="virtual minutes in all")
    parser.add_argument("--cpu-seconds", type=float, default=inf, help="CPU time in all")
    parser.add_argument("--seeds", type=float, default=inf, help="how many seeds")
    parser.add_argument("--seed", type=int, help="the first seed; a fresh one without")
    parser.add_argument("--moves", type=int, default=100, help="moves in each world")
    parser.add_argument("--until-broken", action="store_true", help="end with the first broken law")
    asked = parser.parse_args(arguments)
    if min(asked.minutes, asked.cpu_seconds, asked.seeds) == inf:
        parser.error("say how long: --minutes, --cpu-seconds or --seeds")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    first = asked.seed if asked.seed is not None else secrets.randbelow(10**9)
    print(f"worlds of {asked.moves} moves, from seed {first} on", flush=True)
    total, began = Sum(), time.process_time()
    while (
        total.virtual_s < asked.minutes * 60
        and time.process_time() - began < asked.cpu_seconds
        and total.seeds < asked.seeds
        and not (total.broken and asked.until_broken)
    ):
        one(first + total.seeds, asked.moves, total)
    print("\n".join(total.lines(first, time.process_time() - began)), flush=True)
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
