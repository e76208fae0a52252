"""Run one world and tell the digest of its history: `python -m tests.world.digest SEED MOVES`."""

import logging
import sys

import looptime
import structlog

from tests.world.moves import play


def main(seed: int, moves: int) -> str:
    """Return the digest of a run on a loop of its own."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    loop = looptime.new_event_loop(start=0, noop_cycles=0)
    try:
        return loop.run_until_complete(play(seed, moves)).world.digest
    finally:
        loop.close()


if __name__ == "__main__":
    print(main(int(sys.argv[1]), int(sys.argv[2])))
