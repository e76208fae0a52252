"""Questions about the cluster in memory, answered beside the scheduler.

The cluster is taken from the engine's memory between two turns; a separate process of lower
priority plans, explains and counts, since that takes as long as scheduling does. The process starts
with the first question and ends after an idle time.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog
from msgspec.structs import replace

from scheduler.base.clock import Clock, thread_s
from scheduler.base.errors import InputError, MissingError
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.explain.questions import Question
from scheduler.explain.wire import packed
from scheduler.objects.finished import FINISHED
from scheduler.objects.pod import Pod
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.snapshot import Snapshot
from scheduler.workers import WorkerPool

IDLE_S = 120.0
ANSWER_S = 60.0
MOST_WAITING = 16

_log = structlog.get_logger()


class AnswerSettings(NamedTuple):
    """The module of the helper process that answers, and the configuration in use as text."""

    jobs: str
    config: str = ""


class AnswerPool:
    """The helper process that answers; `close` ends it, and the next request starts another."""

    def __init__(self, clock: Clock, settings: AnswerSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._pool: WorkerPool | None = None
        self._one = asyncio.Lock()
        self._waiting = 0
        self._used_at = 0.0
        self._spent_s = 0.0

    async def answer(self, question: Question, snapshot: Snapshot) -> bytes:
        """Answer a question about a cluster in the helper process; InputError with the reason on
        failure.
        """
        if self._waiting >= MOST_WAITING:
            raise MissingError("too many questions wait; try again later", where=question.what)
        self._waiting += 1
        try:
            # One at a time, also while sending: a large cluster is tens of megabytes.
            async with self._one:
                return await self._computed(question, snapshot)
        finally:
            self._waiting -= 1

    async def _computed(self, question: Question, snapshot: Snapshot) -> bytes:
        if self._pool is None:
            self._pool = WorkerPool(self._settings.jobs)
            await self._pool.start()
        self._used_at = self._clock.now()
        wanted = AnswerOptions(now=snapshot.taken_at, ties=Ties.UID, release=snapshot.release)
        lines = packed(question, snapshot, wanted, self._settings.config)

        def joined() -> tuple[bytes, float]:
            began = thread_s()
            return b"".join(lines), thread_s() - began

        payload, took_s = await asyncio.to_thread(joined)
        self._spent_s += took_s
        outcome = await self._pool.run("page", payload, ANSWER_S)
        self._used_at = self._clock.now()
        if outcome.code == "invalid":
            raise InputError(outcome.message.removeprefix("page: "))
        if not outcome.ok:
            _log.warning("no answer", what=question.what, why=outcome.code, message=outcome.message)
            raise MissingError(f"no answer ({outcome.code})", where=question.what)
        return outcome.body

    def spent_s(self) -> float:
        """Return the CPU time that this process has spent on questions since the last call, in
        seconds.
        """
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s

    async def close_idle(self) -> None:
        """End the process after a long time without questions."""
        if self._pool is not None and self._clock.now() - self._used_at > IDLE_S:
            await self.close()

    async def close(self) -> None:
        """End the helper process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


def cluster_of(engine: Engine, now: float) -> Snapshot:
    """Return the cluster as an engine has it in memory at `now`."""
    view = engine.view
    placed = view.placed
    waiting = [
        queued.pod
        for queued in view.queue()
        if queued.where is not Where.GONE and placed.get(queued.pod.metadata.uid) is None
    ]
    bound = tuple(one.pod if one.pod.spec.node_name else _on(one.pod, one.node) for one in placed)
    return Snapshot(
        nodes=view.nodes(),
        objects=tuple(
            (kind, obj)
            for kind in view.kinds()
            if kind != FINISHED
            for obj in view.objects(kind).values()
        ),
        bound=bound,
        unbound=tuple(sorted(waiting, key=_age)),
        ended=tuple(view.objects(FINISHED).values()),
        taken_at=now,
        release=view.known_release,
    )


def _on(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def _age(pod: Pod) -> str:
    return pod.metadata.creation_timestamp or "~"
