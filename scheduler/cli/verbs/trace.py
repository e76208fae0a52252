"""`trellis trace`: write what a decision log has as a trace for `simulate --trace`."""

import sys
from pathlib import Path

from scheduler.base.errors import InputError
from scheduler.cli.commands import TraceFlags
from scheduler.cli.inputs import asking
from scheduler.cli.inputs.logged import configuration
from scheduler.engine.decisionlog import decode_header, decode_step
from scheduler.simulate.traces.record import TraceRecorder


def trace(flags: TraceFlags) -> int:
    """Write the trace to stdout and, if asked for, the nodes to a file."""
    file = flags.decision_log
    if not file:
        raise InputError("name a log of trellis run --decision-log", where="--decision-log")
    try:
        recorder = _recorded(file)
        if flags.nodes:
            Path(flags.nodes).write_bytes(b"[" + b",".join(recorder.nodes()) + b"]")
    except OSError as error:
        where = str(error.filename or file)
        raise InputError(f"cannot be read or written: {error.strerror}", where=where) from error
    number = 0
    for line in recorder.lines():
        sys.stdout.buffer.write(line)
        number += 1
    asking.tell([f"{number} objects"])
    return 0


def _recorded(file: str) -> TraceRecorder:
    with Path(file).open("rb") as lines:
        first = lines.readline()
        if not first:
            raise InputError("the log is empty", where=file)
        header = decode_header(first, where=f"{file}:1")
        profiles = {one.scheduler_name for one in configuration(header).profiles}
        recorder = TraceRecorder(profiles)
        for number, line in enumerate(lines, 2):
            if not line.endswith(b"\n"):
                asking.tell(["notice: the last line is cut off and was left out"])
                break
            recorder.take(decode_step(line, where=f"{file}:{number}"))
    return recorder
