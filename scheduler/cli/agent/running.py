"""The parts that all agents share on the command line: flags, API server connection, shutdown."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from operators.api import Api
    from scheduler.base.clock import Clock

API_TIMEOUT_S = 10.0

NodeName = Annotated[
    str, typer.Option("--node-name", envvar="NODE_NAME", help="The node this runs on.")
]
ProcFolder = Annotated[Path, typer.Option("--proc", help="Where the host's /proc is.")]
PROC = Path("/proc")


class AgentConnection(NamedTuple):
    """An open connection, the namespace that it names, and the clock."""

    api: "Api"
    namespace: str
    clock: "Clock"


@asynccontextmanager
async def cluster(kubeconfig: str, context: str) -> AsyncIterator[AgentConnection]:
    """Connect to the API server; ConfigError without a usable kubeconfig or service account."""
    from operators.api import Api
    from scheduler.about import VERSION
    from scheduler.base.clock import RealClock
    from scheduler.base.meters import Meters
    from scheduler.kube.connection.client import ApiClient

    clock = RealClock()
    client = await ApiClient.connect(
        kubeconfig, context, clock=clock, meters=Meters(), user_agent=f"trellis-agent/{VERSION}"
    )
    try:
        yield AgentConnection(Api(client, API_TIMEOUT_S), client.namespace, clock)
    finally:
        await client.close()


def run_until_stopped(start: Callable[[], Coroutine[Any, Any, None]], level: str, form: str) -> int:
    """Run an agent until SIGTERM or SIGINT; return the exit code."""
    from scheduler.base import logs

    logs.configure(level=level, form=form)
    asyncio.run(_until_stopped(start))
    return 0


async def _until_stopped(start: Callable[[], Coroutine[Any, Any, None]]) -> None:
    running = asyncio.create_task(start())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        return
