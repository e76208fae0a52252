"""`Daemon`: builds everything once, runs it, and stops it in the right order.

The steps: serve health, list and watch, wait for the lease, schedule. At SIGTERM it finishes
everything in flight and releases the lease; when the lease is lost, it stops sending at once. `run`
returns the exit code. A fault of any part ends the whole process: a restart is safer than a
scheduler without one of its parts.
"""

import asyncio
import contextlib
import os
import platform
import socket
import uuid
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec
import structlog

from scheduler.base.clock import Clock, perf_s
from scheduler.base.errors import ApiError
from scheduler.base.meters import Meters
from scheduler.base.text import cut_bytes
from scheduler.config import Loaded, to_configz
from scheduler.config.fingerprint import fingerprint
from scheduler.daemon import inspection
from scheduler.daemon.gauges import show_ages, show_devices, show_network
from scheduler.daemon.helperparts import HelperParts
from scheduler.daemon.inbox import Inbox
from scheduler.daemon.loop import Loop, TurnRecord
from scheduler.daemon.profile import taken
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.daemon.records.traces import Traces
from scheduler.daemon.releases import ServerRelease
from scheduler.daemon.solving import Solving
from scheduler.daemon.synced import Synced
from scheduler.engine.effects import AskExtender, Effect, Event, Leading, Solve
from scheduler.engine.engine import Engine
from scheduler.engine.settings import derived_kinds, engine_settings
from scheduler.explain.attempts import history
from scheduler.framework.args import Args
from scheduler.framework.registry import Registry
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.extenders import Extenders
from scheduler.kube.lease import Election
from scheduler.kube.leaserecord import (
    CONFIGURATION,
    CONFIGURATION_ERROR,
    DENIED,
    ENDPOINT,
    MESSAGE_BYTES,
    LeaseSettings,
)
from scheduler.kube.leaserecord import VERSION as LEASE_VERSION
from scheduler.kube.watching.watches import Watches
from scheduler.kube.writing.effects import Carry, EffectLimits, Executor
from scheduler.kube.writing.fence import Fence, FencedApi
from scheduler.kube.writing.recorder import Recorder
from scheduler.kube.writing.sender import Sender
from scheduler.objects.kinds import MOVE_PLAN, POD_MIX_HISTORY, WATCHED, Kind, derived_from
from scheduler.plugins.fragmentation import FragmentationAware
from scheduler.plugins.fragmentation.args import FragmentationAwareArgs
from scheduler.serve.access import RequestAuthorizer
from scheduler.serve.app import Address, Server
from scheduler.serve.certificates import Files, ServingCertificate
from scheduler.serve.health import HealthChecks
from scheduler.serve.sources import About, EndpointSources
from scheduler.state.view import ClusterView

DRAIN_S = 10.0
LAG_EVERY_S = 1.0
WILDCARDS = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound

_log = structlog.get_logger()

Operators = Callable[[ClusterView, FencedApi, Solving], Coroutine[Any, Any, None]]
# Requests load figures and puts the responses into the inbox.
Figures = Callable[[ClusterView, Callable[[Event], None]], Coroutine[Any, Any, None]]


class DaemonOptions(NamedTuple):
    """Settings of the command line beside the configuration."""

    version: str
    address: Address = Address()
    certificate: Files = Files()
    flags: Mapping[str, str] = {}
    set_verbosity: Callable[[int], None] = lambda _level: None
    operators: Operators | None = None
    operators_check: Callable[[], str | None] | None = None
    figures: Figures | None = None
    seed: int = 0
    stopwatch: Callable[[], float] = perf_s
    record: TurnRecord | None = None
    on_listed: Callable[[], None] = lambda: None
    helper_jobs: str = ""
    limits: EffectLimits = EffectLimits()
    configuration_error: Callable[[], str] = lambda: ""


class Daemon:
    """One scheduler process."""

    def __init__(
        self,
        loaded: Loaded,
        registry: Registry,
        client: ApiClient,
        *,
        clock: Clock,
        random: Random,
        meters: Meters,
        options: DaemonOptions,
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._meters = meters
        self.engine = Engine(
            loaded.profiles,
            registry,
            settings=engine_settings(loaded, seed=options.seed),
            meters=meters,
            stopwatch=options.stopwatch,
        )
        show_ages(self.engine, clock, meters)
        show_network(self.engine, clock, meters)
        show_devices(self.engine, meters)
        watched = watched_kinds(loaded)
        self._synced = Synced(self.engine.intake, clock, meters, watched)
        self._traces = Traces.wanted(loaded.trellis.tracing, options.version, clock)
        self.history_log = DecisionHistory(self.engine, self._traces)
        self._inbox = Inbox(None if options.record is None else options.record.arrive)
        self._fence = Fence(clock)
        configured = loaded.scheduler.extenders
        self._extenders = Extenders(configured, self._fence, meters) if configured else None
        self._solving = Solving(meters)
        host = socket.gethostname()
        limits = options.limits.within(loaded.scheduler.client_connection.qps)
        self._recorder = Recorder(
            Sender(client, self._fence, random, meters),
            host,
            meters=meters,
            pace=limits.pace(clock),
        )
        self._executor = self._make_executor(limits, random)
        self._watches = Watches(
            watched,
            client,
            self._inbox.put,
            random=random,
            meters=meters,
            raw_objects=self._extenders.raw_objects if self._extenders else None,
        )
        self._election = self._make_election(loaded, host, random)
        self._loop = Loop(
            self.engine,
            self._inbox,
            self._executor,
            clock,
            meters,
            after_turn=self._after_turn,
            record=options.record,
            stopwatch=options.stopwatch,
        )
        access = RequestAuthorizer(self._review, clock, meters)
        origin = {
            "cluster": client.server,
            "version": options.version,
            "profile": ", ".join(one.scheduler_name for one in loaded.profiles),
            "daemon": host,
        }
        self._helper_parts = HelperParts(
            self.engine,
            self.history_log,
            access,
            clock,
            meters,
            loaded,
            options.helper_jobs,
            origin,
        )
        self._server = self._make_server(loaded, access)
        self._fingerprint = fingerprint(loaded)
        self._is_elected = self._election is None
        self._has_lost = False
        self._is_stopping = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def _make_executor(self, limits: EffectLimits, random: Random) -> Executor:
        others: dict[type[Effect], Carry] = {Solve: self._solving.carry}
        if self._extenders is not None:
            others[AskExtender] = self._extenders.carry
        return Executor(
            self._client,
            self._inbox.put,
            self._recorder,
            fence=self._fence,
            clock=self._clock,
            random=random,
            meters=self._meters,
            limits=limits,
            objection=self.engine.objection,
            others=others,
        )

    def stop(self) -> None:
        """Request an orderly end; `run` returns when it is done."""
        self._is_stopping.set()

    def announce(self, reason: str, what: str, *, is_warning: bool = False) -> None:
        """Write an event about this process, regarding its Lease; nothing without a Lease."""
        if self._election is not None:
            self._election.record_event(reason, f"reports: {what}", is_warning=is_warning)

    async def until_newer(self, release: ServerRelease) -> None:
        """Wait until the API server has a newer release than the one that this daemon was built
        for.
        """
        await release.changed(self._client)

    async def discard(self) -> None:
        """Release the resources of a daemon that will not run."""
        await self._end()

    async def run(self) -> int:
        """Run until stopped; return the exit code."""
        self._inbox.put(Leading(active=False))
        self._show_what_runs()
        try:
            await self._server.start()
            self._start("watches", self._watches.run())
            self._start("loop", self._loop.run())
            self._start("lag", self._measure_lag())
            self._start("events", self._tick_events())
            if self._options.figures is not None:
                view = self.engine.watched
                self._start("figures", self._options.figures(view, self._inbox.put))
            if self._helper_parts.parts:
                self._start("helper parts", self._helper_parts.run())
            if self._election is not None:
                self._election.publish(self._published)
                self._start("election", self._election.run())
            return await self._live()
        finally:
            await self._end()

    def _published(self) -> dict[str, str]:
        """Return the annotations of the Lease: where the command line finds this process."""
        found = {CONFIGURATION: self._fingerprint, LEASE_VERSION: self._options.version}
        if denied := self._watches.denied():
            found[DENIED] = ",".join(denied)
        if error := self._options.configuration_error():
            found[CONFIGURATION_ERROR] = cut_bytes(" ".join(error.split()), MESSAGE_BYTES)
        host = self._options.address.host
        if self._server.port:
            # Beside a wildcard it listens on loopback too; a pod is reached by a port-forward.
            host = "127.0.0.1" if host in WILDCARDS else host
            found[ENDPOINT] = f"https://{f'[{host}]' if ':' in host else host}:{self._server.port}"
        return found

    def _show_what_runs(self) -> None:
        meters, version = self._meters, self._options.version
        meters.build_info.labels(version, platform.python_version()).set(1)
        machine = f"{platform.system().lower()}/{platform.machine()}"
        meters.kubernetes_build_info.labels(version, machine).set(1)
        meters.leading.read_from(lambda: float(self.engine.is_leading))

    async def _live(self) -> int:
        stopping = asyncio.create_task(self._is_stopping.wait())
        try:
            await asyncio.wait(
                {stopping, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
        for name, task in self._tasks.items():
            if task.done() and not task.cancelled() and task.exception() is not None:
                _log.error("a part of the daemon has failed", part=name, exc_info=task.exception())
                return 1
        if self._has_lost:
            _log.error("lease lost, nothing is sent any more")
            return 1
        await self._finish()
        return 0

    async def _finish(self) -> None:
        """Finish the writes in flight, then release the lease."""
        _log.info("stopping", in_flight=self.engine.view.bindings().in_flight)
        self._inbox.put(Leading(active=False))
        self._cancel("operators")
        deadline = self._clock.now() + DRAIN_S
        while self.engine.view.bindings().busy:
            left_s = deadline - self._clock.now()
            if left_s <= 0:
                break
            # Answers reach the engine through the loop, which runs until the end.
            await asyncio.sleep(min(0.01, left_s))
        self._recorder.finish()
        await self._executor.drain(max(0.1, deadline - self._clock.now()))
        election = self._tasks.get("election")
        if self._election is not None and election is not None:
            self._election.leave()
            await asyncio.wait({election}, timeout=DRAIN_S)

    async def _end(self) -> None:
        for name in list(self._tasks):
            self._cancel(name)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._executor.close()
        if self._extenders is not None:
            await self._extenders.close()
        await self._solving.close()
        if self._traces is not None:
            await self._traces.close()
        await self._server.stop()
        await self._helper_parts.close()
        await self._client.close()

    def _after_turn(self) -> None:
        """Start leading once this process has the lease and every kind has been listed."""
        self._synced.note()
        if self._is_elected and not self.engine.is_leading and not self._is_stopping.is_set():
            if self._synced.missing():
                return
            self._options.on_listed()
            _log.info("scheduling", nodes=self.engine.view.node_count)
            self._inbox.put(Leading(active=True))
            if self._options.operators is not None and "operators" not in self._tasks:
                view, api = self.engine.watched, FencedApi(self._client, self._fence)
                self._start("operators", self._options.operators(view, api, self._solving))

    def _won(self, has_predecessor: bool) -> None:
        self._is_elected = True
        self._executor.resume()
        if has_predecessor:
            self._watches.catch_up()
        self._inbox.put(Leading(active=False))

    def _lost(self) -> None:
        if self._is_stopping.is_set():
            return
        self._has_lost = True
        self._executor.fence()
        self._cancel("operators")

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.create_task(work, name=name)

    def _cancel(self, name: str) -> None:
        task = self._tasks.get(name)
        if task is not None:
            task.cancel()

    def _make_election(self, loaded: Loaded, host: str, random: Random) -> Election | None:
        wanted = loaded.scheduler.leader_election
        if not wanted.leader_elect:
            return None
        self._fence.close()
        settings = LeaseSettings(
            wanted.resource_namespace or own_namespace(self._client),
            wanted.resource_name,
            f"{host}_{uuid.UUID(int=random.getrandbits(128))}",
            lease_s=wanted.lease_duration_s,
            renew_deadline_s=wanted.renew_deadline_s,
            retry_s=wanted.retry_period_s,
        )
        return Election(
            self._client,
            self._fence,
            settings,
            clock=self._clock,
            random=random,
            meters=self._meters,
            on_lead=self._won,
            on_lost=self._lost,
        )

    def _make_server(self, loaded: Loaded, access: RequestAuthorizer) -> Server:
        engine, options = self.engine, self._options
        about = About("trellis", options.version, platform.python_version(), self._clock.now())
        sources = EndpointSources(
            about=about,
            clock=self._clock,
            meters=self._meters,
            configz=lambda: to_configz(loaded),
            flags=lambda: options.flags,
            state=lambda most: inspection.state(engine, most),
            queues=lambda most: inspection.queues(engine, most),
            decision=self.history_log.last,
            pod_resources=lambda: inspection.pod_resources(engine),
            set_verbosity=options.set_verbosity,
            history=lambda namespace, name: history(self.history_log.attempts, namespace, name),
            attempts=lambda most: self.history_log.attempts[-most:],
            page=self._helper_parts.show,
            profile=taken if loaded.scheduler.enable_profiling else None,
        )
        certificate = ServingCertificate(
            options.certificate, ("localhost", socket.gethostname()), self._clock, self._meters
        )
        own = Address(loaded.trellis.page.bind_address, loaded.trellis.page.port)
        return Server(sources, self._checks(), access, certificate, options.address, own)

    def _checks(self) -> HealthChecks:
        checks = HealthChecks()
        checks.register("leaderElection", self._check_election, "healthz", "readyz")
        checks.register("shutdown", self._check_shutdown, "readyz")
        checks.register("credentials", lambda: self._client.credentials.problem, "readyz")
        checks.register("sched-handler-sync", self._synced.check, "readyz")
        if self._options.operators_check is not None:
            checks.register("operators", self._options.operators_check, "healthz")
        return checks

    def _check_election(self) -> str | None:
        if self._election is None or self._election.is_healthy(self._clock.now()):
            return None
        return "the lease could not be renewed for too long"

    def _check_shutdown(self) -> str | None:
        return "process is shutting down" if self._is_stopping.is_set() else None

    async def _review(self, body: dict[str, Any]) -> dict[str, Any]:
        plural = {"TokenReview": "tokenreviews"}.get(body["kind"], "subjectaccessreviews")
        path = f"/apis/{body['apiVersion']}/{plural}"
        response = await self._client.request("POST", path, msgspec.json.encode(body))
        if not response.ok:
            raise ApiError(response.message, code=response.code, reason=response.reason)
        return dict(msgspec.json.decode(response.body))

    async def _measure_lag(self) -> None:
        """Measure the delay of the event loop: a timer that fires late shows what blocked it."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + LAG_EVERY_S
            await asyncio.sleep(LAG_EVERY_S)
            self._meters.loop_lag.observe(max(0.0, clock() - due))

    async def _tick_events(self) -> None:
        """Write the counts of repeated events."""
        while True:
            await asyncio.sleep(10.0)
            self._recorder.tick(self._clock.now())


def own_namespace(client: ApiClient) -> str:
    """Return the namespace we live in: POD_NAMESPACE, else the kubeconfig's or the pod's."""
    with contextlib.suppress(KeyError):
        return os.environ["POD_NAMESPACE"]
    return client.namespace or "default"


def watched_kinds(loaded: Loaded) -> tuple[Kind, ...]:
    """Return the kinds that a daemon with this configuration watches."""
    found = (*WATCHED, *derived_from(derived_kinds(loaded)))
    if not any(_history_of(one.args) for one in loaded.profiles):
        found = tuple(kind for kind in found if kind is not POD_MIX_HISTORY)
    operators = loaded.trellis.operators
    plans_moves = operators.enabled and operators.move_plan.enabled
    return (*found, MOVE_PLAN) if plans_moves else found


def _history_of(args: Mapping[str, Args]) -> str:
    of_packing = args.get(FragmentationAware.name)
    return of_packing.history if isinstance(of_packing, FragmentationAwareArgs) else ""
