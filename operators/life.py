"""One life of kopf for one operator: start it as a guest, wait until something ends, clear up.

`kopf.operator()` would end by cancelling every younger task of the loop, the daemon's too. Here
kopf's own tasks are started with `spawn_tasks`, and just those are cancelled. Each operator has a
kopf of its own that watches one kind, so that a crash of one leaves the others alone and no watcher
of kopf outlives the task that started it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, cast

import kopf
import structlog
from kopf._cogs.structs.references import Insights

from operators.api import Credentials
from operators.kopflogin import Login
from operators.kopfsettings import quiet_settings
from operators.operator import Operator
from operators.signals import KeptSignals
from scheduler.base.errors import TrellisError
from scheduler.objects.kinds import Kind

Tasks = Collection[asyncio.Task[Any]]

_log = structlog.get_logger("operators")


class EndedError(TrellisError):
    """A task that should have run until cancelled has ended without an error of its own."""


async def live(
    kind: Kind,
    operator: Operator,
    credentials: Credentials,
    *,
    beside: Coroutine[Any, Any, None],
    stop_limit_s: float,
) -> None:
    """Run an operator until one of its tasks, or `beside`, ends; raise why.

    Leaves no task and no signal handler.
    """
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    ours: list[asyncio.Future[None]] = [
        broken,
        asyncio.create_task(operator.work(), name=f"operator of {kind.kind}"),
        asyncio.create_task(beside, name=f"definition of {kind.kind}"),
    ]
    insights = Insights()
    registry = _registry(kind, operator, credentials, broken)
    spawning = asyncio.create_task(_spawn(registry, insights))
    try:
        # Shielded, because the tasks of an interrupted start would be nobody's.
        tasks = [*ours, *await asyncio.shield(spawning)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        raise _why(tasks)
    finally:
        await _finish(asyncio.create_task(_clear_up(ours, spawning, insights, stop_limit_s)))


async def live_unwatched(
    kind: Kind, operator: Operator, *, beside: Coroutine[Any, Any, None]
) -> None:
    """Run an operator that needs no watch of kopf's until it, or `beside`, ends; raise why."""
    tasks: list[asyncio.Future[None]] = [
        asyncio.create_task(operator.work(), name=f"operator of {kind.kind}"),
        asyncio.create_task(beside, name=f"definition of {kind.kind}"),
    ]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        raise _why(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _spawn(registry: kopf.OperatorRegistry, insights: Insights) -> Tasks:
    kept = KeptSignals(asyncio.get_running_loop())
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=quiet_settings(),
        insights=insights,
        standalone=True,
        clusterwide=True,
        identity=cast("Any", "trellis"),  # else kopf asks the DNS who we are, and blocks meanwhile
    )
    kept.put_back()  # no await in between: see operators.signals
    return tasks


def _registry(
    kind: Kind, operator: Operator, credentials: Credentials, broken: asyncio.Future[None]
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    login = Login(credentials, broken)

    async def changed(event: kopf.RawEvent, **_: Any) -> None:
        operator.seen(event["type"], cast("dict[str, Any]", event["object"]))

    kopf.on.login(id="login", registry=registry)(cast("Any", login.again))
    watch = kopf.on.event(
        group=kind.group, version=kind.version, plural=kind.plural, id="seen", registry=registry
    )
    watch(cast("Any", changed))
    return registry


def _why(tasks: Collection[asyncio.Future[Any]]) -> BaseException:
    """Return the error of what ended first, preferring one that says something."""
    ended = [one for one in tasks if one.done()]
    for one in ended:
        error = None if one.cancelled() else one.exception()
        if error is not None:
            return error
    names = ", ".join(_name(one) for one in ended)
    return EndedError(f"ended without an error: {names}")


async def _scanned(of_kopf: Tasks, insights: Insights, limit_s: float) -> None:
    """Wait until kopf has looked which kinds there are, or fails to.

    The requests of that one look are tasks that kopf does not keep: cancelled in the middle of it,
    it would leave them behind, waiting for credentials that nobody brings any more.
    """
    looked = asyncio.create_task(insights.ready_resources.wait())
    try:
        await asyncio.wait([looked, *of_kopf], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        looked.cancel()


async def _finish(task: asyncio.Task[None]) -> None:
    """Wait for a task also when we are cancelled meanwhile; the cancellation comes after it."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def _clear_up(
    ours: list[asyncio.Future[None]],
    spawning: asyncio.Task[Tasks],
    insights: Insights,
    limit_s: float,
) -> None:
    """Cancel our tasks and kopf's and wait for their end; errors are noted, so that none is lost."""
    for task in ours:
        task.cancel()
    await asyncio.wait([spawning])
    of_kopf = () if spawning.exception() else spawning.result()
    await _scanned(of_kopf, insights, limit_s)
    tasks = [*ours, *of_kopf]
    for task in tasks:
        task.cancel()
    done, pending = await asyncio.wait(tasks, timeout=limit_s)
    for task in done:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.debug("task ended", task=_name(task), error=repr(error))
    if pending:
        names = [_name(task) for task in pending]
        _log.warning("tasks do not end, although they are cancelled", tasks=names)


def _name(task: asyncio.Future[Any]) -> str:
    return task.get_name() if isinstance(task, asyncio.Task) else "connection"
