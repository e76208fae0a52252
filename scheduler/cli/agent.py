"""`trellis agent`: what runs on every node. One command per agent; each imports only its own."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from operators.agents.load import LoadSettings

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def agent() -> None:
    """Run an agent on a node."""


@app.command()
def load(
    node_name: Annotated[
        str, typer.Option("--node-name", envvar="NODE_NAME", help="The node this runs on.")
    ],
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", help="Else KUBECONFIG, else in-cluster.")
    ] = "",
    context: Annotated[str, typer.Option("--context", help="A context of the kubeconfig.")] = "",
    proc: Annotated[Path, typer.Option("--proc", help="Where the host's /proc is.")] = Path(
        "/proc"
    ),
    cgroups: Annotated[
        Path, typer.Option("--cgroups", help="Where the host's control groups are.")
    ] = Path("/sys/fs/cgroup"),
    sample_seconds: Annotated[
        float, typer.Option("--sample-seconds", min=0.1, help="Between two looks.")
    ] = 5.0,
    log_level: Annotated[str, typer.Option("--log-level", help="debug, info, warning, error")] = (
        "info"
    ),
    log_format: Annotated[str, typer.Option("--log-format", help="json, console or auto")] = "auto",
) -> int:
    """Measure the node and its pods, and report them as its NodeMetric."""
    from operators.agents.load import LoadSettings
    from scheduler.base import logs

    logs.configure(level=log_level, form=log_format)
    settings = LoadSettings(node_name, proc=proc, cgroups=cgroups, sample_s=sample_seconds)
    asyncio.run(_load(settings, kubeconfig, context))
    return 0


async def _load(settings: LoadSettings, kubeconfig: str, context: str) -> None:
    from operators.agents.load import LoadAgent
    from operators.api import Api
    from scheduler.base.clock import RealClock
    from scheduler.base.meters import Meters
    from scheduler.cli.about import VERSION
    from scheduler.kube.client import ApiClient

    clock = RealClock()
    client = await ApiClient.connect(
        kubeconfig, context, clock=clock, meters=Meters(), user_agent=f"trellis-agent/{VERSION}"
    )
    running = asyncio.create_task(LoadAgent(settings, Api(client, 10.0), clock).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return
    finally:
        await client.close()
