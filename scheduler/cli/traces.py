"""`trellis simulate --trace F`: arrivals and ends of a trace on the nodes of a snapshot.

Ctrl-C ends the play and prints the figures so far, marked as incomplete.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from scheduler.base.errors import InputError
from scheduler.cli import asking
from scheduler.cli.commands import ResultForm, SimulateFlags
from scheduler.cli.files import shown
from scheduler.cli.flags import Output
from scheduler.explain.report import TextTable
from scheduler.intree import registry
from scheduler.simulate.stage import AnswerOptions, Setup, staged, take_apart
from scheduler.simulate.tracefile import TraceRow, read_trace
from scheduler.simulate.traceplay import TracePlayer, TraceSummary
from scheduler.snapshot.snapshot import Snapshot

EXIT_STOPPED: Final = 1
_PROGRESS_PODS: Final = 1000


def play_trace(flags: SimulateFlags, world: Snapshot, wanted: AnswerOptions) -> int:
    """Play a trace under one configuration or two; return the exit code."""
    if flags.output is ResultForm.HTML:
        raise InputError("a trace has no page: use table, json or yaml", where="-o html")
    configurations = [flags.config, *([flags.against] if flags.against else [])]
    found: dict[str, TraceSummary] = {}
    for number, name in enumerate(configurations):
        setup = asking.read_setup(name, registry()) if name else asking.setups("").default
        title = f"{number + 1}: {shown(name) if name else 'the default configuration'}"
        found[title] = _played(flags.trace, world, setup, wanted)
        if not found[title].complete:
            break
    _show(found, Output(flags.output))
    if not all(one.complete for one in found.values()):
        asking.tell(["stopped: the figures cover the trace up to here"])
        return EXIT_STOPPED
    return 0 if not any(one.never_bound for one in found.values()) else asking.EXIT_DOES_NOT_FIT


def _played(name: str, world: Snapshot, setup: Setup, wanted: AnswerOptions) -> TraceSummary:
    stage = staged(world, setup, wanted)
    player = TracePlayer(stage, next(iter(stage.engine.profiles)))
    with suppress(KeyboardInterrupt):
        player.play(_rows(name), _progress)
    summary = player.summary()
    take_apart(stage)
    return summary


def _rows(name: str) -> Iterator[TraceRow]:
    try:
        if name == "-":
            yield from read_trace(sys.stdin, "-")
            return
        with Path(name).open(newline="", encoding="utf-8") as lines:
            yield from read_trace(lines, name)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise InputError(f"cannot be read: {reason}", where=name) from error


def _progress(pods: int, seconds: float) -> None:
    if pods % _PROGRESS_PODS == 0 and sys.stderr.isatty():
        print(f"\r{pods} pods, {seconds / 3600:.1f} h", end="", file=sys.stderr, flush=True)


def _show(found: dict[str, TraceSummary], output: Output) -> None:
    record = next(iter(found.values())) if len(found) == 1 else found
    names = (f"{one.namespace}/{one.shape}" for one in next(iter(found.values())).waiting)
    if asking.is_shown(record, output, names):
        return
    for title, summary in found.items():
        asking.show_tables(_tables(title, summary))
        asking.tell([_line(summary)])


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
            f"{one.waiting_p50:g}",
            f"{one.waiting_p95:g}",
            f"{one.waiting_p99:g}",
        )
        for one in summary.waiting
    ]
    titles = ("namespace", "shape", "pods", "bound", "never bound", "p50 s", "p95 s", "p99 s")
    return [
        TextTable(("resource", "mean allocation", "peak"), uses, title),
        TextTable(titles, waits),
    ]
