"""Watch a live cluster and feed what it reports to a `TraceRecorder`.

The watches are those of the daemon, so a lost connection is listed again. Nothing is written to the
cluster.
"""

import asyncio
import signal
from collections.abc import Callable
from random import Random

from scheduler.base.clock import RealClock
from scheduler.base.errors import ApiError
from scheduler.base.meters import Meters
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.live import connect
from scheduler.engine.effects import Event, Leading, Listed
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.watching.watches import Watches
from scheduler.objects.kinds import NODE, POD, WATCHED
from scheduler.simulate.traces.record import TraceRecorder


def record_live(
    access: ClusterOptions,
    recorder: TraceRecorder,
    length_s: float | None,
    on_listed: Callable[[list[str]], None],
) -> None:
    """Record until `length_s` is over or Ctrl-C; ApiError where nodes or pods may not be listed.

    Call `on_listed` once, when every kind has been listed and the trace starts, with the kinds that
    may not be.
    """
    asyncio.run(_record(access, recorder, length_s, on_listed))


async def _record(
    access: ClusterOptions,
    recorder: TraceRecorder,
    length_s: float | None,
    on_listed: Callable[[list[str]], None],
) -> None:
    client, clock = await connect(access), RealClock()

    unlisted = {kind.kind for kind in WATCHED}
    listed = asyncio.Event()

    def take(event: Event) -> None:
        recorder.take(clock.now(), (event,))
        if isinstance(event, Listed) and not listed.is_set():
            unlisted.discard(event.kind)
            if not unlisted:
                # The daemon, too, decides nothing until it has listed every kind.
                recorder.take(clock.now(), (Leading(active=True),))
                listed.set()

    async def announce() -> None:
        await listed.wait()
        on_listed([f"{name}: you may not list them" for name in watches.denied()])
        await stopped.wait()

    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    spread = Random()  # noqa: S311 - spreads pauses
    watches = Watches(WATCHED, client, take, random=spread, meters=Meters())
    tasks: list[asyncio.Task[None]] = []
    try:
        await _check_rights(client, access.timeout_s)
        tasks = [asyncio.create_task(watches.run()), asyncio.create_task(announce())]
        ended, _ = await asyncio.wait(tasks, timeout=length_s, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()  # a fault in a watch is raised here
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


async def _check_rights(client: ApiClient, timeout_s: float) -> None:
    """Raise ApiError at once where a watch would only retry."""
    for kind in (NODE, POD):
        found = await client.request("GET", f"{kind.path}?limit=1", timeout_s=timeout_s)
        if not found.ok:
            text = found.message or found.reason or "no answer"
            raise ApiError(
                f"cannot list {kind.plural}: {text}", code=found.code, reason=found.reason
            )
