"""The machine and software of a measurement: the description that every result carries."""

import os
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from time import process_time
from typing import Any

import aiohttp
import msgspec
import numpy as np

from scheduler.about import VERSION
from tests.real.schedulers import ROOT

# An integer division and the union of two masks over 5,000 rows, as estimated in the design. A call
# of a trivial function: our own guess for such a machine. The goals were never measured there.
REFERENCE_S = {"division": 15e-6, "masks": 0.5e-6, "call": 30e-9}


def machine() -> dict[str, Any]:
    """Return the descriptions of hardware and system."""
    processor = re.search(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    return {
        "processor": processor.group(1) if processor else platform.processor(),
        "cpus": os.cpu_count(),
        "memoryGib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "loadBefore": [round(each, 2) for each in os.getloadavg()],
    }


def speed() -> dict[str, float]:
    """Return the machine's present speed: seconds per operation, and the factor to the reference.

    A factor above 1 means a faster machine. CPU time, the best of five: it depends on the
    processor, its caches and its host, not on other processes here. Three small operations
    distinguish a slow hour from a fast one. They do not predict other work, so no goal is met by
    scaling: the NUMA filter has been faster in an hour with a lower factor.
    """
    column = np.arange(5000, dtype=np.int64) + 7
    divisor, mask = column % 97 + 1, column % 2 == 0

    def same(number: int) -> int:
        return number

    numbers = range(5000)
    found = {
        "division": _best_s(lambda: column // divisor, 500),
        "masks": _best_s(lambda: mask | mask, 5000),
        "call": _best_s(lambda: [same(number) for number in numbers], 50) / len(numbers),
    }
    return {**found, "factor": geometric_mean(REFERENCE_S[name] / found[name] for name in found)}


def versions(assets: Path | None) -> dict[str, str]:
    """Return the versions of Trellis, of its dependencies and of the real programs, if present."""
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    found = {
        "trellis": f"{VERSION} {_output(describe)}",
        "python": platform.python_version(),
        "aiohttp": aiohttp.__version__,
        "msgspec": msgspec.__version__,
        "numpy": np.__version__,
    }
    if assets is not None:
        for program in ("kube-apiserver", "kube-scheduler", "etcd"):
            found[program] = _output([str(assets / program), "--version"])
    return found


def _best_s(operation: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of one operation."""
    best = float("inf")
    for _ in range(5):
        started = process_time()
        for _ in range(times):
            operation()
        best = min(best, process_time() - started)
    return best / times


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip().split("\n", 1)[0]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
