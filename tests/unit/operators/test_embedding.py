"""One run of kopf in our loop: it starts as a guest and leaves no trace."""

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import kopf
import pytest
from kopf._cogs.aiokits.aiotasks import Scheduler

from operators.embedding import EndedError, KeptSignals, Login, live, quiet_settings, shared_access
from operators.kopflog import forgotten_errors_redirected, kopf_logs_redirected
from operators.networktopology.operator import NETWORK_TOPOLOGY
from scheduler.base.clock import RealClock
from scheduler.kube.connection.access import Access
from scheduler.kube.connection.credentials import Credentials
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.start import new_store

pytestmark = pytest.mark.allow_blocking("the sandbox is set up on the test's loop")


class Watcher:
    """An operator that only watches, and runs until stopped."""

    def __init__(self) -> None:
        self.names: list[tuple[str | None, str]] = []
        self.something = asyncio.Event()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def seen(self, type_: str | None, raw: dict[str, Any]) -> None:
        self.names.append((type_, raw["metadata"]["name"]))
        self.something.set()

    async def work(self) -> None:
        await self.end


async def forever() -> None:
    await asyncio.Event().wait()


async def lived(watcher: Watcher, credentials: Credentials) -> None:
    await live(NETWORK_TOPOLOGY, watcher, credentials, beside=forever(), stop_limit_s=5)


def left_by_kopf() -> list[str]:
    return [one.get_name() for one in asyncio.all_tasks() if "kopf" in repr(one)]


@pytest.fixture
async def credentials(tmp_path: Path) -> AsyncIterator[Credentials]:
    store = new_store(RealClock())
    meta = {"name": "nt", "namespace": "default"}
    resource = store.kinds.find(
        NETWORK_TOPOLOGY.group, NETWORK_TOPOLOGY.version, NETWORK_TOPOLOGY.plural
    )
    assert resource is not None
    store.create(resource, {"metadata": meta, "spec": {}}, "default")
    async with ApiServer(store) as server:
        path = server.kubeconfig(tmp_path / "kubeconfig")
        yield await Credentials.load(RealClock(), str(path))


@pytest.fixture
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert before == {number: signal.getsignal(number) for number in before}


async def test_an_error_of_the_operator_ends_the_process(credentials: Credentials, signals: None):
    """The error is raised unchanged; no task is left (the detectors check) and no signal
    handler.
    """
    watcher = Watcher()
    task = asyncio.create_task(lived(watcher, credentials))
    await asyncio.wait_for(watcher.something.wait(), 20)
    watcher.end.set_exception(ValueError("broken"))

    with pytest.raises(ValueError, match="broken"):
        await task
    assert [(None, "nt")] == watcher.names


async def test_work_that_returns_ends_the_process_too(credentials: Credentials):
    """An operator must run until cancelled; the error states that it returned."""
    watcher = Watcher()
    watcher.end.set_result(None)
    with pytest.raises(EndedError, match="operator of NetworkTopology"):
        await lived(watcher, credentials)


async def test_it_can_be_cancelled_at_any_moment(credentials: Credentials, signals: None):
    """In any state of kopf, all of its tasks end; the detectors check for leftovers."""
    for turns in (*range(12), *range(12, 120, 9)):
        task = asyncio.create_task(lived(Watcher(), credentials))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert [] == left_by_kopf(), f"after {turns} turns"


async def test_a_second_cancellation_does_not_cut_the_clearing_short(credentials: Credentials):
    """A daemon may cancel twice; the tasks of kopf are ended nevertheless."""
    watcher = Watcher()
    task = asyncio.create_task(lived(watcher, credentials))
    await asyncio.wait_for(watcher.something.wait(), 20)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [] == left_by_kopf()


async def test_its_stream_is_closed_if_cancelled_at_an_event(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch
):
    """kopf waits once between an event and its handler; its stream has no reader meanwhile."""
    tasks: list[asyncio.Task[None]] = []
    spawn = Scheduler.spawn

    async def cancelled_at(scheduler: Scheduler, *args: Any, **options: Any) -> None:
        await spawn(scheduler, *args, **options)
        tasks[-1].cancel()
        await forever()

    monkeypatch.setattr(Scheduler, "spawn", cancelled_at)
    for _ in range(2):
        tasks.append(asyncio.create_task(lived(Watcher(), credentials)))
        with pytest.raises(asyncio.CancelledError):
            await tasks[-1]

        assert [] == left_by_kopf()


async def _forget() -> None:
    async def fail() -> None:
        raise ValueError("forgotten")

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task


async def test_a_scan_that_loses_its_connections_says_so_once(signals: None):
    """kopf requests both APIs at once, awaits one error and drops the other, which must not be
    reported.
    """
    both = asyncio.Barrier(2)

    async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await both.wait()
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1")

    class Known:
        access = Access(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    reported: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
    async with server:
        with kopf_logs_redirected(), forgotten_errors_redirected():
            with pytest.raises(aiohttp.ClientConnectionError):
                await lived(Watcher(), cast("Credentials", Known()))
            if left := [one for one in asyncio.all_tasks() if "kopf" in repr(one)]:
                await asyncio.wait(left)
            del left
            gc.collect()
            assert [] == reported
            # Errors that another component left unretrieved are reported as before.
            await _forget()
            gc.collect()
    assert ["Task exception was never retrieved"] == reported


async def test_refused_credentials_end_the_process():
    """kopf would wait silently for new ones; instead the source's error is raised."""

    class Empty:
        access = Access("https://127.0.0.1:1", authorization="Bearer old")

        async def refresh(self, *, force: bool = False) -> bool:
            raise OSError("the plugin is gone")

    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    login = Login(Empty(), broken)
    first, second = await login.again(), await login.again()

    assert first is not None
    assert {"Authorization": "Bearer old"} == first.as_http_headers()
    assert second is None
    with pytest.raises(OSError, match="the plugin is gone"):
        await broken


def test_an_access_is_reported_unchanged():
    """Scheme, token, TLS context and proxy reach kopf; without a token there is no header."""
    basic = shared_access(
        Access("https://h", authorization="Basic abc", proxy="http://p", namespace="n")
    )
    nothing = shared_access(Access("http://h"))

    assert {"Authorization": "Basic abc"} == basic.as_http_headers()
    assert "http://p" == basic.proxy_url
    assert {} == nothing.as_http_headers()
    assert nothing.as_ssl_context() is not None


def test_kopf_leaves_process_and_objects_alone():
    """kopf's defaults would kill the process, annotate objects, post events and watch
    definitions.
    """
    settings = quiet_settings()
    body = kopf.Body({"metadata": {"name": "x"}})
    patch = kopf.Patch()
    settings.persistence.diffbase_storage.store(body=body, patch=patch, essence={})
    settings.persistence.progress_storage.touch(body=body, patch=patch, value="now")

    assert settings.process.ultimate_exiting_timeout is None
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert not patch
    assert {} == settings.persistence.diffbase_storage.build(body=body)


async def test_handlers_of_the_loop_are_put_back():
    """The same handler serves the signal again, also one that arrived in between."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, came.set)
    try:
        kept = KeptSignals(loop)
        loop.add_signal_handler(signal.SIGTERM, lambda: pytest.fail("kopf got it"))
        os.kill(os.getpid(), signal.SIGTERM)
        kept.put_back()
        await asyncio.wait_for(came.wait(), 5)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_handlers_of_the_process_are_put_back():
    """If the loop had none, the process' own is restored, for example Ctrl-C."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    kept = KeptSignals(loop)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    kept.put_back()

    assert before == signal.getsignal(signal.SIGINT)
