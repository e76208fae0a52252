"""Map lines to lines in order, in one process per processor.

Called by `simulate --batch`. The first lines are answered in this process. If more come, and faster
than one process answers them, copies of it (forks, so that they start at once with everything
loaded) take blocks of lines; a client that sends one line and waits for its answer uses one
process. The module does not interpret lines; an answer must not depend on the process that computes
it.
"""

import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Final

from scheduler.base.errors import InputError, TrellisError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkProcess

# After this many lines answered here, the others are shared with other processes.
FEW: Final = 16
# Lines per block for one process: few, so that all processes finish at about the same time.
BLOCK: Final = 8
# Beyond that, handing out is all that this process could do.
MOST: Final = 8
# A longer line is no small case.
LONGEST_LINE: Final = 256 << 20
_READ: Final = 1 << 18

Answer = Callable[[bytes], bytes]


def processors() -> int:
    """Return the number of worker processes; 1 on platforms without a reliable fork."""
    return min(MOST, len(os.sched_getaffinity(0))) if sys.platform == "linux" else 1


def answer_lines(
    source: BinaryIO, out: BinaryIO, answer: Answer, *, processes: int, few: int = FEW
) -> None:
    """Write the answer to each line that is not empty, in order and as soon as possible.

    `source` may be a file, a pipe or a terminal. InputError if it cannot be read, raised after all
    lines read before are answered.
    """
    incoming = _Incoming(source)
    answered = 0
    while processes < 2 or answered < few:
        line = incoming.next_line()
        if line is None:
            return
        _write(out, answer(line))
        answered += 1
    _Workers(incoming, out, answer, processes).run()


class _Incoming:
    """Lines that were read and are not yet assigned to a process."""

    def __init__(self, source: BinaryIO) -> None:
        self.source = source
        self.lines: deque[bytes] = deque()
        self.is_over = False
        self._part: list[bytes] = []
        self._part_size = 0

    def read(self) -> None:
        """Read the available input once; block only if there is none."""
        try:
            # Read only once: the client may send the next line only after an answer.
            found = self.source.read1(_READ)  # type: ignore[attr-defined]
        except OSError as error:
            self.is_over = True
            raise InputError(f"cannot be read: {error.strerror}") from error
        *ended, rest = found.split(b"\n")
        if ended:
            self._part.append(ended[0])
            ended[0] = b"".join(self._part)
            self._part, self._part_size = [], 0
        self._part.append(rest)
        self._part_size += len(rest)
        if not found:
            ended.append(b"".join(self._part))
            self.is_over = True
        self.lines.extend(line for line in ended if line.strip())
        if self._part_size > LONGEST_LINE:
            self.is_over = True
            raise InputError(f"a line has more than {LONGEST_LINE} bytes")

    def next_line(self) -> bytes | None:
        """Return a line, waiting for one; None at the end."""
        while not self.lines:
            if self.is_over:
                return None
            self.read()
        return self.lines.popleft()


class _Worker:
    """A worker process; `block` is the number of the block of lines that it processes."""

    def __init__(self, process: "ForkProcess", line: "Connection") -> None:
        self.process = process
        self.line = line
        self.block: int | None = None


class _Workers:
    """Distributes blocks of lines and orders their answers."""

    def __init__(self, incoming: _Incoming, out: BinaryIO, answer: Answer, most: int) -> None:
        self._incoming = incoming
        self._out = out
        self._answer = answer
        self._most = most
        self._workers: list[_Worker] = []
        self._handed_out = 0
        self._written = 0
        self._answers: dict[int, bytes] = {}
        self._fault: InputError | None = None

    def run(self) -> None:
        """Process all lines."""
        try:
            while True:
                self._hand_out()
                if not self._next_event():
                    break
        finally:
            for worker in self._workers:
                worker.process.terminate()
                worker.line.close()
            for worker in self._workers:
                worker.process.join()
        if self._fault is not None:
            raise self._fault

    def _hand_out(self) -> None:
        lines = self._incoming.lines
        while lines and (worker := self._idle()) is not None:
            # Blocks get smaller as lines run out; otherwise the last lines would all go to one
            # process.
            size = max(1, min(BLOCK, len(lines) // self._most))
            block = [lines.popleft() for _ in range(size)]
            worker.block, self._handed_out = self._handed_out, self._handed_out + 1
            worker.line.send_bytes(b"\n".join(block))

    def _idle(self) -> _Worker | None:
        for worker in self._workers:
            if worker.block is None:
                return worker
        return self._join() if len(self._workers) < self._most else None

    def _next_event(self) -> bool:
        """Wait for lines or answers; return False when no more can arrive."""
        from multiprocessing.connection import wait

        incoming = self._incoming
        busy = {worker.line: worker for worker in self._workers if worker.block is not None}
        is_wanted = not incoming.is_over and len(incoming.lines) < 2 * BLOCK * self._most
        sources = [incoming.source.fileno()] if is_wanted else []
        if not busy and not sources:
            return False
        ready = wait([*busy, *sources])
        for line, worker in busy.items():
            if line in ready:
                self._collect(worker)
        if sources and sources[0] in ready:
            try:
                incoming.read()
            except InputError as error:
                self._fault = error
        return True

    def _collect(self, worker: _Worker) -> None:
        try:
            answers = worker.line.recv_bytes()
        except (EOFError, OSError) as error:
            worker.process.join()
            code = worker.process.exitcode
            raise TrellisError(f"a process that was answering ended with code {code}") from error
        assert worker.block is not None  # noqa: S101
        self._answers[worker.block], worker.block = answers, None
        while (text := self._answers.pop(self._written, None)) is not None:
            self._written += 1
            _write(self._out, text)

    def _join(self) -> _Worker:
        """Start another process."""
        from multiprocessing import get_context

        context = get_context("fork")
        ours, theirs = context.Pipe()
        others = [worker.line for worker in self._workers]
        process = context.Process(
            target=_work, args=(theirs, self._answer, [ours, *others]), daemon=True
        )
        with warnings.catch_warnings():
            # Newer Pythons warn that a fork lacks threads: here the idle ones of numpy, which
            # restarts them.
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
        return worker


def _work(line: "Connection", answer: Answer, others: "list[Connection]") -> None:
    """Answer blocks of lines until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # our parent decides when we end
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        # An open copy of the parent's ends would keep other workers from noticing that the parent
        # ended.
        other.close()
    try:
        while True:
            block = line.recv_bytes()
            line.send_bytes(b"\n".join(answer(one) for one in block.split(b"\n")))
    except (EOFError, OSError):
        return


def _write(out: BinaryIO, text: bytes) -> None:
    out.write(text + b"\n")
    out.flush()
