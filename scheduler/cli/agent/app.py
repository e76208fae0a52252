"""`trellis agent`: reports the usage of a node and its pods, the speed of its link, latencies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.agent import netperf
from scheduler.cli.agent.running import PROC, NodeName, ProcFolder, cluster, run_until_stopped
from scheduler.cli.flags import ContextFlag, KubeconfigFlag, LogFormatFlag, LogLevelFlag

agent = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@agent.callback()
def _about() -> None:
    """Run an agent on a node."""


@agent.command()
def load(
    node_name: NodeName,
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    proc: ProcFolder = PROC,
    cgroups: Annotated[
        Path, typer.Option("--cgroups", help="Where the host's control groups are.")
    ] = Path("/sys/fs/cgroup"),
    sample_seconds: Annotated[
        float, typer.Option("--sample-seconds", min=0.1, help="Between two samples.")
    ] = 5.0,
    log_level: LogLevelFlag = "info",
    log_format: LogFormatFlag = "auto",
) -> int:
    """Measure the node and its pods, and report them as its NodeMetric."""
    from operators.agents.load import LoadAgent, LoadSettings

    settings = LoadSettings(node_name, proc=proc, cgroups=cgroups, sample_s=sample_seconds)

    async def start() -> None:
        async with cluster(kubeconfig, context) as found:
            await LoadAgent(settings, found.api, found.clock).run()

    return run_until_stopped(start, log_level, log_format)


@agent.command()
def bandwidth(
    node_name: NodeName,
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    interface: Annotated[
        str, typer.Option("--interface", help="By default that of the default route.")
    ] = "",
    assume: Annotated[
        str, typer.Option("--assume", help="For a link that reports no speed, such as 10G.")
    ] = "",
    sysfs: Annotated[Path, typer.Option("--sysfs", help="Where the host's /sys is.")] = Path(
        "/sys"
    ),
    proc: ProcFolder = PROC,
    every_seconds: Annotated[
        float, typer.Option("--every-seconds", min=0.1, help="Between two readings of the link.")
    ] = 10.0,
    check_seconds: Annotated[
        float, typer.Option("--check-seconds", min=1.0, help="Between two readings of the node.")
    ] = 300.0,
    log_level: LogLevelFlag = "info",
    log_format: LogFormatFlag = "auto",
) -> int:
    """Advertise the node's link as network.aware.com/bandwidth, in bit/s."""
    from operators.agents.bandwidth import BandwidthAgent, BandwidthSettings

    settings = BandwidthSettings(
        node_name,
        interface,
        _bits_per_s(assume),
        sysfs=sysfs,
        proc=proc,
        every_s=every_seconds,
        check_s=check_seconds,
    )

    async def start() -> None:
        async with cluster(kubeconfig, context) as found:
            await BandwidthAgent(settings, found.api, found.clock).run()

    return run_until_stopped(start, log_level, log_format)


def _bits_per_s(assume: str) -> int:
    from scheduler.base.errors import ConfigError, ObjectError
    from scheduler.objects.quantity import quantity

    try:
        bits_per_s = quantity(assume) if assume else 0
    except ObjectError as error:
        raise ConfigError(error.message, where="--assume") from error
    if assume and bits_per_s <= 0:
        raise ConfigError(f'"{assume}" is no speed', where="--assume")
    return bits_per_s


agent.add_typer(netperf.app, name="netperf")
