"""Simulate one cluster and print the digest of its history.

`python -m tests.simulated.digest SEED MOVES`
"""

import sys

from tests.simulated.alone import alone
from tests.simulated.runs import Length


def main(seed: int, moves: int) -> str:
    """Return the digest of a run on a loop of its own."""
    run = alone(seed, Length(moves))
    if run.broken is not None:
        raise run.broken
    assert run.actions is not None
    return run.actions.cluster.digest


if __name__ == "__main__":
    print(main(int(sys.argv[1]), int(sys.argv[2])))
