"""`trellis trace`: write a cluster's arrivals and ends as a trace for `simulate --trace`.

The cluster is watched, or its decision log is read.
"""

import sys
from pathlib import Path

from scheduler.base.errors import InputError
from scheduler.base.logs import configure
from scheduler.cli.commands import TraceFlags
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.access import seconds
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.logged import configuration
from scheduler.engine.decisionlog import awaited, decode_header, decode_step
from scheduler.simulate.traces.record import TraceRecorder


def trace(flags: TraceFlags) -> int:
    """Write the trace to stdout and optionally the nodes to a file."""
    if flags.decision_log and flags.length:
        raise InputError("applies to a cluster that is watched, not to a log", where="--for")
    recorder = _logged(flags.decision_log) if flags.decision_log else _watched(flags)
    if flags.nodes:
        try:
            Path(flags.nodes).write_bytes(b"[" + b",".join(recorder.nodes()) + b"]")
        except OSError as error:
            text = f"cannot be written: {error.strerror}"
            raise InputError(text, where=flags.nodes) from error
    number = 0
    for line in recorder.lines():
        sys.stdout.buffer.write(line)
        number += 1
    cmdio.print_stderr([f"{number} objects"])
    return 0


def _watched(flags: TraceFlags) -> TraceRecorder:
    from scheduler.cli.inputs.tracelive import record_live

    configure(level="warning")
    access = cluster_options(flags.cluster)
    length_s = seconds(flags.length, "--for") if flags.length else None
    loaded = cmdio.setups(flags.config, access).default.loaded
    recorder = TraceRecorder({one.scheduler_name for one in loaded.profiles})

    def on_listed(missing: list[str]) -> None:
        until = f"for {flags.length}" if flags.length else "until Ctrl-C"
        cmdio.print_stderr([*(f"notice: without {one}" for one in missing), f"watching {until}"])

    record_live(access, recorder, length_s, on_listed)
    return recorder


def _logged(file: str) -> TraceRecorder:
    try:
        with Path(file).open("rb") as lines:
            first = lines.readline()
            if not first:
                raise InputError("the log is empty", where=file)
            header = decode_header(first, where=f"{file}:1")
            recorder = TraceRecorder({one.scheduler_name for one in configuration(header).profiles})
            for number, line in enumerate(lines, 2):
                if not line.endswith(b"\n"):
                    cmdio.print_stderr(["notice: the last line is cut off and was left out"])
                    break
                turn = decode_step(line, where=f"{file}:{number}")
                recorder.take(turn.now, turn.events, awaited(turn))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=file) from error
    return recorder
