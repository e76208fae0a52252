"""`trellis agent bandwidth`: advertises the speed of the node's link."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.agent.running import PROC, NodeName, ProcFolder, cluster, run_until_stopped
from scheduler.cli.flags import ContextFlag, KubeconfigFlag, LogFormatFlag, LogLevelFlag


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
