"""`trellis run`: the daemon with its operators, until SIGTERM or Ctrl-C.

Flags that kube-scheduler has are spelled as it spells them; those of leader election override the
file. This is the one place where scheduler and operators meet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from random import SystemRandom
from typing import Any, NamedTuple

import msgspec
import structlog

from operators.api import Api, Connection
from operators.figures import keep_figures
from operators.health import OperatorsHealth
from operators.metricproviders import HttpSettings
from operators.metricproviders.watcher import (
    LoadWatcher,
    MetricsServerWatcher,
    PrometheusWatcher,
)
from operators.settings import (
    AppGroupSettings,
    FiguresSettings,
    MovePlanSettings,
    NodeMetricSettings,
    OperatorsSettings,
)
from scheduler.about import VERSION
from scheduler.base import logs
from scheduler.base.clock import RealClock
from scheduler.base.errors import InputError
from scheduler.base.meters import Meters
from scheduler.cli.command import no_collector
from scheduler.cli.commands import Preset, RunFlags
from scheduler.cli.inputs.files import read_text, shown
from scheduler.cli.signals import on_stop
from scheduler.config import Loaded, default_config, read_gates, to_log
from scheduler.config.every import load_or_report_all
from scheduler.config.presets import PRESETS
from scheduler.config.trellis import MetricProviderConfig
from scheduler.daemon import Daemon, DaemonOptions, gctuning
from scheduler.daemon.configfile import ConfigFile
from scheduler.daemon.records.decisionfile import DecisionFile
from scheduler.daemon.releases import ServerRelease
from scheduler.daemon.solving import Solving
from scheduler.daemon.supervisor import Supervisor
from scheduler.engine.decisionlog import Header
from scheduler.engine.effects import Event, Watched
from scheduler.explain.questions import check_shapes
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.writing.fence import FencedApi
from scheduler.objects.reports.watchermetrics import WatcherMetrics
from scheduler.plugins.network import NetworkMinCost, NetworkOverhead
from scheduler.plugins.network.args import TopologyArgs
from scheduler.plugins.network.bandwidth.risks import (
    CheckRiskNodeBandwidth,
    LoadVariationRiskBalancing,
    RiskArgs,
    WatcherProvider,
)
from scheduler.serve.app import Address
from scheduler.serve.certificates import Files
from scheduler.state.view import ClusterView
from scheduler.workers import JobOutcome, WorkerPool

REQUEST_LIMIT_S = 10.0

_log = structlog.get_logger()


def run(flags: RunFlags) -> int:
    """Run the scheduler: the daemon and its endpoints."""
    threshold = logs.configure(level=flags.log_level, form=flags.log_format)
    clock, meters = RealClock(), Meters()
    if flags.config and flags.profile is not Preset.DEFAULT:
        raise InputError("--profile is a configuration by name; it goes without --config")
    gates, preset = read_gates(flags.feature_gates), PRESETS[flags.profile]
    source = ConfigSource(flags.config, flags.leader_elect, gates, preset)
    loaded, file = source.open(clock, meters)
    for notice in loaded.notices:
        _log.warning("configuration", notice=str(notice))
    shown_flags = ("config", "bind_address", "secure_port", "decision_log", "feature_gates")
    options = DaemonOptions(
        VERSION,
        address=Address(flags.bind_address, flags.secure_port),
        certificate=Files(flags.tls_cert_file, flags.tls_private_key_file, flags.client_ca_file),
        flags={name.replace("_", "-"): str(getattr(flags, name)) for name in shown_flags},
        # klog's 4 and up is our debug.
        seed=SystemRandom().getrandbits(32),
        set_verbosity=lambda level: threshold.set_level("debug" if level >= 4 else flags.log_level),
        on_listed=gctuning.keep,
        helper_jobs="scheduler.cli.jobs.pagejobs",
        configuration_error=lambda: "" if file is None else file.error,
    )
    log = _decision_file(flags.decision_log, source, loaded, options.seed)
    if log is not None:
        options = options._replace(record=log)
    # A replay starts from the log's header: with a log, a new configuration or release requires a
    # restart.
    release = ServerRelease(is_fixed=log is not None)
    building = DaemonParts(options, flags.kubeconfig, flags.context, clock, meters, release)
    followed = (file, meters, release) if log is None else (None, meters)
    supervisor = Supervisor(building.build, *followed)
    return asyncio.run(_logged(_run(supervisor, loaded), log, building.look(loaded), release))


class ConfigSource(NamedTuple):
    """The source of the configuration: a file, stdin (`-`) or none; flags override its values."""

    config: str
    leader_elect: bool | None
    gates: Mapping[str, bool]
    preset: str = ""

    def open(self, clock: RealClock, meters: Meters) -> tuple[Loaded, ConfigFile | None]:
        """Read it; also return the file if it can be watched for changes."""
        if self.config not in ("", "-"):
            file = ConfigFile(self.config, self.read, clock, meters)
            return file.read(), file
        # without a file there is no newer configuration
        meters.config_last_reload_successful.set(1)
        if self.config:
            return self.read(read_text(self.config)), None
        if self.preset:
            return self.read(self.preset), None
        return self._flagged(default_config(registry())), None

    def read(self, text: str) -> Loaded:
        """Return the configuration of a text, with the flags applied."""
        return self._flagged(load_or_report_all(text, file=shown(self.config), registry=registry()))

    def _flagged(self, loaded: Loaded) -> Loaded:
        check_shapes((one.manifest for one in loaded.trellis.capacity.shapes), shown(self.config))
        return _with_gates(_elected(loaded, self.leader_elect), self.gates)


def _decision_file(
    flag: str, source: ConfigSource, loaded: Loaded, seed: int
) -> DecisionFile | None:
    """Return the decision log that the flag or the file names."""
    path, config = flag or loaded.trellis.decision_log.path, source.config
    if not path:
        return None
    if source.gates:
        text = "a decision log is replayed with the file alone; write them there as featureGates"
        raise InputError(text, where="--feature-gates")
    # Stdin has been read to its end, and cannot change.
    given = source.preset if config in ("", "-") else read_text(config)
    has_file = bool(config or source.preset)
    return DecisionFile(path, Header(VERSION, to_log(loaded, given) if has_file else "", seed))


async def _logged(
    work: Coroutine[Any, Any, int],
    log: DecisionFile | None,
    look: Coroutine[Any, Any, None],
    release: ServerRelease,
) -> int:
    """Run the daemon with its decision log being written beside it; the log's header has the
    release.
    """
    if log is None:
        look.close()
        return await work
    try:
        await look
        log.state_release(release.known)
        await log.open()
    except BaseException:  # cancellation too: a coroutine that never ran would warn
        work.close()
        raise
    writing = asyncio.create_task(log.run(), name="decision log")
    try:
        return await work
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await log.close()


async def _run(supervisor: Supervisor, loaded: Loaded) -> int:
    on_stop(supervisor.stop)
    return await supervisor.run(loaded)


class DaemonParts(NamedTuple):
    """The parts that every daemon of this process shares, beside its configuration."""

    options: DaemonOptions
    kubeconfig: str
    context: str
    clock: RealClock
    meters: Meters
    release: ServerRelease

    async def look(self, loaded: Loaded) -> None:
        """Read the API server's release."""
        client = await self._connect(loaded)
        try:
            await self.release.look(client)
        finally:
            await client.close()

    async def _connect(self, loaded: Loaded) -> ApiClient:
        connection = loaded.scheduler.client_connection
        return await ApiClient.connect(
            self.kubeconfig or connection.kubeconfig,
            self.context,
            clock=self.clock,
            meters=self.meters,
            user_agent=f"trellis/{self.options.version}",
            qps=connection.qps or 0.0,
            burst=connection.burst,
        )

    async def build(self, loaded: Loaded) -> Daemon:
        """Build a daemon; ConfigError when its API server cannot be reached that way."""
        options = self.options
        client = await self._connect(loaded)
        await self.release.look(client)
        loaded = msgspec.structs.replace(loaded, release=self.release.known)
        health = OperatorsHealth(self.meters, self.clock)
        wanted_figures = figures_settings(loaded)
        if wanted_figures is not None:

            def figures(
                view: ClusterView, put: Callable[[Event], None]
            ) -> Coroutine[Any, Any, None]:
                def show(verb: str, metrics: WatcherMetrics) -> None:
                    put(Watched("WatcherMetrics", verb, metrics))

                api, reported = Api(client, REQUEST_LIMIT_S), health.sources.reported
                return keep_figures(wanted_figures, view, api, show, self.clock, reported)

            options = options._replace(figures=figures)
        if loaded.trellis.operators.enabled:

            def operators(
                view: ClusterView, api: FencedApi, solving: Solving
            ) -> Coroutine[Any, Any, None]:
                where, wanted = Connection(api, client.credentials), operators_settings(loaded)
                return _operate(wanted, view, where, health, self.clock, solving)

            options = options._replace(operators=operators, operators_check=health.check)
        try:
            return Daemon(
                loaded,
                registry(),
                client,
                clock=self.clock,
                random=SystemRandom(),
                meters=self.meters,
                options=options,
            )
        except BaseException:  # cancellation too: the client has open connections
            await client.close()
            raise


async def _operate(
    wanted: OperatorsSettings,
    view: ClusterView,
    where: Connection,
    health: OperatorsHealth,
    clock: RealClock,
    solving: Solving,
) -> None:
    """Run the operators. Their code is imported here: importing kopf takes as long as everything
    else.
    """
    run_operators = await asyncio.to_thread(_imported_operators)
    await run_operators(wanted, view, where, health, clock, solving, MovePlanner())


def _imported_operators() -> Callable[..., Coroutine[Any, Any, None]]:
    with no_collector():
        from operators.run import run_operators

    return run_operators


def _elected(loaded: Loaded, leader_elect: bool | None) -> Loaded:
    """Return the configuration with leader election overridden by the flag, if given."""
    if leader_elect is None:
        return loaded
    replace = msgspec.structs.replace
    election = replace(loaded.scheduler.leader_election, leader_elect=leader_elect)
    return replace(loaded, scheduler=replace(loaded.scheduler, leader_election=election))


def _with_gates(loaded: Loaded, gates: Mapping[str, bool]) -> Loaded:
    replace = msgspec.structs.replace
    merged = {**loaded.trellis.feature_gates, **gates}
    return replace(loaded, trellis=replace(loaded.trellis, feature_gates=merged))


def operators_settings(loaded: Loaded) -> OperatorsSettings:
    """Return the settings of the operators in a configuration."""
    wanted = loaded.trellis.operators
    chosen = {
        "appgroup": wanted.app_group.enabled,
        "networktopology": wanted.network_topology.enabled,
        "nodemetric": wanted.node_metric.enabled,
        "moveplan": wanted.move_plan.enabled,
    }
    return OperatorsSettings(
        enabled=tuple(name for name, enabled in chosen.items() if enabled),
        app_group=_app_group_settings(loaded),
        node_metric=_node_metric_settings(loaded),
        move_plan=_move_plan_settings(loaded),
    )


def _move_plan_settings(loaded: Loaded) -> MovePlanSettings:
    wanted = loaded.trellis.operators.move_plan
    if not wanted.enabled:
        return MovePlanSettings()
    return MovePlanSettings(to_log(loaded, ""), tuple(wanted.approve))


class MovePlanner:
    """The helper process that plans moves; it runs while a plan is calculated or executed."""

    def __init__(self) -> None:
        self._pool: WorkerPool | None = None

    async def run(self, kind: str, payload: bytes, limit_s: float) -> JobOutcome:
        """Run a job; the first one starts the process."""
        if self._pool is None:
            self._pool = WorkerPool("scheduler.cli.jobs.movejobs")
            await self._pool.start()
        return await self._pool.run(kind, payload, limit_s)

    async def close(self) -> None:
        """End the process."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


def _app_group_settings(loaded: Loaded) -> AppGroupSettings:
    """Return the names of the first profile that sets one for a network plugin; the file may
    differ.

    Every profile has NetworkOverhead, so a profile without names of its own decides nothing.
    """
    wanted = loaded.trellis.operators.app_group
    given = (
        profile.args.get(name)
        for profile in loaded.profiles
        for name in (NetworkOverhead.__name__, NetworkMinCost.__name__)
    )
    names = (_names_of(args) for args in given if isinstance(args, TopologyArgs))
    usual = _names_of(TopologyArgs())
    namespaces, topology, weights = next((one for one in names if one != usual), usual)
    return AppGroupSettings(
        namespaces,
        wanted.network_topology_name or topology,
        wanted.weights_name or weights,
    )


def _names_of(args: TopologyArgs) -> tuple[tuple[str, ...], str, str]:
    return args.namespaces, args.network_topology_name, args.weights_name


def figures_settings(loaded: Loaded) -> FiguresSettings | None:
    """Return the source of the figures for the risk plugins; None if no profile has one."""
    risk_args = [
        profile.args.get(name) or RiskArgs()
        for profile in loaded.profiles
        for name in (CheckRiskNodeBandwidth.__name__, LoadVariationRiskBalancing.__name__)
        if any(one.name == name for listed in profile.plugins.values() for one in listed)
    ]
    found = list(
        dict.fromkeys(_source_of(args) for args in risk_args if isinstance(args, RiskArgs))
    )
    if len(found) > 1:
        _log.warning("more than one source of figures, the first is asked", sources=len(found))
    return found[0] if found else None


def _source_of(args: RiskArgs) -> FiguresSettings:
    provider = args.metric_provider
    if args.watcher_address:
        return FiguresSettings(LoadWatcher.name, HttpSettings(args.watcher_address))
    if provider is None or provider.type != PrometheusWatcher.name:
        return FiguresSettings(MetricsServerWatcher.name)
    return FiguresSettings(PrometheusWatcher.name, _http(provider))


def _node_metric_settings(loaded: Loaded) -> NodeMetricSettings:
    wanted = loaded.trellis.operators.node_metric
    bare = NodeMetricSettings(
        config_map=wanted.config_map, report_interval_s=wanted.report_interval_seconds
    )
    for provider in loaded.trellis.metric_providers:
        if provider.name == wanted.provider:
            return msgspec.structs.replace(bare, source=provider.type, http=_http(provider))
    return bare


def _http(provider: WatcherProvider | MetricProviderConfig) -> HttpSettings:
    return HttpSettings(
        provider.address,
        token_file=provider.token_file,
        insecure_skip_verify=provider.insecure_skip_verify,
    )
