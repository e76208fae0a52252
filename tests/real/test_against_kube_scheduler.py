"""Our scheduler writes the same as kube-scheduler, field by field, for the same objects."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.apiserver.realcluster import start_cluster
from tests.real.comparison import Compared, Difference, compare
from tests.real.known import classify
from tests.real.recording import Recording, record, state_of
from tests.real.schedulers import ROOT, KubeSchedulerPeer, Scheduler

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]

REPORTS = ROOT / "build" / "reports"


@pytest.mark.parametrize(
    ("nodes", "pods"),
    [(100, 500), pytest.param(1000, 5000, marks=pytest.mark.long)],
)
async def test_both_write_the_same(nodes: int, pods: int, scheduler: Scheduler):
    """Conditions, events, nominations and metrics agree except for the differences that known.py
    explains.

    Every pod is bound or has a condition with the reason. The table of differences is written to
    build/reports.
    """
    recordings = []
    for each in (KubeSchedulerPeer(), scheduler):
        with start_cluster(name=f"compare-{each.name}") as cluster:
            recordings.append(await record(cluster, each, nodes, pods))
    peer, ours = recordings
    compared = compare(peer, ours)
    differences = classify(compared.differences)
    written = write_report(f"differences-{scheduler.name}-{nodes}-{pods}", compared, differences)
    unknown = [each for each in differences if not each.why]

    assert {} == undecided(ours)
    assert pods + 1 == len(ours.snapshots["waiting"].pods)
    assert not unknown, f"{len(unknown)} unknown differences, see {written}"


def undecided(recording: Recording) -> dict[str, str]:
    """Return the pods that are neither bound nor have a reason."""
    pods = recording.snapshots["freed"].pods
    return {name: "new" for name, pod in pods.items() if state_of(pod) == "new"}


def write_report(name: str, compared: Compared, differences: Sequence[Difference]) -> Path:
    """Write the differences as JSON and as a table, print where, return the table's path."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    unknown = sum(not each.why for each in differences)
    summary = {
        "valuesCompared": compared.values,
        "differences": len(differences),
        "unknown": unknown,
    }
    data = REPORTS / f"{name}.json"
    whole = {"summary": summary, "differences": list(differences)}
    data.write_bytes(msgspec.json.format(msgspec.json.encode(whole)))
    table = REPORTS / f"{name}.md"
    table.write_text(markdown(summary, differences))
    print(f"\n{summary}\nwritten to {table} and {data}")
    return table


def markdown(summary: dict[str, int], differences: Sequence[Difference]) -> str:
    """Return the differences as a table; equal rows of several kinds are merged."""
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for each in differences:
        why = each.why or "**unknown**"
        key = (each.about, each.path, *shortened(each.peer, each.ours), why)
        rows[key].append(f"{each.kind} ({each.phase})")
    lines = [
        "# Differences between kube-scheduler and ours",
        "",
        ", ".join(f"{name}: {value}" for name, value in summary.items()),
        "",
        "| about | where | kube-scheduler | ours | why | kinds (phases) |",
        "|---|---|---|---|---|---|",
    ]
    ordered = sorted(rows.items(), key=lambda row: ("unknown" not in row[0][4], row[0]))
    for cells, kinds in ordered:
        shown = ", ".join(kinds[:4]) + (f" and {len(kinds) - 4} more" if len(kinds) > 4 else "")
        lines.append(f"| {' | '.join([*cells, shown])} |")
    return "\n".join(lines) + "\n"


def shortened(peer: Any, ours: Any) -> tuple[str, str]:
    """Return both values as cells; the common beginning of two long texts is left out."""
    if isinstance(peer, str) and isinstance(ours, str):
        pairs = enumerate(zip(peer, ours, strict=False))
        common = next((at for at, (a, b) in pairs if a != b), min(len(peer), len(ours)))
        if common > 40:
            cells = (re.sub(r"\d+", "N", text[common:]) for text in (peer, ours))
            return f"…{brief(next(cells))}", f"…{brief(next(cells))}"
    return brief(peer), brief(ours)


def brief(value: Any) -> str:
    """Return a value as one short cell."""
    text = value if isinstance(value, str) else json.dumps(value)
    return (text[:300] + " …" if len(text) > 300 else text).replace("|", "\\|").replace("\n", " ")
