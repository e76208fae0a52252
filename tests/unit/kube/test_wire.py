"""Many small requests share a few connections; none waits forever or is sent twice."""

import asyncio
import tracemalloc
from asyncio.sslproto import SSLProtocol

import pytest

from scheduler.kube.connection.tls import client_context
from scheduler.kube.connection.wire import NotSentError, Wire
from tests.unit.kube.scripted import Asked, Conversation, scripted
from tests.unit.kube.waiting import wait_until

REQUEST = b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"


def wire(url: str, limit: int = 4) -> Wire:
    host, port = url.removeprefix("http://").split(":")
    return Wire(host, int(port), limit=limit)


def connections(pool: Wire) -> tuple[int, int, int]:
    """Return the numbers of idle and busy connections and of requests that wait for one."""
    idle = len(pool._idle)
    return idle, len(pool._open) - idle, len(pool._waiting)


async def close(pool: Wire) -> None:
    pool.close()
    await pool.wait_closed()
    assert not pool._open


async def ok(_: Asked, to: Conversation) -> None:
    await to.answer(200, b"fine")


async def test_connections_are_used_again():
    """Consecutive requests use one connection."""
    async with scripted(ok) as server:
        pool = wire(server.url)
        codes = [(await pool.exchange(REQUEST, 5)).code for _ in range(10)]
        await close(pool)

    assert [200] * 10 == codes
    assert 1 == server.connections


async def test_no_more_connections_than_allowed():
    """Requests beyond the limit wait for a connection, and all are answered."""
    async with scripted(ok) as server:
        pool = wire(server.url, limit=3)
        answers = await asyncio.gather(*(pool.exchange(REQUEST, 5) for _ in range(50)))
        counts = connections(pool)
        await close(pool)

    assert 50 == len(answers)
    assert 3 == server.connections
    assert (3, 0, 0) == counts


async def test_a_reset_is_reported_and_not_repeated():
    """The caller gets the error; the request is not sent a second time."""

    async def reset(_: Asked, to: Conversation) -> None:
        to.reset()

    async with scripted(reset) as server:
        pool = wire(server.url)
        with pytest.raises(ConnectionError) as caught:
            await pool.exchange(REQUEST, 5)
        await close(pool)

    assert not isinstance(caught.value, NotSentError)
    assert 1 == len(server.asked)


async def test_half_an_answer_is_none():
    """A response cut by the end of the server counts as no response."""

    async def half(_: Asked, to: Conversation) -> None:
        await to.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        to.writer.close()

    async with scripted(half) as server:
        pool = wire(server.url)
        with pytest.raises(ConnectionError):
            await pool.exchange(REQUEST, 5)
        await close(pool)


async def test_an_answer_without_a_length_ends_with_the_connection():
    """The end of the server's bytes completes such an answer; a reset, or closing the client,
    does not: the body may be cut.
    """

    async def unframed(asked: Asked, to: Conversation) -> None:
        await to.raw(b"HTTP/1.1 503 Busy\r\n\r\noverloaded")
        if asked.path == "/whole":
            to.writer.close()
        else:
            await to.until_gone()

    async with scripted(unframed) as server:
        pool = wire(server.url)
        whole = await pool.exchange(REQUEST.replace(b"/x", b"/whole"), 5)
        cut = asyncio.create_task(pool.exchange(REQUEST, 5))
        await wait_until(lambda: any(one._reader._parts for one in pool._open))
        await close(pool)
        (outcome,) = await asyncio.gather(cut, return_exceptions=True)

    assert (503, b"overloaded") == (whole.code, whole.body)
    assert isinstance(outcome, ConnectionError)


async def test_garbage_is_reported():
    """An answer that is not HTTP ends the exchange at once."""

    async def garbage(_: Asked, to: Conversation) -> None:
        await to.raw(b"\x16\x03\x01 what?\r\n\r\n")

    async with scripted(garbage) as server:
        pool = wire(server.url)
        with pytest.raises(ConnectionError):
            await pool.exchange(REQUEST, 5)
        await close(pool)


async def test_silence_ends_after_the_time_limit():
    """A server that never answers costs the time limit, and its connection is dropped."""

    async def silent(_: Asked, to: Conversation) -> None:
        await to.until_gone()

    async with scripted(silent) as server:
        pool = wire(server.url)
        with pytest.raises(TimeoutError):
            await pool.exchange(REQUEST, 0.05)
        await close(pool)

    assert 1 == len(server.asked)


async def test_a_refused_connection_is_distinguished():
    """Without a connection no request was sent: the caller may retry. The error states why."""
    async with scripted(ok) as server:
        pool = wire(server.url)
    with pytest.raises(NotSentError, match="Connect call failed"):
        await pool.exchange(REQUEST, 5)
    await close(pool)


async def test_a_connection_closed_while_idle_is_not_used():
    """The server may close idle connections; the next request takes a new one."""
    closing = asyncio.Event()

    async def once(_: Asked, to: Conversation) -> None:
        await to.answer(200)
        to.writer.close()
        await to.writer.wait_closed()
        closing.set()

    async with scripted(once) as server:
        pool = wire(server.url)
        for _ in range(3):
            closing.clear()
            assert 200 == (await pool.exchange(REQUEST, 5)).code
            await closing.wait()
            await wait_until(lambda: not pool._idle)
        await close(pool)

    assert 3 == server.connections


async def test_unasked_bytes_end_a_connection():
    """A farewell that a server sends to an idle connection is not taken for the next answer."""
    farewell = asyncio.Event()

    async def chatty(asked: Asked, to: Conversation) -> None:
        await to.answer(200, b"fine")
        if not farewell.is_set():
            farewell.set()
            await to.raw(b"HTTP/1.1 408 Bye\r\nContent-Length: 0\r\n\r\n")

    async with scripted(chatty) as server:
        pool = wire(server.url)
        first = await pool.exchange(REQUEST, 5)
        await farewell.wait()
        await wait_until(lambda: not pool._idle)
        second = await pool.exchange(REQUEST, 5)
        await close(pool)

    assert [200, 200] == [first.code, second.code]


async def test_cancelling_drops_the_connection():
    """An abandoned request closes its connection: its late answer reaches no other request."""
    arrived = asyncio.Event()

    async def silent(_: Asked, to: Conversation) -> None:
        arrived.set()
        await to.until_gone()

    async with scripted(silent) as server:
        pool = wire(server.url, limit=1)
        task = asyncio.create_task(pool.exchange(REQUEST, 60))
        waiting = asyncio.create_task(pool.exchange(REQUEST, 60))
        await arrived.wait()
        task.cancel()
        waiting.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)
        await close(pool)

    assert (0, 0, 0) == connections(pool)


async def test_closing_ends_all_waiting():
    """After `close` no request waits for an answer or a connection any more."""
    arrived = asyncio.Event()

    async def silent(_: Asked, to: Conversation) -> None:
        arrived.set()
        await to.until_gone()

    async with scripted(silent) as server:
        pool = wire(server.url, limit=1)
        tasks = [asyncio.create_task(pool.exchange(REQUEST, 60)) for _ in range(3)]
        await arrived.wait()
        await close(pool)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert all(isinstance(outcome, ConnectionError) for outcome in outcomes)
    with pytest.raises(NotSentError):
        await pool.exchange(REQUEST, 1)


async def test_the_guard_is_called_once_a_connection_is_there():
    """A request that waited for a connection while the fence closed is not sent."""
    is_open = True
    release = asyncio.Event()

    def guard() -> None:
        if not is_open:
            raise NotSentError("fenced")

    async def late(_: Asked, to: Conversation) -> None:
        await release.wait()
        await to.answer(200, b"fine")

    async with scripted(late) as server:
        pool = wire(server.url, limit=1)
        first = asyncio.create_task(pool.exchange(REQUEST, 5, guard))
        await wait_until(lambda: connections(pool)[1] == 1)
        second = asyncio.create_task(pool.exchange(REQUEST, 5, guard))
        await wait_until(lambda: connections(pool)[2] == 1)
        is_open = False
        release.set()
        answers = await asyncio.gather(first, second, return_exceptions=True)
        await close(pool)

    assert 200 == getattr(answers[0], "code", answers[0])
    assert isinstance(answers[1], NotSentError)


async def test_a_connection_with_tls_takes_little_memory():
    """The library's own buffers are four times as large, for each of some hundred connections."""
    loop, context = asyncio.get_running_loop(), client_context()
    waiter: asyncio.Future[None] = loop.create_future()
    tracemalloc.start()
    protocol = SSLProtocol(loop, asyncio.Protocol(), context, waiter)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # It was never connected. Left open, it fails the test in which the garbage collector finds it.
    protocol.connection_lost(None)

    assert taken < 100 * 1024
