"""`trellis agent netperf` with simulated links: its accuracy and its cost.

`python -m tests.perf.netperf` prints one JSON document. A responder in a separate process delays
its answers by a known delay plus an even share of a known jitter, so that every percentile is
known; the probes are the agent's. `accuracy` has the median over some probes. `frequency` states
how far the average over five minutes deviates from the truth for probes of some size and interval,
and their network traffic by the loopback device's counter. `agent` is one of three agents that
probe one another over loopback as often as the default allows, while they are scraped.
`othersCpuShare` is the share of other processes meanwhile: their delays are measured too.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean, median
from time import monotonic
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import msgspec
import yaml

from operators.agents.netperf import Keys, Target
from operators.agents.netperf.asker import round_trips
from operators.agents.netperf.latencies import PERCENTILES
from operators.agents.percentiles import rank
from tests.apiserver.processes import free_ports
from tests.perf.machine import machine

HOST = "127.0.0.1"
# Delay and jitter in microseconds, and how many probes of 100 round trips.
LINKS = {"near": (1000, 500, 40), "region": (5000, 1000, 16), "far": (20_000, 5000, 4)}
TABLE_LINK, TABLE_PROBES = (1000, 1000), 150
SIZES, PER_RANGE = (10, 30, 100), (1, 5, 15, 30)
RANGE_S, TRAFFIC_PROBES = 300, 5
AGENT_S = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def agents(folder: Path, peers: list[dict[str, Any]], links: list[dict[str, Any]]) -> Iterator[Any]:
    """Run an agent for each peer; yield processes and addresses of their pages."""
    (folder / "key").write_text("the key of a measurement")
    (folder / "peers").write_text(yaml.safe_dump(peers))
    (folder / "links").write_text(yaml.safe_dump({"links": links}))
    pages = free_ports(len(peers))
    with ExitStack() as stack:
        found = []
        for peer, page in zip(peers, pages, strict=True):
            words = ["agent", "netperf", "--node-name", peer["node"], "--bind-address", HOST]
            words += ["--key-file", str(folder / "key"), "--peers", str(folder / "peers")]
            words += ["--simulate-links", str(folder / "links"), "--least-seconds", "0.1"]
            words += ["--port", str(peer["port"]), "--metrics-port", str(page)]
            command = [sys.executable, "-m", "scheduler.cli.main", *words]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            found.append(process)
        urls = [f"http://{HOST}:{page}/metrics" for page in pages]
        for url in urls:
            while not scraped(url):
                pause(0.1)
        yield found, urls


def scraped(url: str) -> str:
    """Return the text of a metrics page, "" without a response."""
    try:
        with urlopen(url, timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except (URLError, OSError):
        return ""


def pause(seconds: float) -> None:
    """Yield to other tasks."""
    threading.Event().wait(seconds)


def expected(delay_us: int, jitter_us: int) -> list[float]:
    """Return the percentiles of a simulated link."""
    return [delay_us + jitter_us * share / 100 for share in PERCENTILES]


def percentiles(found: list[float]) -> list[float]:
    """Return the percentiles of a probe as the agent works them out."""
    ordered = sorted(found)
    return [rank(ordered, share) for share in PERCENTILES]


def errors(figures: list[float], truth: list[float]) -> dict[str, float]:
    """Return figures relative to the truth, by percentile."""
    pairs = zip(PERCENTILES, figures, truth, strict=True)
    return {f"p{share}": figure / true - 1 for share, figure, true in pairs}


def spread(found: list[float]) -> dict[str, float]:
    """Return the median error, and the bound of 95 of 100 errors."""
    sizes = sorted(map(abs, found))
    return {"median": median(sizes), "p95": rank(sizes, 95)}


def loopback_bytes() -> int:
    """Return the traffic of the loopback device in bytes."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def accuracy(folder: Path) -> dict[str, Any]:
    """Return how far percentiles deviate from those of each link."""
    result = {}
    for name, (delay, jitter, probes) in LINKS.items():
        with far_end(folder, delay, jitter) as probe:
            found = [probe(100) for _ in range(probes)]
        medians = [median(one) for one in zip(*map(percentiles, found), strict=True)]
        result[name] = {
            "delayMicroseconds": delay,
            "jitterMicroseconds": jitter,
            "percentiles": medians,
            "error": errors(medians, expected(delay, jitter)),
        }
    return result


def loopback(folder: Path) -> list[float]:
    """Return the percentiles over loopback alone, which every simulated link has on top."""
    with far_end(folder, 0, 0) as probe:
        return [
            median(one) for one in zip(*(percentiles(probe(100)) for _ in range(20)), strict=True)
        ]


@contextmanager
def far_end(folder: Path, delay: int, jitter: int) -> Iterator[Callable[[int], list[float]]]:
    """Run a responder behind a link; yield the function that makes a probe of `count` round
    trips.
    """
    (port,) = free_ports(1)
    link = {"delayMicroseconds": delay, "jitterMicroseconds": jitter}
    with agents(folder, [{"node": "n2", "address": HOST, "port": port}], [link]):
        keys, target = Keys(folder / "key"), Target((HOST, port), "n1", "n2")
        yield lambda count: round_trips(target, keys, count, 5.0)


def frequency(folder: Path) -> list[dict[str, Any]]:
    """Return rows: size of a probe, seconds between two, error and traffic."""
    traffic = {}
    with far_end(folder, *TABLE_LINK) as probe:
        found = [probe(100) for _ in range(TABLE_PROBES)]
        for size in SIZES:
            before = loopback_bytes()
            for _ in range(TRAFFIC_PROBES):
                probe(size)
            traffic[size] = (loopback_bytes() - before) / TRAFFIC_PROBES
    truth = expected(*TABLE_LINK)
    rows = []
    for size in SIZES:
        figures = [percentiles(one[:size]) for one in found]
        for count in PER_RANGE:
            ranges = [figures[at : at + count] for at in range(0, len(figures) - count + 1, count)]
            means = [[fmean(one) for one in zip(*each, strict=True)] for each in ranges]
            wrong = [errors(one, truth) for one in means]
            rows.append(
                {
                    "roundTrips": size,
                    "secondsBetweenProbes": RANGE_S / count,
                    "averages": len(means),
                    "error": {name: spread([one[name] for one in wrong]) for name in wrong[0]},
                    "bytesPerProbe": round(traffic[size]),
                    "bitsPerSecond": round(traffic[size] * 8 * count / RANGE_S),
                }
            )
    return rows


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid: int) -> float:
    """Return the largest resident size of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(one for one in lines if one.startswith("VmHWM")).split()[1]) / 1024


def cost(folder: Path) -> dict[str, Any]:
    """Return CPU share and memory of the most expensive of three agents at the default pace."""
    ports = free_ports(3)
    peers = [
        {"node": f"n{number}", "address": HOST, "port": port} for number, port in enumerate(ports)
    ]
    with agents(folder, peers, []) as (processes, urls):
        pause(5)
        began = monotonic()
        before = [cpu_s(one.pid) for one in processes]
        pages: list[str] = []
        while monotonic() < began + AGENT_S:
            pages = [scraped(url) for url in urls]
            pause(5)
        passed = monotonic() - began
        shares = [(cpu_s(one.pid) - b) / passed for one, b in zip(processes, before, strict=True)]
        peaks = [peak_mib(one.pid) for one in processes]
    probes = [line for page in pages for line in page.splitlines() if 'result="ok"' in line]
    return {
        "coreShare": max(shares),
        "coreShares": shares,
        "peakMib": max(peaks),
        "probes": [int(line.split()[-1]) for line in probes],
        "seconds": passed,
    }


def busy_and_all() -> tuple[float, float]:
    """Return the busy seconds of all CPUs, and the total."""
    ticks = [int(one) for one in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS, sum(ticks) / TICKS


def own_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def measure() -> dict[str, Any]:
    """Return the figures."""
    (busy, whole), own = busy_and_all(), own_s()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "schema": "trellis-netperf/1",
            "machine": machine(),
            "goals": {"error": 0.10},
            "loopback": loopback(folder),
            "accuracy": accuracy(folder),
            "frequency": {
                "delayMicroseconds": TABLE_LINK[0],
                "jitterMicroseconds": TABLE_LINK[1],
                "rangeSeconds": RANGE_S,
                "rows": frequency(folder),
            },
            "agent": cost(folder),
        }
    busy_then, whole_then = busy_and_all()
    others = (busy_then - busy) - (own_s() - own)
    return {**found, "othersCpuShare": others / (whole_then - whole)}


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(measure())).decode())
