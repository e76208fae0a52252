"""The benchmark: ours beside kube-scheduler and a bare binder, on a real API server, in one run.

    python -m tests.perf.bench                      the sizes that we report
    python -m tests.perf.bench --workload smoke-50-200 --repeat 1
    python -m tests.perf.bench --contestant trellis --before ../before
    python -m tests.perf.bench --list

`--before` lets another checkout of ours take part, one whose `.venv` is made. Each contestant runs
alone on a fresh control plane; with `--repeat` the contestants take turns, so that a machine that
gets slower or faster does so for all. Results are JSON files (see results/README.md) and a printed
table. No time is ever asserted.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from scheduler.base.clock import RealClock
from tests.perf import contest, workload
from tests.perf.contestants import CONTESTANTS, contestant, join
from tests.perf.figures import Run, figures, medians, ratios
from tests.perf.machine import machine, versions
from tests.perf.workload import Workload
from tests.real.schedulers import ROOT

REPORTED = ("basic-1000-5000", "basic-5000-10000")
SMOKE = "smoke-50-200"
OURS, BEFORE = "trellis", "before"
SCHEMA = "trellis-bench/1"

# Columns of the printed table: heading, figure, digits.
COLUMNS = (
    ("pods/s", "podsPerSecond", 0),
    ("CPU ms/pod", "schedulerCpuMsPerPod", 3),
    ("API server + etcd ms/pod", "controlPlaneCpuMsPerPod", 3),
    ("peak MiB", "schedulerPeakMib", 0),
    ("events/pod", "eventsPerBoundPod", 2),
    ("first bind s", "firstBindAfterStartSeconds", 2),
    ("noise", "othersCpuShare", 2),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return the exit code."""
    options = _options(arguments)
    console = Console(width=140)
    if options.list:
        for name in workload.names():
            console.print(f"{name:28} {workload.load(name).about}")
        return 0
    if not find_assets():
        print("needs a real kube-apiserver: run `make tools`", file=sys.stderr)
        return 2
    options.output.mkdir(parents=True, exist_ok=True)
    if options.warm_up:
        for name in options.contestant:
            console.print(f"warming up {name}")
            run_workload(workload.load(SMOKE), name)
    if options.before:
        join(BEFORE, options.before.resolve())
        options.contestant.append(BEFORE)
    for name in options.workload:
        report = compete(workload.load(name), options.contestant, options.repeat, options.output)
        console.print(table(report))
        console.print(f"written to {report['file']}")
    return 0


def compete(
    load: Workload, contestants: Sequence[str], repeat: int, output: Path
) -> dict[str, Any]:
    """Run the contestants in turns on a workload; write after every run; return the report."""
    now = datetime.fromtimestamp(RealClock().now(), UTC)
    file = output / f"{load.name}-{now:%Y%m%dT%H%M%SZ}.json"
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "file": str(file),
        "workload": msgspec.to_builtins(load),
        "machine": machine(),
        "versions": versions(find_assets()),
        "repeat": repeat,
        "runs": [],
    }
    runs: list[Run] = []
    for turn in range(repeat):
        shift = turn % len(contestants)
        for name in [*contestants[shift:], *contestants[:shift]]:
            print(f"{load.name}: turn {turn + 1} of {repeat}: {name}", file=sys.stderr)
            runs.append(run_workload(load, name))
            report["runs"] = msgspec.to_builtins(runs)
            report |= summary(runs)
            file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
    return report


def run_workload(load: Workload, name: str) -> Run:
    """Run one workload once with one contestant."""
    outcome = asyncio.run(contest.run(load, contestant(name, gangs=load.has_gangs)))
    return Run(name, load.name, figures(load, outcome))


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Return medians of each contestant and the ratios of Trellis to the others."""
    names = list(dict.fromkeys(run.contestant for run in runs))
    found = {name: medians([run for run in runs if run.contestant == name]) for name in names}
    others = {name: each for name, each in found.items() if name != OURS}
    return {"medians": found, "ratios": ratios(found[OURS], others) if OURS in found else {}}


def table(report: dict[str, Any]) -> Table:
    """Return the report as a table: medians per contestant, then the ratios of Trellis to them."""
    shown = Table(title=f"{report['workload']['name']} (medians of {report['repeat']})")
    shown.add_column("contestant")
    for heading, _, _ in COLUMNS:
        shown.add_column(heading, justify="right")
    for name, found in report["medians"].items():
        shown.add_row(name, *(_number(found.get(key), digits) for _, key, digits in COLUMNS))
    for name, found in report["ratios"].items():
        shown.add_row(
            f"{OURS} ÷ {name}", *(_number(found.get(key), 2) for _, key, _ in COLUMNS), style="bold"
        )
    return shown


def find_assets() -> Path | None:
    """Return the folder of the real programs and set the environment; None if they are not
    built.
    """
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS") or ROOT / ".tools" / "bin")
    if not (folder / "kube-apiserver").exists():
        return None
    os.environ["KUBEBUILDER_ASSETS"] = str(folder)
    return folder


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    results = os.environ.get("TRELLIS_BENCH_DIR", Path(__file__).parent / "results")
    parser = argparse.ArgumentParser(prog="python -m tests.perf.bench", description=__doc__)
    parser.add_argument("--workload", nargs="+", default=REPORTED, choices=workload.names())
    parser.add_argument("--contestant", nargs="+", default=list(CONTESTANTS), choices=CONTESTANTS)
    parser.add_argument("--before", type=Path, help="another checkout of ours to compare with")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(results))
    parser.add_argument("--warm-up", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--list", action="store_true", help="name the workloads and end")
    parsed = parser.parse_args(arguments)
    parsed.contestant = list(parsed.contestant)
    return parsed


if __name__ == "__main__":
    sys.exit(main())
