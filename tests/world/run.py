"""Run many worlds and print what was reached: `python -m tests.world.run --minutes 1000 --seed 1`.

Every seed is a world of its own; every so many-th of them (`--long`) lives for a day or more, most of it quiet,
and in the others trouble never ends. A law that is broken is printed with how to play the same run again. The
exit code is 1 when a law was broken. Who is asked to end (SIGTERM) ends with the world that is being played.
"""

import argparse
import secrets
import signal
import sys
import time
from math import inf

from tests.world.alone import alone
from tests.world.playing import Length
from tests.world.tally import Tally


def one(seed: int, length: Length, total: Tally) -> None:
    """Run one seed and add it up."""
    run = alone(seed, length)
    total.seeds += 1
    total.long_ones += bool(length.days)
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
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    print(f"worlds of {asked.moves} moves, from seed {first} on", flush=True)
    total, began, next_seed = Tally(), time.process_time(), first
    while (
        total.virtual_s < asked.minutes * 60
        and time.process_time() - began < asked.cpu_seconds
        and total.seeds < asked.seeds
        and not ends
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
