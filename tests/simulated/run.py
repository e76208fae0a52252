"""Simulate many clusters and print the results.

`python -m tests.simulated.run --minutes 1000 --seed 1`

Every seed is a cluster of its own; one of `--long` seeds runs for a day or more, mostly quiet, the
others have continuous faults. A violated invariant is printed with the command that repeats the
run. The exit code is 1 after a violation. SIGTERM ends the program after the current run.
"""

import argparse
import secrets
import signal
import sys
import time
from math import inf
from random import Random

from tests.simulated.actions import MOVES
from tests.simulated.alone import Run, again
from tests.simulated.invariants import Invariant
from tests.simulated.runs import Length
from tests.simulated.search import Script, Search, Step
from tests.simulated.shrink import shrunk
from tests.simulated.tally import Tally

# The interval between progress lines.
REPORT_EVERY_CPU_S = 300.0


class Campaign:
    """Simulate clusters and sum the results."""

    def __init__(self, trials: int) -> None:
        self.total = Tally()
        self._trials = trials
        self._reported_s = time.process_time()

    def simulate(self, script: Script, length: Length) -> Run:
        """Simulate one cluster, and print a violation."""
        run, total = again(script, length), self.total
        total.seeds += 1
        total.long_ones += bool(length.days)
        total.virtual_s += run.virtual_s
        if run.actions is not None:
            total.add(run.actions)
        if run.broken is not None:
            total.broken.append((script.seed, run.broken.invariant))
            minutes = total.virtual_s / 60
            print(
                f"seed {script.seed} after {minutes:.1f} virtual minutes: {run.broken}", flush=True
            )
            how = f"--script {script}" if script.steps else f"--seed {script.seed} --seeds 1"
            how += (
                f" --days {length.days:g} --long 1" if length.days else f" --moves {length.moves}"
            )
            print(f"to repeat it: python -m tests.simulated.run {how}", flush=True)
            if self._trials and not length.days:
                self._shrink(run, run.broken.invariant)
        if time.process_time() - self._reported_s >= REPORT_EVERY_CPU_S:
            self._reported_s = time.process_time()
            print(
                f"so far {total.seeds} clusters, {total.virtual_s / 60:.0f} virtual minutes, "
                f"{len(total.broken)} invariants broken",
                flush=True,
            )
        return run

    def _shrink(self, run: Run, invariant: Invariant) -> None:
        def is_broken(steps: tuple[Step, ...]) -> bool:
            if not steps:
                return False
            shorter = again(run.script._replace(steps=steps), Length())
            return shorter.broken is not None and shorter.broken.invariant == invariant

        steps = tuple(shrunk(run.script.steps, is_broken, self._trials))
        print(f"in {len(steps)} moves: --script {run.script._replace(steps=steps)}", flush=True)


def main(arguments: list[str]) -> int:
    """Simulate clusters up to the given minutes, CPU seconds, or seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=inf, help="virtual minutes in all")
    parser.add_argument("--cpu-seconds", type=float, default=inf, help="CPU time in all")
    parser.add_argument("--seeds", type=float, default=inf, help="how many seeds")
    parser.add_argument("--seed", type=int, help="the first seed; a fresh one without")
    parser.add_argument("--moves", type=int, default=100, help="moves in each run")
    parser.add_argument("--long", type=int, default=0, help="every so many-th runs for days")
    parser.add_argument("--days", type=float, default=1.0, help="for how many at least")
    parser.add_argument("--guided", action="store_true", help="change runs that came somewhere new")
    parser.add_argument("--shrink", type=int, default=0, help="so many trials to shorten a run")
    parser.add_argument("--script", type=Script.read, help="a recorded run")
    parser.add_argument(
        "--until-broken", action="store_true", help="end with the first broken invariant"
    )
    parser.add_argument("--skip", default="", help="seeds to leave out, with commas between")
    asked = parser.parse_args(arguments)
    skipped = {int(text) for text in asked.skip.split(",") if text}
    if asked.script is not None:
        asked.seeds = 1
    if min(asked.minutes, asked.cpu_seconds, asked.seeds) == inf:
        parser.error("give the length: --minutes, --cpu-seconds or --seeds")
    first = asked.seed if asked.seed is not None else secrets.randbelow(10**9)
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    print(f"clusters with {asked.moves} moves each, from seed {first} on", flush=True)
    campaign, began, next_seed = Campaign(asked.shrink), time.process_time(), first
    total, search = campaign.total, Search(Random(first), MOVES)
    while (
        total.virtual_s < asked.minutes * 60
        and time.process_time() - began < asked.cpu_seconds
        and total.seeds < asked.seeds
        and not ends
        and not (total.broken and asked.until_broken)
    ):
        seed, next_seed = next_seed, next_seed + 1
        if asked.guided:
            run = campaign.simulate(search.next(), Length(asked.moves))
            if run.actions is not None:
                search.learn(run.script, run.actions.states)
        elif asked.script is not None:
            campaign.simulate(asked.script, Length(asked.moves))
        elif seed not in skipped:
            is_long = asked.long and seed % asked.long == 0
            campaign.simulate(Script(seed), Length(asked.moves, asked.days if is_long else 0.0))
    print("\n".join(total.lines(first, time.process_time() - began)), flush=True)
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
