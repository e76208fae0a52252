"""`trellis ui`: the page in a browser, of a live cluster by kubeconfig or of a snapshot's files.

What it shows was listed with the user's own rights, so that nobody sees more than kubectl would tell. It
listens on 127.0.0.1 only. Answers are worked out in a thread, one at a time, by the engine that the
daemon runs. Nothing is written to the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec
import structlog

from scheduler.base.clock import perf_s
from scheduler.base.errors import ApiError, TrellisError
from scheduler.cli.asking import options, read_files, setups, tell
from scheduler.cli.live import Access, connect, survey
from scheduler.engine.attempt.choose import Ties
from scheduler.kube.client import ApiClient
from scheduler.serve.feed import Feed
from scheduler.serve.ui import Answers, Change, Page
from scheduler.whatif.diff import diff
from scheduler.whatif.documents import Source, items_of
from scheduler.whatif.explain import explain
from scheduler.whatif.records import Simulation
from scheduler.whatif.setups import Setups
from scheduler.whatif.simulate import simulate
from scheduler.whatif.snapshot import READ, Snapshot, SnapshotReader, read_snapshot
from scheduler.whatif.stage import Options, Setup
from scheduler.whatif.views import Sections, merged, sections

AGAIN_S = 2.0
# Of its time a page spends no more on listing, so that a large cluster is listed less often.
LISTING_SHARE = 0.1

_log = structlog.get_logger()
T = TypeVar("T")


class Work:
    """The world that the page shows, and the answers about it."""

    def __init__(self, known: Setups, wanted: Options) -> None:
        self.feed = Feed()
        self._setups = known
        self._wanted = wanted
        self._world = Snapshot()
        self._one = asyncio.Lock()
        self._planned: tuple[Snapshot, Simulation] | None = None

    @property
    def answers(self) -> Answers:
        """Return what the page may ask."""
        return Answers(self._plan, self._explain, self._change)

    def show(self, world: Snapshot, shown: Sections, now: float) -> None:
        """Replace the world by one that was seen at `now`."""
        self._wanted = msgspec.structs.replace(self._wanted, now=now)
        self._world = world
        self.feed.publish(shown)

    async def _plan(self) -> object:
        return await self._alone(self._simulated)

    async def _explain(self, pod: str) -> object:
        world, wanted = self._world, self._wanted
        setup = self._setups.default
        return await self._alone(lambda: explain(world, setup, pod, wanted))

    async def _change(self, change: Change) -> object:
        world, wanted = self._world, self._wanted

        def compared() -> object:
            given = read_snapshot((), items_of(Source("the manifest", change.manifests.encode())))
            other = merged(world, given) if change.manifests.strip() else world
            after = simulate(other, self._setup_of(change.config), wanted)
            return {"diff": diff(self._simulated(), after), "after": after}

        return await self._alone(compared)

    def _setup_of(self, config: str) -> Setup:
        if not config.strip():
            return self._setups.default
        return self._setups.of(config, file="the configuration")

    def _simulated(self) -> Simulation:
        """Return what would happen now; kept until the world has changed."""
        world = self._world
        if self._planned is None or self._planned[0] is not world:
            self._planned = (world, simulate(world, self._setups.default, self._wanted))
        return self._planned[1]

    async def _alone(self, work: Callable[[], T]) -> T:
        # One at a time: two would only share the interpreter, and hold two engines in memory.
        async with self._one:
            return await asyncio.to_thread(work)


def ui(
    snapshot: list[str] | None,
    config: str,
    now: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    request_timeout_s: float,
    port: int,
) -> int:
    """Serve the page until Ctrl-C."""
    known = setups(config)
    wanted = options(now, Ties.NAME if snapshot else Ties.UID, None, details=False)
    access = Access(kubeconfig, context, request_timeout_s, namespace)
    world = read_files(snapshot, None) if snapshot else None
    asyncio.run(_serve(world, known, wanted, access, port))
    return 0


async def _serve(
    world: Snapshot | None, known: Setups, wanted: Options, access: Access, port: int
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    if world is None:
        place = live_page(known, wanted, access, port)
    else:
        place = _page_of_files(world, known, wanted, port)
    async with place as address:
        print(f"{address}\nCtrl-C ends it.", flush=True)
        await ended.wait()


@contextlib.asynccontextmanager
async def live_page(
    known: Setups, wanted: Options, access: Access, port: int = 0
) -> AsyncIterator[str]:
    """Serve the page of a live cluster and give its address; ApiError when nothing can be read."""
    work = Work(known, wanted)
    client = await connect(access)
    try:
        for notice in await _look(work, client, access):
            tell([f"notice: {notice}"])
        page = Page(work.feed, work.answers)
        address = await page.start(port)
        following = asyncio.create_task(_follow(work, client, access), name="page-follow")
        try:
            yield address
        finally:
            following.cancel()
            await asyncio.wait({following})
            await page.stop()
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def _page_of_files(
    world: Snapshot, known: Setups, wanted: Options, port: int
) -> AsyncIterator[str]:
    work = Work(known, wanted)
    at = world.taken_at if wanted.now is None else wanted.now
    work.show(world, sections(world, at, world.notices), at)
    page = Page(work.feed, work.answers)
    try:
        yield await page.start(port)
    finally:
        await page.stop()


async def _follow(work: Work, client: ApiClient, access: Access) -> None:
    """List the cluster again and again while somebody looks at the page."""
    took_s = 0.0
    while True:
        await asyncio.sleep(max(AGAIN_S, took_s / LISTING_SHARE))
        if not work.feed.readers:
            continue
        began = perf_s()
        try:
            await _look(work, client, access)
        except (TrellisError, OSError, TimeoutError) as error:
            # The last picture stays, and says how old it is.
            _log.warning("the cluster cannot be read; the page shows what it was", error=str(error))
        took_s = perf_s() - began


async def _look(work: Work, client: ApiClient, access: Access) -> tuple[str, ...]:
    reader = SnapshotReader()
    pages = 0

    def take(page: Source) -> None:
        nonlocal pages
        pages += 1
        reader.read(items_of(page))

    seen = await survey(client, access, READ, take, needed=())
    if not pages:
        raise ApiError("you may list nothing in this cluster", code=403, reason="Forbidden")

    def drawn() -> tuple[Snapshot, Sections]:
        world = reader.snapshot()
        return world, sections(world, seen.now, seen.notices)

    world, shown = await asyncio.to_thread(drawn)
    work.show(world, shown, seen.now)
    return seen.notices
