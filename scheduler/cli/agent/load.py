"""`trellis agent load`: reports the usage of the node and its pods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scheduler.cli.agent.running import PROC, NodeName, ProcFolder, cluster, run_until_stopped
from scheduler.cli.flags import ContextFlag, KubeconfigFlag, LogFormatFlag, LogLevelFlag


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
