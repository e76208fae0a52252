"""Netperf agents on real loopback: authentication, measurements, and exported figures."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import ClientSession, web
from prometheus_client.parser import text_string_to_metric_families as parse
from structlog.testing import capture_logs

from operators.agents.netperf import (
    Keys,
    NetperfAgent,
    NetperfSettings,
    ProbeError,
    ProbePace,
    SimulatedLinks,
    Target,
    stream,
)
from operators.agents.netperf.agent import push
from operators.agents.netperf.asker import round_trips
from operators.agents.netperf.latencies import REFUSED
from operators.agents.netperf.peers import Peer
from operators.agents.netperf.protocol import CHALLENGE_BYTES, Hello, ProbeMode, signed
from operators.agents.netperf.responder import MOST_UNVERIFIED, SESSIONS, NetperfResponder
from scheduler.base.clock import RealClock
from scheduler.base.meters import MetricSample
from tests.apiserver import patience

HOST = "127.0.0.1"
FAST = ProbePace(600, 0.1)


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """Keep the agents' logs out of streams that other tests have set up."""
    with capture_logs() as found:
        yield found


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return written(tmp_path / "key", "0123456789abcdef")


def written(path: Path, text: str) -> Keys:
    path.write_text(text)
    return Keys(path)


@pytest.fixture
def wrong(tmp_path: Path) -> Keys:
    return written(tmp_path / "wrong", "fedcba9876543210")


@pytest.fixture
async def responder(keys: Keys) -> AsyncIterator[NetperfResponder]:
    async with NetperfResponder("n2", keys) as found:
        await found.listen(HOST, 0)
        yield found


def target(responder: NetperfResponder, node: str = "n2") -> Target:
    return Target((HOST, responder.port), "n1", node)


async def ask(
    responder: NetperfResponder, keys: Keys, count: int = 10, node: str = "n2"
) -> list[float]:
    return await asyncio.to_thread(round_trips, target(responder, node), keys, count, 2.0)


async def test_round_trips_are_counted_without_the_first(responder: NetperfResponder, keys: Keys):
    """The agent measures the requested number of round trips, in microseconds; the responder is
    free again afterwards.
    """
    for _ in range(2 * SESSIONS):
        found = await ask(responder, keys)
        assert len(found) == 10
        assert all(0 < one < 2e6 for one in found)


async def test_who_has_no_key_gets_a_challenge_and_nothing_else(
    responder: NetperfResponder, keys: Keys, wrong: Keys
):
    """The responder sends the challenge alone, whatever the client sends instead of a proof, also a
    replayed one.
    """
    hello = Hello(ProbeMode.LATENCY, 10, 0, bytes(32), "n1", "n2")
    words = [
        signed(hello, bytes(32), keys),
        signed(hello, bytes(32), wrong),
        b"GET / HTTP/1.1\r\n\r\n" + bytes(1000),
        b"",
    ]
    for stated in words:
        reader, writer = await asyncio.open_connection(HOST, responder.port)
        writer.write(stated)
        writer.write_eof()
        received = b""
        try:
            while piece := await reader.read(1000):
                received += piece
        except ConnectionResetError:
            pass  # bytes it had not read when it closed
        assert len(received) <= CHALLENGE_BYTES
        writer.close()
    with pytest.raises(ProbeError) as caught:
        await ask(responder, wrong)
    assert caught.value.reason == "unproved"
    assert responder.refused == len(words) + 1
    assert await ask(responder, keys)


async def test_an_impostor_is_not_measured(keys: Keys):
    """A responder without a proof of its own yields no figures."""

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(32))
        await reader.read(1000)
        writer.write(bytes(33 + 64))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(pretend, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ProbeError, match="another key"):
            await asyncio.to_thread(round_trips, Target((HOST, port), "n1", "n2"), keys, 5, 2.0)


async def test_other_nodes_and_too_much_are_refused(responder: NetperfResponder, keys: Keys):
    """An address that now belongs to another node must not be measured as the old one."""
    for count, node, reason in ((10, "n3", "other_node"), (1000, "n2", "refused")):
        with pytest.raises(ProbeError) as caught:
            await ask(responder, keys, count, node)
        assert caught.value.reason == reason
    assert await ask(responder, keys, node="")


async def test_a_node_that_is_not_there_is_a_reason(keys: Keys):
    """No process listens on it."""
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ProbeError) as caught:
        await asyncio.to_thread(round_trips, Target((HOST, port), "n1", "n2"), keys, 5, 2.0)
    assert caught.value.reason == "unreachable"


async def test_unauthenticated_peers_are_bounded(responder: NetperfResponder, keys: Keys):
    """Connections without a proof fill their own list; beyond it they are closed at once."""
    silent = [await asyncio.open_connection(HOST, responder.port) for _ in range(MOST_UNVERIFIED)]
    for reader, _ in silent:
        assert len(await reader.readexactly(CHALLENGE_BYTES)) == CHALLENGE_BYTES
    reader, writer = await asyncio.open_connection(HOST, responder.port)
    assert await reader.read() == b""
    for _, one in [*silent, (reader, writer)]:
        one.close()
        await one.wait_closed()
    assert await ask(responder, keys)


async def test_throughput_is_limited_and_counted(responder: NetperfResponder, keys: Keys):
    """The responder counts the arrived bytes."""
    found = await asyncio.to_thread(stream, target(responder, ""), keys, 1_000_000, 5.0)
    assert found.bytes == 1_000_000
    assert found.bits_per_s == pytest.approx(8e6 / found.seconds)
    await patience.until(lambda: responder._streams == 0, "the first stream to end over there")
    short = await asyncio.to_thread(stream, target(responder), keys, 1 << 30, 0.02)
    assert 0 < short.bytes < 1 << 30


async def test_one_stream_at_a_time(responder: NetperfResponder, keys: Keys):
    """Two would measure each other; round trips go on."""
    responder._streams = 1
    with pytest.raises(ProbeError) as caught:
        await asyncio.to_thread(stream, target(responder), keys, 1000, 1.0)
    assert caught.value.reason == "busy"
    assert await ask(responder, keys)


class GroupWrite:
    """Peers that a test changes."""

    def __init__(self) -> None:
        self.peers: tuple[Peer, ...] = ()

    async def find(self) -> tuple[Peer, ...]:
        return self.peers


@asynccontextmanager
async def agent(
    node: str, keys: Keys, peers: GroupWrite, links: SimulatedLinks
) -> AsyncIterator[NetperfAgent]:
    """Run an agent on its own ports, and return its address."""
    settings = NetperfSettings(node, HOST, 0, 0, FAST, 20, refresh_s=0.02, pairs_per_zone_pair=1)
    found = NetperfAgent(settings, keys, peers, RealClock(), links)
    running = asyncio.create_task(found.run())
    await found.responder.listening.wait()
    peers.peers += (Peer(node, HOST, found.responder.port, f"zone of {node}"),)
    try:
        yield found
    finally:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def until(agents: list[NetperfAgent], text: str, *, there: bool = True) -> str:
    """Request the pages until one of them, or none, has the text; return all of them."""
    async with ClientSession() as session, asyncio.timeout(20):
        while True:
            pages = ""
            for one in agents:
                url = f"http://{HOST}:{one.metrics_port}/metrics"
                async with session.get(url) as answer:
                    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                    pages += await answer.text()
            if (text in pages) is there:
                return pages


@pytest.fixture
def slow(tmp_path: Path) -> SimulatedLinks:
    (tmp_path / "links").write_text("links: [{origin: n1, delayMicroseconds: 3000}]")
    return SimulatedLinks(tmp_path / "links", Random(0))


async def test_agents_measure_each_other_over_a_simulated_link(keys: Keys, slow: SimulatedLinks):
    """The pair is exported once with both zones and its delay, and ends when a node is deleted."""
    peers = GroupWrite()
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(agent(node, keys, peers, slow)) for node in ("n1", "n2")
        ]
        page = await until(agents, "netperf_p50_latency_microseconds{")
        pairs = [one for one in parse(page) if one.name == "netperf_p50_latency_microseconds"]
        ((sample,),) = [one.samples for one in pairs if one.samples]
        one, other = sample.labels["origin"], sample.labels["destination"]
        assert {one, other} == {"n1", "n2"}
        assert sample.labels["origin_zone"] == f"zone of {one}"
        assert sample.labels["destination_zone"] == f"zone of {other}"
        assert sample.value >= 3000
        peers.peers = peers.peers[:1]
        await until(agents[:1], "netperf_p50_latency_microseconds{", there=False)


class LoopClock:
    """The time of the test's loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("doubt_s", "least_s", "most_s"), [(None, 0, 300), (5, 0, 60), (120, 120, 120)]
)
async def test_agents_that_moved_are_looked_for_sooner(keys: Keys, doubt_s, least_s, most_s):
    """Agents list their peers every five minutes; after a probe without a peer at once, but not
    twice in a minute.
    """
    agent = NetperfAgent(NetperfSettings("n1", refresh_s=300), keys, GroupWrite(), LoopClock())
    await agent._pause(300)
    began = asyncio.get_running_loop().time()
    if doubt_s is not None:
        asyncio.get_running_loop().call_later(doubt_s, agent._doubts.set)
    await agent._pause(300)
    passed = asyncio.get_running_loop().time() - began

    assert least_s <= passed <= most_s
    assert doubt_s is not None or passed == pytest.approx(300)


async def test_a_push_replaces_and_takes_back():
    """PUT for the group of this node, DELETE in the end; a gateway that fails is retried."""
    seen: list[tuple[str, str, str]] = []
    enough = asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, await request.text()))
        if len(seen) > 2:
            enough.set()
        return web.Response(status=500 if len(seen) == 1 else 202)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, HOST, 0).start()
    gateway = f"http://{HOST}:{runner.addresses[0][1]}"
    task = asyncio.create_task(
        push(gateway, "n1", lambda: [(REFUSED, [MetricSample((), 1)])], 0.001)
    )
    async with asyncio.timeout(20):
        await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await runner.cleanup()

    path = "/metrics/job/netperf/instance/n1"
    assert seen[0] == seen[1]
    assert seen[0][:2] == ("PUT", path)
    assert seen[0][2].endswith(f"\n{REFUSED.name} 1.0\n")
    assert seen[-1] == ("DELETE", path, "")
