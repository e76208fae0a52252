"""The speed table: every row measured in process, beside its goal.

    python -m tests.perf.table
    python -m tests.perf.table --row plain --row preemption --repeat 1
    python -m tests.perf.table --row plain --profile

Each run is a process of its own, so that rows do not affect one another. Figures are CPU times,
which other processes disturb little; wall times are listed beside them. Only cases of `simulate
--batch` are measured by wall time, since all processors answer them. `machine` is the machine's
speed at three small operations (see machine.speed), which shows a slow hour. Goals apply unscaled.
"""

import argparse
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from scheduler.base.clock import RealClock
from tests.perf import evictions, gangs, interleaved, resident, simulating, workload
from tests.perf.inprocess import WorkloadRun
from tests.perf.machine import machine, speed, versions
from tests.real.schedulers import ROOT

SCHEMA = "trellis-table/1"
RATE = "boundPerCpuSecond"


class Row(msgspec.Struct, frozen=True):
    """One row: the measurement, the figure that counts, and the goal; `least` states whether more
    is better.
    """

    name: str
    goal: float
    figure: str = RATE
    unit: str = "pods/s"
    least: bool = True
    workload: str = ""
    measure: Callable[[Path], dict[str, Any]] | None = None


ROWS = (
    Row("plain", 5000, workload="plain-5000-10000"),
    Row("affinity", 1000, workload="affinity-required-5000-5000"),
    Row("anti-affinity", 1000, workload="antiaffinity-required-5000-2000"),
    Row("preferred affinity", 1000, workload="affinity-preferred-5000-5000"),
    Row("preferred anti-affinity", 1000, workload="antiaffinity-preferred-5000-5000"),
    Row("spread", 1000, workload="spread-5000-5000"),
    Row("preferred spread", 1000, workload="spread-preferred-5000-5000"),
    Row("anti-affinity, selector", 500, workload="antiaffinity-nsselector-6000-2000"),
    Row("3,000 shapes", 500, workload="shapes-5000-6000"),
    Row("preemption", 300, workload="preemption-5000-5000"),
    Row("unschedulable churn", 2000, workload="unschedulable-5000-10000"),
    Row("mixed churn", 2000, workload="mixed-churn-5000-10000"),
    Row("15,000 nodes", 2500, workload="plain-15000-10000"),
    *(
        Row(
            f"{kinds} kinds",
            150,
            "runMicroseconds",
            "us",
            least=False,
            measure=interleaved.row(kinds),
        )
        for kinds in (3, 20, 40)
    ),
    Row(
        "20 kinds, spread",
        200,
        "runMicroseconds",
        "us",
        least=False,
        measure=interleaved.row(20, spread=True),
    ),
    Row("750 gangs of 4", 250, "gangsPerCpuSecond", "gangs/s", measure=gangs.many_small),
    Row("3 gangs of 1,000", 0.5, "worstSolveSeconds", "s", least=False, measure=gangs.few_large),
    Row("partitions", 1.5, "cpuSeconds", "s", least=False, measure=gangs.partitions),
    Row("zone spread", 2, "cpuSeconds", "s", least=False, measure=gangs.zones),
    Row(
        "250 of 8 GPUs evict 2,000 pods",
        3,
        "searchSeconds",
        "s",
        least=False,
        measure=evictions.single_pods,
    ),
    Row(
        "500 of 8 GPUs evict 25 groups",
        3,
        "searchSeconds",
        "s",
        least=False,
        measure=evictions.groups_of_twenty,
    ),
    Row(
        "500 of 8 GPUs evict 125 groups",
        3,
        "searchSeconds",
        "s",
        least=False,
        measure=evictions.groups_of_four,
    ),
    Row("memory", 1024, "residentMib", "MiB", least=False, measure=resident.churned),
    Row("start", 15, "readySeconds", "s", least=False, measure=resident.started),
    Row("simulate --batch", 300, "casesPerSecond", "cases/s", measure=simulating.batch),
    Row("simulate 1,000/1,000", 3, "cpuSeconds", "s", least=False, measure=simulating.large),
)
BY_NAME = {row.name: row for row in ROWS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit code."""
    options = _options(arguments)
    if options.alone:
        print(json.dumps(measure(BY_NAME[options.row[0]], profile=options.profile)))
        return 0
    now = datetime.fromtimestamp(RealClock().now(), UTC)
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / f"table-{now:%Y%m%dT%H%M%SZ}.json"
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "machine": machine(),
        "speed": speed(),
        "versions": versions(None),
        "rows": [],
    }
    for name in options.row:
        runs = [in_own_process(name, profile=options.profile) for _ in range(options.repeat)]
        report["rows"].append(summary(BY_NAME[name], runs))
        file.write_bytes(msgspec.json.format(msgspec.json.encode(report)))
        print(f"{name}: {report['rows'][-1]['figure']:.1f}", file=sys.stderr)
    console = Console(width=120)
    console.print(shown(report))
    console.print(f"written to {file}")
    return 0


def measure(row: Row, *, profile: bool) -> dict[str, Any]:
    """Return the figures of one run of a row, in this process."""
    before = speed()["factor"]
    if row.measure is not None:
        with tempfile.TemporaryDirectory(prefix="trellis-table-") as folder:
            figures = row.measure(Path(folder))
    else:
        figures = _measured(row.workload, profile=profile)
    # The mean of both ends: the load of the host's other guests varies.
    return {**figures, "machineFactor": (before + speed()["factor"]) / 2}


def in_own_process(name: str, *, profile: bool) -> dict[str, Any]:
    """Return the figures of one run of a row; AssertionError with its output if it fails."""
    command = [sys.executable, "-m", "tests.perf.table", "--alone", "--row", name]
    done = subprocess.run(
        [*command, *(["--profile"] if profile else [])],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"the row {name} could not be measured")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def summary(row: Row, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a row of the report: the median figure, and its relation to the goal."""
    figure = median(run[row.figure] for run in runs)
    ratio = figure / row.goal if row.least else row.goal / figure
    return {
        "name": row.name,
        "workload": row.workload,
        "goal": row.goal,
        "unit": row.unit,
        "figure": figure,
        # Above 1 the goal is reached, in either direction.
        "ratio": ratio,
        "isReached": ratio >= 1,
        "machineFactor": median(run["machineFactor"] for run in runs),
        "runs": list(runs),
    }


def shown(report: dict[str, Any]) -> Table:
    """Return the report as a table."""
    table = Table(title=f"speed, CPU time (machine factor {report['speed']['factor']:.2f})")
    for heading in ("row", "goal", "figure", "unit", "figure / goal", "machine", "wall", "tries"):
        table.add_column(heading, justify="left" if heading in ("row", "unit") else "right")
    for row in report["rows"]:
        run = row["runs"][0]
        tries = run.get("attempts", {})
        table.add_row(
            row["name"],
            f"{'≥' if BY_NAME[row['name']].least else '≤'} {row['goal']:,.0f}",
            f"{row['figure']:,.2f}" if row["figure"] < 100 else f"{row['figure']:,.0f}",
            row["unit"],
            f"{row['ratio']:.2f}",
            f"{row['machineFactor']:.2f}",
            f"{run['boundPerSecond']:,.0f}" if "boundPerSecond" in run else "",
            " ".join(f"{number:,} {result}" for result, number in tries.items()),
        )
    return table


def _measured(name: str, *, profile: bool) -> dict[str, Any]:
    workload_run = WorkloadRun()
    load = workload.load(f"inprocess/{name}")
    if not profile:
        return workload_run.carry_out(load)
    profiler = cProfile.Profile()
    workload_run.around = profiler
    figures = workload_run.carry_out(load)
    stats = pstats.Stats(profiler, stream=sys.stderr).strip_dirs()
    stats.sort_stats("tottime").print_stats(60)
    return figures


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    results = os.environ.get("TRELLIS_BENCH_DIR", Path(__file__).parent / "results")
    parser = argparse.ArgumentParser(prog="python -m tests.perf.table", description=__doc__)
    names = list(BY_NAME)
    parser.add_argument(
        "--row", action="append", choices=names, help="only this one; again for more"
    )
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path(results))
    parser.add_argument(
        "--profile", action="store_true", help="tell where the time goes, on stderr"
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.row = options.row or names
    return options


if __name__ == "__main__":
    sys.exit(main())
