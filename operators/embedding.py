"""One run of kopf for one operator: start it as a guest, wait until one task ends, clean up.

`kopf.operator()` would end by cancelling every younger task of the loop, including the daemon's.
Here kopf's own tasks are started with `spawn_tasks`, and only those are cancelled. Each operator
has a kopf of its own that watches one kind. So a crash of one does not affect the others, and no
watcher of kopf outlives the task that started it.

The guest changes no object, cluster or process state: nothing is stored in objects (no finalizers,
no annotations), no events are posted, no definitions or namespaces are watched, and signal handlers
stay ours; the runner detects when a kind is available.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextvars import ContextVar
from typing import Any, cast
from weakref import WeakValueDictionary

import kopf
import structlog
from kopf._cogs.structs.references import Insights

from operators.api import Access, Credentials
from operators.operator import Operator
from scheduler.base.errors import TrellisError
from scheduler.objects.kinds import Kind

Tasks = Collection[asyncio.Task[Any]]

_log = structlog.get_logger("operators")


class EndedError(TrellisError):
    """A task that must run until cancelled has ended without an error."""


async def live(
    kind: Kind,
    operator: Operator,
    credentials: Credentials,
    *,
    beside: Coroutine[Any, Any, None],
    stop_limit_s: float,
) -> None:
    """Run an operator until one of its tasks, or `beside`, ends; raise its error.

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
    generators = OpenGenerators()
    spawning = asyncio.create_task(_spawn(registry, insights, generators))
    try:
        # Shielded: no owner would cancel the tasks of an interrupted start.
        tasks = [*ours, *await asyncio.shield(spawning)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        raise _why(tasks)
    finally:
        clearing = _clear_up(ours, spawning, insights, generators, stop_limit_s)
        await _finish(asyncio.create_task(clearing))


async def live_unwatched(
    kind: Kind, operator: Operator, *, beside: Coroutine[Any, Any, None]
) -> None:
    """Run an operator without watches of kopf until it, or `beside`, ends; raise its error."""
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


async def _spawn(
    registry: kopf.OperatorRegistry, insights: Insights, generators: OpenGenerators
) -> Tasks:
    generators.follow()
    kept = KeptSignals(asyncio.get_running_loop())
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=quiet_settings(),
        insights=insights,
        standalone=True,
        clusterwide=True,
        # otherwise kopf queries the DNS for our name, and blocks meanwhile
        identity=cast("Any", "trellis"),
    )
    kept.put_back()  # no await in between: see `KeptSignals`
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
    """Return the error of the first ended task, preferring one with a message."""
    ended = [one for one in tasks if one.done()]
    for one in ended:
        error = None if one.cancelled() else one.exception()
        if error is not None:
            return error
    names = ", ".join(_name(one) for one in ended)
    return EndedError(f"ended without an error: {names}")


async def _scanned(of_kopf: Tasks, insights: Insights, limit_s: float) -> None:
    """Wait until kopf has discovered the served kinds; raise the error of a failed scan.

    kopf does not keep the tasks of that scan: a cancellation in the middle would leave them behind,
    waiting for credentials that never arrive.
    """
    looked = asyncio.create_task(insights.ready_resources.wait())
    try:
        await asyncio.wait([looked, *of_kopf], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        looked.cancel()


async def _finish(task: asyncio.Task[None]) -> None:
    """Wait for a task even if this one is cancelled meanwhile; then raise the cancellation."""
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
    generators: OpenGenerators,
    limit_s: float,
) -> None:
    """Cancel the operator's and kopf's tasks and wait for their end; errors are logged."""
    for task in ours:
        task.cancel()
    await asyncio.wait([spawning])
    of_kopf = () if spawning.exception() else spawning.result()
    await _scanned(of_kopf, insights, limit_s)
    started = generators.started()  # referred to from here: none is left to the garbage collector
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
    for generator in started:  # the oldest first: it ends those that it iterates over
        await generator.aclose()


def _name(task: asyncio.Future[Any]) -> str:
    return task.get_name() if isinstance(task, asyncio.Task) else "connection"


class OpenGenerators:
    """The asynchronous generators of one run of kopf that have started and not ended.

    kopf does not close its watch stream if it is cancelled while it handles an event. The stream
    and its task then stay until the garbage collector finds them, and fail if the loop ends first.
    """

    def __init__(self) -> None:
        self._count = itertools.count()
        self._open = WeakValueDictionary[int, AsyncGenerator[Any, Any]]()

    def follow(self) -> None:
        """Record the generators that this task, and tasks that it creates, start from now on."""
        _run_of_kopf.set(self)
        before = sys.get_asyncgen_hooks().firstiter
        if not isinstance(before, _Recorder):
            sys.set_asyncgen_hooks(firstiter=_Recorder(before))

    def add(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._open[next(self._count)] = generator

    def started(self) -> list[AsyncGenerator[Any, Any]]:
        """Return those that have not ended, the oldest first."""
        return list(self._open.values())


class _Recorder:
    """A hook of the interpreter for started generators: the loop's own, then that of the run."""

    def __init__(self, before: Callable[[AsyncGenerator[Any, Any]], None] | None) -> None:
        self._before = before

    def __call__(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._before is not None:
            self._before(generator)
        if (run := _run_of_kopf.get()) is not None:
            run.add(generator)


_run_of_kopf: ContextVar[OpenGenerators | None] = ContextVar("run of kopf", default=None)


WANTED_BY_KOPF = (signal.SIGINT, signal.SIGTERM)


class KeptSignals:
    """The handlers of SIGINT and SIGTERM at creation: the loop's, or the process's.

    kopf replaces both each time it starts. The caller of kopf's start calls `put_back` in the same
    step of the loop in which it returns: asyncio looks a handler up when it serves a signal, not
    when the signal arrives, so no signal reaches kopf in between.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process = {number: signal.getsignal(number) for number in WANTED_BY_KOPF}
        self._of_loop = {number: self._handlers().get(number) for number in WANTED_BY_KOPF}

    def put_back(self) -> None:
        """Restore the handlers."""
        handlers = self._handlers()
        for number, before in self._of_loop.items():
            if handlers.get(number) is before:
                continue  # also in a thread, where kopf leaves signals alone
            if before is not None:
                handlers[number] = before
            else:
                self._loop.remove_signal_handler(number)
                signal.signal(number, self._process[number])

    def _handlers(self) -> dict[int, asyncio.Handle]:
        # asyncio has no public way to read a handler back; this name is as old as the feature.
        found = cast("Any", self._loop)._signal_handlers  # noqa: SLF001
        return cast("dict[int, asyncio.Handle]", found)


PAGE = 50  # objects per page of a list: each page is parsed in one go, on the scheduler's loop
REQUEST_TIMEOUT_S = 10.0
RECONNECT_S = 1.0


class NoDiffBase(kopf.DiffBaseStorage):
    """Stores no last handled state: the handlers need no differences."""

    def build(self, **_: Any) -> Any:
        """Return None, instead of copying the whole object at every event."""
        return {}

    def fetch(self, *, body: kopf.Body) -> None:
        """Return None: no state is stored."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Stores no progress of handlers: each is done when it returns."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:
        """Return None: no progress is stored."""

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Keep nothing."""

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Do nothing: no state is stored."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Leave the object unchanged."""

    def clear(self, *, essence: Any) -> Any:
        """Return the object unchanged: no state is stored in it."""
        return essence


def quiet_settings() -> kopf.OperatorSettings:
    """Return new settings for one run of kopf, without events, scans and stored state."""
    settings = kopf.OperatorSettings()
    # By default kopf kills the process some time after its tasks are cancelled.
    settings.process.ultimate_exiting_timeout = None
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.chunk_size = PAGE
    # Lost connections are watched again; any other error ends kopf, and the runner retries.
    settings.networking.error_backoffs = ()
    settings.networking.request_timeout = REQUEST_TIMEOUT_S
    settings.watching.reconnect_backoff = RECONNECT_S
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = cast("Any", NoProgress())
    return settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedAccess(kopf.ConnectionInfo):
    """A connection with a TLS context that the caller provides."""

    tls: ssl.SSLContext | None = None

    def as_ssl_context(self) -> ssl.SSLContext:
        """Return the caller's TLS context."""
        return self.tls or ssl.create_default_context()


class Login:
    """Gives kopf credentials at its start, and again whenever the API server has rejected them.

    `broken` gets the error if no credentials are available.
    """

    def __init__(self, credentials: Credentials, broken: asyncio.Future[None]) -> None:
        self._credentials = credentials
        self._broken = broken
        self._given = False

    async def again(self, **_: Any) -> kopf.ConnectionInfo | None:
        """Return the current access; from the second call on, reload it first."""
        try:
            if self._given:
                await self._credentials.refresh(force=True)
            self._given = True
            return shared_access(self._credentials.access)
        except Exception as error:  # noqa: BLE001 - any error ends this run of kopf
            # kopf would wait for credentials for ever, in silence.
            if not self._broken.done():
                self._broken.set_exception(error)
            return None


def shared_access(access: Access) -> kopf.ConnectionInfo:
    """Return an access as kopf's connection information."""
    scheme, _, token = access.authorization.partition(" ")
    return SharedAccess(
        server=access.server,
        tls=access.tls,
        scheme=scheme or None,
        token=token or None,
        proxy_url=access.proxy,
    )
