"""One seed is one history: also in another process, where sets are iterated in another order."""

import os
import subprocess
import sys


def test_one_seed_is_one_history():
    """Two processes with different hash seeds, and addresses, write the same bytes at the same moments."""
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.world.digest", "103", "25"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    told = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert told[0] == told[1]
    assert len(told[0].strip()) == 64
