"""`NetperfAgent`: serves its peers' probes, probes the peers in turn, exports the results.

Three loops run beside the responder: peer discovery (every few minutes), probes (one at a time),
and, if configured, the push. A peer that does not respond costs one probe. The figures are a page
for Prometheus to scrape, and are optionally pushed to a Pushgateway.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import structlog
from aiohttp import web
from yarl import URL

from operators.agents.netperf.asker import ProbeError, Target, round_trips
from operators.agents.netperf.keys import Keys
from operators.agents.netperf.latencies import GONE, PAIRS, REFUSED, ROUND, Latencies
from operators.agents.netperf.links import SimulatedLinks
from operators.agents.netperf.peers import Peer, Peers, PeersError
from operators.agents.netperf.plan import ProbePace, ProbePlan, first_turn, next_moment, plan_for
from operators.agents.netperf.responder import NetperfResponder
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError
from scheduler.base.meters import MetricSample
from scheduler.base.meters.exposition import ExpositionForm, Rows

PORT, METRICS_PORT = 10261, 10262
MISSING_S = 5.0  # pause before the next attempt while no other agent exists
DOUBTFUL = 0.2
MOVED = (*GONE, "other_node")
ROUNDS_KEPT, LEAST_KEPT_S = 3, 60.0

JOB = "netperf"
TIMEOUT_S = 10.0

_log = structlog.get_logger("agent.netperf")

Read = Callable[[], Rows]


class NetperfSettings(msgspec.Struct, frozen=True):
    """The agent's location, its listening address ('' for all), and the interval of its probes."""

    node: str
    host: str = ""
    port: int = PORT
    metrics_port: int = METRICS_PORT
    pace: ProbePace = ProbePace()
    round_trips: int = 100
    probe_s: float = 2.0
    pairs_per_zone_pair: int = 2
    refresh_s: float = 300.0
    push: str = ""
    push_s: float = 30.0


class NetperfAgent:
    """One agent; `clock` times measurements and probes."""

    def __init__(
        self,
        settings: NetperfSettings,
        keys: Keys,
        peers: Peers,
        clock: Clock,
        links: SimulatedLinks | None = None,
    ) -> None:
        self._settings = settings
        self._peers = peers
        self._clock = clock
        self._keys = keys
        self._plan = ProbePlan()
        self._turn = 0
        self._failed = ""
        self._planned = asyncio.Event()
        self._doubts = asyncio.Event()
        self.responder = NetperfResponder(settings.node, keys, links)
        self.latencies = Latencies(settings.node)
        self.metrics_port = 0

    async def run(self) -> None:
        """Serve and probe until cancelled; OSError if a port is in use."""
        settings = self._settings
        async with (
            self.responder,
            served(self.metrics, settings.host, settings.metrics_port) as self.metrics_port,
        ):
            await self.responder.listen(settings.host, settings.port)
            _log.info("listens", port=self.responder.port, metrics=self.metrics_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._looking_around(), name="looking around")
                group.create_task(self._probing(), name="probing")
                if settings.push:
                    pushing = push(settings.push, settings.node, self.metrics, settings.push_s)
                    group.create_task(pushing, name="pushing")

    def metrics(self) -> Rows:
        """Return the metrics of the page."""
        pairs = (("zone", len(self._plan.near)), ("beyond", len(self._plan.far)))
        return [
            *self.latencies.rows(self._clock.now()),
            (REFUSED, [MetricSample((), self.responder.refused)]),
            (PAIRS, [MetricSample((where,), count) for where, count in pairs]),
            (ROUND, [MetricSample((), self._plan.round_s(self._settings.pace))]),
        ]

    async def _looking_around(self) -> None:
        while True:
            wait_s = self._settings.refresh_s
            try:
                found = await self._peers.find()
            except (ApiError, PeersError) as error:
                self._report(str(error))
            else:
                self._take(found)
                if not self._plan.pairs:
                    wait_s = min(MISSING_S, wait_s)
            await self._pause(wait_s)

    async def _pause(self, wait_s: float) -> None:
        """Wait for the next probe; after a failed probe the pause is a fifth."""
        node, now = self._settings.node, self._clock.now()
        self._doubts.clear()
        until = next_moment(node, now, wait_s)
        await asyncio.sleep(min(next_moment(node, now, wait_s * DOUBTFUL), until) - now)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(until - self._clock.now(), 0.0)):
                await self._doubts.wait()

    def _take(self, peers: tuple[Peer, ...]) -> None:
        """Make a new plan for these agents."""
        own = next((peer for peer in peers if peer.node == self._settings.node), None)
        if own is None:
            self._report("this agent is not among those that are ready")
            return
        before = self._plan
        plan = self._plan = plan_for(own, peers, self._settings.pairs_per_zone_pair)
        self.latencies.zone = own.zone
        self.latencies.retain([peer.node for peer in (*plan.near, *plan.far)])
        self.latencies.keep_s = max(ROUNDS_KEPT * plan.round_s(self._settings.pace), LEAST_KEPT_S)
        self._report("")
        if plan != before:
            _log.info("measures", inside_zone=len(plan.near), between_zones=len(plan.far))
        if not before.pairs:
            self._turn = first_turn(own.node, plan)
        if plan.pairs:
            self._planned.set()
        else:
            self._planned.clear()

    async def _probing(self) -> None:
        while True:
            await self._planned.wait()
            now = self._clock.now()
            spacing_s = self._plan.spacing_s(self._settings.pace)
            await asyncio.sleep(next_moment(self._settings.node, now, spacing_s) - now)
            peer = self._plan.at(self._turn)
            self._turn += 1
            if peer is not None:
                await self._probe(peer)

    async def _probe(self, peer: Peer) -> None:
        settings = self._settings
        target = Target((peer.address, peer.port), settings.node, peer.node)
        try:
            found = await asyncio.to_thread(
                round_trips, target, self._keys, settings.round_trips, settings.probe_s
            )
        except ProbeError as error:
            self.latencies.fail(peer, error.reason)
            if error.reason in MOVED:
                self._doubts.set()
            _log.debug("no measurement", destination=peer.node, because=str(error))
        else:
            self.latencies.put(peer, found, self._clock.now())

    def _report(self, error: str) -> None:
        """Log once why the other agents are unknown, and once that they are known again."""
        if error != self._failed:
            self._failed = error
            if error:
                _log.warning("the plan stays as it is", because=error)
            else:
                _log.info("knows the agents again")


@asynccontextmanager
async def served(read: Read, host: str, port: int) -> AsyncIterator[int]:
    """Serve `/metrics` and `/healthz`; yield the port."""

    async def metrics(request: web.Request) -> web.Response:
        form = ExpositionForm(request.headers.get("Accept", ""))
        return web.Response(body=form.page(read()), headers={"Content-Type": form.content_type})

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def push(gateway: str, node: str, read: Read, every_s: float) -> None:
    """Push until cancelled, then delete the pushed series."""
    url = URL(gateway) / "metrics" / "job" / JOB / "instance" / node
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    failed = ""
    async with aiohttp.ClientSession(timeout=timeout) as session:
        try:
            while True:
                error = await _send(session, "PUT", url, read())
                if error != failed:
                    failed = error
                    _log.warning("push", gateway=gateway, because=error or "it works again")
                await asyncio.sleep(every_s)
        finally:
            await _send(session, "DELETE", url)


async def _send(session: aiohttp.ClientSession, method: str, url: URL, rows: Rows = ()) -> str:
    """Send one request; return the error, "" for none."""
    form = ExpositionForm()
    body = form.page(rows)
    headers = {"Content-Type": form.content_type} if body else {}
    try:
        async with session.request(method, url, data=body or None, headers=headers) as answer:
            return "" if answer.ok else f"{answer.status} {(await answer.text())[:200]}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return str(error) or type(error).__name__
