"""Where and with what something was measured: the description that every result carries."""

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import numpy as np

from scheduler.cli.about import VERSION
from tests.real.schedulers import ROOT


def machine() -> dict[str, Any]:
    """Return what the hardware and the system say of themselves."""
    processor = re.search(r"^model name\s*: (.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB$", _read("/proc/meminfo"), re.MULTILINE)
    return {
        "processor": processor.group(1) if processor else platform.processor(),
        "cpus": os.cpu_count(),
        "memoryGib": round(int(memory.group(1)) / 2**20, 1) if memory else None,
        "kernel": platform.release(),
        "loadBefore": [round(each, 2) for each in os.getloadavg()],
    }


def versions(assets: Path | None) -> dict[str, str]:
    """Return the versions of ours, of what it stands on and of the real programs, if there."""
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    found = {
        "trellis": f"{VERSION} {_said(describe)}",
        "python": platform.python_version(),
        "aiohttp": aiohttp.__version__,
        "msgspec": msgspec.__version__,
        "numpy": np.__version__,
    }
    if assets is not None:
        for program in ("kube-apiserver", "kube-scheduler", "etcd"):
            found[program] = _said([str(assets / program), "--version"])
    return found


def _said(command: list[str]) -> str:
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
