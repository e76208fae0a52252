"""The helper process: reads jobs from its standard input, writes answers to its standard output.

Started by scheduler.workers.pool as `python -m scheduler.workers.process MODULE`; the module has
the table of kinds. It is niced, runs one job at a time and ends when its input does, so that it
never outlives the daemon. Output of libraries goes to standard error.
"""

import importlib
import os
import queue
import signal
import sys
import threading
import traceback
from typing import Any, BinaryIO

import msgspec

from scheduler.base.clock import perf_s
from scheduler.base.errors import InputError
from scheduler.workers import frames

NICENESS = 10


def main() -> None:
    """Run jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the daemon ends this process
    os.nice(NICENESS)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    jobs = importlib.import_module(sys.argv[1])
    jobs.warm()
    _send(out, frames.pack(frames.Reply(0)))
    inbox: queue.SimpleQueue[tuple[bytes, bytes, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, inbox), daemon=True).start()
    while True:
        head, body, _ = inbox.get()
        _send(out, _work(jobs.KINDS, msgspec.json.decode(head, type=frames.JobRequest), body))


def _listen(source: BinaryIO, inbox: queue.SimpleQueue[tuple[bytes, bytes, bytes]]) -> None:
    """Read while a job runs, so that the end of the daemon is detected at once."""
    while (frame := frames.read(source)) is not None:
        inbox.put(frame)
    os._exit(0)


def _work(kinds: dict[str, Any], request: frames.JobRequest, body: bytes) -> bytes:
    started = perf_s()
    code, message, answer, blob = "done", "", b"", b""
    try:
        answer, blob = kinds[request.kind](body)
    except (InputError, msgspec.DecodeError, KeyError) as error:
        code, message = "invalid", f"{request.kind}: {error}"
    except Exception as error:  # noqa: BLE001 - the answer carries it to the daemon
        code, message = "error", f"{request.kind}: {error!r}\n{traceback.format_exc()}"
    reply = frames.Reply(request.id, code, message, perf_s() - started)
    return frames.pack(reply, answer, blob)


def _send(out: BinaryIO, frame: bytes) -> None:
    out.write(frame)
    out.flush()


if __name__ == "__main__":
    main()
