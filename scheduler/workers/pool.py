"""The daemon's side of the helper process: starts it, sends it jobs one by one, kills it at a
limit.

`run` never blocks the loop and never raises for a job's fault. If the process dies, the running job
ends as `died` and waiting jobs go to the next process. Owns the process; independent of the jobs'
content.
"""

import asyncio
import contextlib
import os
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Literal, Self

import msgspec

from scheduler.workers import frames

Code = Literal["done", "invalid", "error", "timeout", "died", "cancelled", "closed"]


class JobOutcome(msgspec.Struct, frozen=True):
    """The end of a job: a value, never an exception, because time-outs and deaths are ordinary.

    `body` is the JSON of the answer and `blob` its binary part, both only with code `done`.
    `invalid` means that the input was at fault, `error` an internal error, `timeout` that the job
    was killed at its limit, `died` that the process ended during it.
    """

    code: Code
    body: bytes = b""
    blob: bytes = b""
    message: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether there is an answer."""
        return self.code == "done"


JOBS = "scheduler.workers.jobs"
START_LIMIT_S = 60.0
GRACE_S = 2.0


@dataclass
class _Waiting:
    """A job in the queue, and the future for its outcome."""

    kind: str
    payload: bytes
    limit_s: float
    done: asyncio.Future[JobOutcome] = field(repr=False)


class WorkerPool:
    """One helper process and its jobs, in order of arrival.

    `limit_s` of a job counts from the moment it is sent. Use as an async context manager, or call
    `start` and `close`. All methods belong to one event loop.
    """

    def __init__(self, jobs: str = JOBS, *, grace_s: float = GRACE_S) -> None:
        self._jobs = jobs
        self._grace_s = grace_s
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()  # a job has arrived, or the process has ended
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[int] | None = None
        self._number = 0
        self.starts = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the process at once, so that it is warm for the first job."""
        if self._task is None:
            self._task = asyncio.create_task(self._serve(), name="helper process")

    async def close(self) -> None:
        """End the process and all jobs; waiting ones end as `closed`."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        while self._waiting:
            _end(self._waiting.popleft(), JobOutcome("closed"))
        await self._kill()

    async def run(self, kind: str, payload: msgspec.Struct | bytes, limit_s: float) -> JobOutcome:
        """Run a job and return its outcome; cancelling the call stops the job."""
        if self._task is None:
            return JobOutcome("closed", message="the pool is not started")
        data = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
        done: asyncio.Future[JobOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(kind, data, limit_s, done))
        self._wake.set()
        return await done

    async def _serve(self) -> None:
        while True:
            if not await self._ready():
                await self._fail_next("the helper process does not start")
                continue
            job = await self._next()
            if job is None:
                await self._kill()
                continue
            try:
                outcome = await self._work(job)
            except asyncio.CancelledError:
                _end(job, JobOutcome("closed"))
                raise
            _end(job, outcome)

    async def _next(self) -> _Waiting | None:
        """Return the next job that was not cancelled, None when the process ends first."""
        while True:
            if self._process is None or self._process.returncode is not None:
                return None
            while self._waiting:
                job = self._waiting.popleft()
                if not job.done.done():
                    return job
            self._wake.clear()
            await self._wake.wait()

    async def _work(self, job: _Waiting) -> JobOutcome:
        """Send a job and wait for its end, its limit, or its cancellation."""
        self._number += 1
        exchange = asyncio.create_task(self._exchange(self._number, job))
        limit_s = job.limit_s + self._grace_s
        try:
            await asyncio.wait(
                {exchange, job.done}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            answered = exchange.done() and exchange.exception() is None
            is_dead = exchange.done() and not answered
        finally:
            exchange.cancel()
        if answered:
            return exchange.result()
        await self._kill()
        if job.done.done():
            return JobOutcome("cancelled")
        if is_dead:
            return JobOutcome("died", message=f"the helper process ended during {job.kind}")
        return JobOutcome("timeout", message=f"{job.kind} was stopped after {limit_s:g} s")

    async def _exchange(self, number: int, job: _Waiting) -> JobOutcome:
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(frames.pack(frames.JobRequest(number, job.kind), job.payload))
        await self._process.stdin.drain()
        head, body, blob = await self._read()
        reply = msgspec.json.decode(head, type=frames.Reply)
        return msgspec.convert(
            {
                "code": reply.code,
                "body": body,
                "blob": blob,
                "message": reply.message,
                "seconds": reply.seconds,
            },
            type=JobOutcome,
        )

    async def _read(self) -> tuple[bytes, bytes, bytes]:
        assert self._process is not None  # noqa: S101
        source = self._process.stdout
        assert source is not None  # noqa: S101
        lengths = frames.LENGTHS.unpack(await source.readexactly(frames.LENGTHS.size))
        head, body, blob = [await source.readexactly(length) for length in lengths]
        return head, body, blob

    async def _ready(self) -> bool:
        """Ensure that a warm process exists."""
        if self._process is not None and self._process.returncode is None:
            return True
        await self._kill()
        environment = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "scheduler.workers.process", self._jobs]
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
            self._watch = asyncio.create_task(self._process.wait())
            self._watch.add_done_callback(lambda _: self._wake.set())
            self.starts += 1
            await asyncio.wait_for(self._read(), START_LIMIT_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            await self._kill()
            return False
        return True

    async def _fail_next(self, message: str) -> None:
        """Fail one job, so that a process that never starts is tried once per job only."""
        while not self._waiting:
            self._wake.clear()
            await self._wake.wait()
        _end(self._waiting.popleft(), JobOutcome("died", message=message))

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if process.stdin is not None:
            process.stdin.close()
        if self._watch is not None:
            await self._watch
            self._watch = None


def _end(job: _Waiting, outcome: JobOutcome) -> None:
    if not job.done.done():
        job.done.set_result(outcome)
