"""`trellis simulate --trace F`: arrivals and ends of a trace on the nodes of a snapshot.

Ctrl-C ends the play and prints the figures so far, marked as incomplete.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from scheduler.base.errors import InputError
from scheduler.cli.commands import ResultForm, SimulateFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.files import read_bytes, shown
from scheduler.explain.texttable import TextTable
from scheduler.intree import registry
from scheduler.simulate.stage import AnswerOptions, Setup, staged, take_apart
from scheduler.simulate.traces.arrival import LONGEST_LINE, Arrival
from scheduler.simulate.traces.csvfile import read_trace
from scheduler.simulate.traces.manifests import read_lines, read_manifests
from scheduler.simulate.traces.play import TracePlayer
from scheduler.simulate.traces.summary import TraceSummary
from scheduler.snapshot.documents import SourceFile
from scheduler.snapshot.snapshot import Snapshot

EXIT_STOPPED: Final = 1
_PROGRESS_PODS: Final = 1000
_MANIFESTS: Final = (".yaml", ".yml", ".json")


def play_trace(flags: SimulateFlags, snapshot: Snapshot, wanted: AnswerOptions) -> int:
    """Play a trace under one configuration or two; return the exit code."""
    configurations = [flags.config, *([flags.against] if flags.against else [])]
    found: dict[str, TraceSummary] = {}
    for number, name in enumerate(configurations):
        setup = cmdio.read_setup(name, registry()) if name else cmdio.setups("").default
        title = f"{number + 1}: {shown(name) if name else 'the default configuration'}"
        found[title] = _played(flags.trace, snapshot, setup, wanted)
        if not found[title].complete:
            break
    if flags.output is ResultForm.HTML:
        from scheduler.cli.output.tracepage import html

        print(html(found), end="")
        cmdio.print_stderr(_line(summary) for summary in found.values())
    else:
        _show(found, Output(flags.output))
    if not all(one.complete for one in found.values()):
        cmdio.print_stderr(["stopped: the figures cover the trace up to here"])
        return EXIT_STOPPED
    return 0 if not any(one.never_bound for one in found.values()) else cmdio.EXIT_DOES_NOT_FIT


def _played(name: str, snapshot: Snapshot, setup: Setup, wanted: AnswerOptions) -> TraceSummary:
    stage = staged(snapshot, setup, wanted)
    player = TracePlayer(stage, next(iter(stage.engine.profiles)))
    with suppress(KeyboardInterrupt):
        player.play(_rows(name), _progress)
    summary = player.summary()
    take_apart(stage)
    return summary


def _rows(name: str) -> Iterator[Arrival]:
    """Read a trace: CSV, one JSON object per line, or a file of manifests."""
    try:
        if name == "-":
            yield from _lines(sys.stdin.buffer, "-")
        elif name.endswith(_MANIFESTS):
            yield from read_manifests(SourceFile(shown(name), read_bytes(name)))
        else:
            with Path(name).open("rb") as lines:
                yield from _lines(lines, name)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", where=name) from error


def _lines(lines: BinaryIO, name: str) -> Iterator[Arrival]:
    """Read lines of JSON objects, or of CSV if the first one is not an object."""
    first = lines.readline(LONGEST_LINE + 1)
    every = chain([first] if first else [], iter(lambda: lines.readline(LONGEST_LINE + 1), b""))
    if first.lstrip().startswith(b"{"):
        yield from read_lines(every, name)
    else:
        yield from read_trace((line.decode() for line in every), name)


def _progress(pods: int, seconds: float) -> None:
    if pods % _PROGRESS_PODS == 0 and sys.stderr.isatty():
        print(f"\r{pods} pods, {seconds / 3600:.1f} h", end="", file=sys.stderr, flush=True)


def _show(found: dict[str, TraceSummary], output: Output) -> None:
    record = next(iter(found.values())) if len(found) == 1 else found
    names = (f"{one.namespace}/{one.shape}" for one in next(iter(found.values())).waiting)
    if cmdio.is_shown(record, output, names):
        return
    for title, summary in found.items():
        cmdio.show_tables(_tables(title, summary))
        cmdio.print_stderr([_line(summary)])


def _line(summary: TraceSummary) -> str:
    return (
        f"{summary.pods} pods in {summary.seconds / 3600:.1f} h: {summary.bound} bound, "
        f"{summary.never_bound} never bound, {summary.evicted} evicted"
    )


def _tables(title: str, summary: TraceSummary) -> list[TextTable]:
    uses = [(use.resource, f"{use.mean:.2f} %", f"{use.peak:.2f} %") for use in summary.allocation]
    waits = [
        (
            one.namespace,
            one.shape,
            f"{one.pods}",
            f"{one.bound}",
            f"{one.pods - one.bound}",
            f"{one.refused}",
            f"{one.evicted}",
            f"{one.waiting_p50:g}",
            f"{one.waiting_p95:g}",
            f"{one.waiting_p99:g}",
        )
        for one in summary.waiting
    ]
    jobs = [
        (
            one.namespace,
            one.shape,
            f"{one.jobs}",
            f"{one.completed}",
            f"{one.completion_p50:g}",
            f"{one.completion_p95:g}",
            f"{one.gangs_started} of {one.gangs}" if one.gangs else "-",
            f"{one.gang_wait_p50:g}" if one.gangs else "-",
            f"{one.gang_wait_p95:g}" if one.gangs else "-",
        )
        for one in summary.jobs
    ]
    return [
        TextTable(("resource", "mean allocation", "peak"), uses, title),
        TextTable(JOB_TITLES, jobs),
        TextTable(POD_TITLES, waits),
    ]


POD_TITLES: Final = (
    "namespace", "shape", "pods", "bound", "never bound", "refused at first", "evicted",
    "p50 s", "p95 s", "p99 s",
)  # fmt: skip
JOB_TITLES: Final = (
    "namespace", "shape", "jobs", "completed", "p50 s", "p95 s", "gangs started",
    "gang p50 s", "gang p95 s",
)  # fmt: skip
