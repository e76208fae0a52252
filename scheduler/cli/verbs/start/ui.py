"""`trellis ui`: the page in a browser, of a live cluster by kubeconfig, of a snapshot or of a
decision log.

Objects are listed with the user's own rights, so the page shows no more than kubectl would. It
listens on 127.0.0.1 only. Answers are computed in a thread, one at a time, by the engine that the
daemon runs. Nothing is written to the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import structlog

from scheduler.about import VERSION
from scheduler.base.clock import perf_s
from scheduler.base.errors import ApiError, InputError, TrellisError
from scheduler.cli.commands import UiFlags
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.cmdio import (
    be_quick,
    listed_kinds,
    options,
    print_stderr,
    read_files,
    setups,
)
from scheduler.cli.inputs.leader import leader
from scheduler.cli.inputs.live import connect, survey
from scheduler.cli.inputs.logged import LogView, configuration
from scheduler.cli.signals import on_stop
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.attempts import AttemptRecord, LeaderChange, moments, undone
from scheduler.explain.questions import Question
from scheduler.explain.responder import QuestionResponder
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.serve.feed import PageFeed
from scheduler.serve.pageroutes import Answers, TrialChange
from scheduler.serve.ui import PageSite
from scheduler.simulate.derive import with_derived_groups
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.nodeview import node_view
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader
from scheduler.snapshot.views import Sections, sections, with_origin

AGAIN_S = 2.0
# The largest share of its time that a page spends on listing, so that a large cluster is listed
# less often.
LISTING_SHARE = 0.1

_log = structlog.get_logger()
T = TypeVar("T")


class PastView(Protocol):
    """The past: the recorded attempts, and the cluster at a time."""

    def attempts(self) -> Sequence[AttemptRecord]:
        """Return all attempts."""

    def leading(self) -> Iterable[LeaderChange]:
        """Return the recorded changes of the leader."""

    def snapshot_at(self, at: float, now: Snapshot) -> Snapshot:
        """Return the cluster at time `at`; `now` is the present one. InputError if that time is
        unknown.
        """


class HistoryView:
    """The past as a daemon of this process keeps it."""

    def __init__(self, history_log: DecisionHistory) -> None:
        self._history_log = history_log

    def attempts(self) -> Sequence[AttemptRecord]:
        """Return the attempts that are kept."""
        return self._history_log.attempts

    def leading(self) -> Iterable[LeaderChange]:
        """Return when the daemon began and ceased to lead."""
        return self._history_log.leading

    def snapshot_at(self, at: float, now: Snapshot) -> Snapshot:
        """Return `now` without later decisions."""
        return undone(now, self._history_log.attempts, at)


class Work:
    """The cluster that the page shows, its history, and the answers about both."""

    def __init__(
        self,
        known: Setups,
        wanted: AnswerOptions,
        past: PastView | None = None,
        origin: Mapping[str, str] | None = None,
    ) -> None:
        self.feed = PageFeed()
        profiles = ", ".join(one.scheduler_name for one in known.default.loaded.profiles)
        self._origin = {**(origin or {}), "version": VERSION, "profile": profiles}
        self._answering = QuestionResponder(known)
        self._loaded = known.default.loaded
        self.kinds = listed_kinds(known.default)
        self._wanted = wanted
        self._past = past
        self._snapshot = Snapshot()
        self._one = asyncio.Lock()

    @property
    def answers(self) -> Answers:
        """Return the answers to the page's questions."""
        return Answers(
            self._plan, self._explain, self._change, self._moments, self._back, self._node
        )

    def drawn(
        self, snapshot: Snapshot, now: float, notices: Sequence[str]
    ) -> tuple[Snapshot, Sections]:
        """Return a cluster with the groups that the configuration derives, and its sections."""
        snapshot = with_derived_groups(snapshot, self._loaded)
        return snapshot, sections(snapshot, now, notices)

    def show(self, snapshot: Snapshot, shown: Sections, now: float) -> None:
        """Replace the cluster by the one that was read at `now`."""
        self._wanted = msgspec.structs.replace(self._wanted, now=now)
        self._snapshot = snapshot
        self.feed.publish(with_origin(shown, self._origin))

    async def _plan(self, at: float | None) -> object:
        return await self._answer(Question("plan"), at)

    async def _explain(self, pod: str, at: float | None) -> object:
        return await self._answer(Question("explain", pod=pod), at)

    async def _change(self, change: TrialChange, at: float | None) -> object:
        question = Question("change", **msgspec.structs.asdict(change))
        return await self._answer(question, at)

    async def _moments(self) -> object:
        past = self._past
        if past is None:
            return moments(())
        return await self._alone(lambda: moments(past.attempts(), past.leading()))

    async def _back(self, at: float) -> object:
        def picture() -> object:
            snapshot = self._at(at)
            return with_origin(sections(snapshot, at, snapshot.notices), self._origin)

        return await self._alone(picture)

    async def _node(self, name: str, at: float | None) -> object:
        def viewed() -> object:
            return node_view(self._snapshot if at is None else self._at(at), name)

        return await self._alone(viewed)

    async def _answer(self, question: Question, at: float | None) -> object:
        def answer() -> object:
            if at is None:
                return self._answering.answer(question, self._snapshot, self._wanted)
            wanted = msgspec.structs.replace(self._wanted, now=at)
            return self._answering.answer(question, self._at(at), wanted)

        return await self._alone(answer)

    def _at(self, at: float) -> Snapshot:
        if self._past is None:
            raise InputError("the past is not known: only a daemon or a decision log records it")
        return with_derived_groups(self._past.snapshot_at(at, self._snapshot), self._loaded)

    async def _alone(self, work: Callable[[], T]) -> T:
        # One at a time: two would share the interpreter and keep two engines in memory.
        async with self._one:
            return await asyncio.to_thread(work)


def ui(flags: UiFlags) -> int:
    """Serve the page until Ctrl-C."""
    if flags.decision_log:
        if flags.snapshot:
            raise InputError("--snapshot and --decision-log exclude one another")
        past = LogView(flags.decision_log)
        origin = {"cluster": f"decision log {Path(flags.decision_log).name}"}
        known = setups(flags.config) if flags.config else _setups_of(past)
        snapshot = past.snapshot()
        shown = msgspec.structs.replace(snapshot, notices=past.notices)
        wanted = options(flags.now, Ties.UID, None, details=False)
        return _run(page_of_files(shown, known, wanted, flags.port, past, origin))
    access = None if flags.snapshot else cluster_options(flags.cluster, flags.namespace)
    known = setups(flags.config, access)
    wanted = options(flags.now, Ties.NAME if flags.snapshot else Ties.UID, None, details=False)
    if flags.snapshot:
        be_quick()  # the objects of the files live as long as the page
        snapshot = read_files(flags.snapshot, None)
        names = ", ".join(Path(one).name for one in flags.snapshot)
        origin = {"cluster": f"snapshot {names}"}
        return _run(page_of_files(snapshot, known, wanted, flags.port, origin=origin))
    return _run(
        live_page(known, wanted, cluster_options(flags.cluster, flags.namespace), flags.port)
    )


def _setups_of(past: LogView) -> Setups:
    known = registry()
    return Setups(known, Setup(configuration(past.header), known))


def _run(place: AbstractAsyncContextManager[str]) -> int:
    asyncio.run(_serve(place))
    return 0


async def _serve(place: AbstractAsyncContextManager[str]) -> None:
    ended = asyncio.Event()
    on_stop(ended.set)
    async with place as address:
        print(f"{address}\nCtrl-C ends it.", flush=True)
        await ended.wait()


@contextlib.asynccontextmanager
async def live_page(
    known: Setups,
    wanted: AnswerOptions,
    access: ClusterOptions,
    port: int = 0,
    past: PastView | None = None,
) -> AsyncIterator[str]:
    """Serve the page of a live cluster and print its address; ApiError if no object can be read."""
    client = await connect(access)
    work = Work(known, wanted, past, await _origin(client, access))
    try:
        for notice in await _look(work, client, access):
            print_stderr([f"notice: {notice}"])
        page = PageSite(work.feed, work.answers)
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
async def page_of_files(
    snapshot: Snapshot,
    known: Setups,
    wanted: AnswerOptions,
    port: int = 0,
    past: PastView | None = None,
    origin: Mapping[str, str] | None = None,
) -> AsyncIterator[str]:
    """Serve the page of an unchanging snapshot, with its known history."""
    work = Work(known, wanted, past, origin)
    at = snapshot.taken_at if wanted.now is None else wanted.now
    work.show(*work.drawn(snapshot, at, snapshot.notices), at)
    page = PageSite(work.feed, work.answers)
    try:
        yield await page.start(port)
    finally:
        await page.stop()


async def _origin(client: ApiClient, access: ClusterOptions) -> dict[str, str]:
    """Return the cluster's address, the context if one was named, and the current leader if there
    is one.
    """
    found = {"cluster": client.server}
    if access.context:
        found["context"] = access.context
    with contextlib.suppress(TrellisError, OSError, TimeoutError):
        found["leader"] = (await leader(client, "", access.timeout_s)).host
    return found


async def _follow(work: Work, client: ApiClient, access: ClusterOptions) -> None:
    """List the cluster repeatedly while a browser has the page open."""
    took_s = 0.0
    while True:
        await asyncio.sleep(max(AGAIN_S, took_s / LISTING_SHARE))
        if not work.feed.readers:
            continue
        began = perf_s()
        try:
            await _look(work, client, access)
        except (TrellisError, OSError, TimeoutError) as error:
            # The last picture stays, and shows its age.
            _log.warning("the cluster cannot be read; the page shows what it was", error=str(error))
        took_s = perf_s() - began


async def _look(work: Work, client: ApiClient, access: ClusterOptions) -> tuple[str, ...]:
    reader = SnapshotReader()
    pages = 0

    def take(page: SourceFile) -> None:
        nonlocal pages
        pages += 1
        reader.read(items_of(page), are_live=True)

    seen = await survey(client, access, work.kinds, take, needed=())
    if not pages:
        raise ApiError("you may list nothing in this cluster", code=403, reason="Forbidden")

    def picture() -> tuple[Snapshot, Sections]:
        return work.drawn(reader.snapshot(), seen.now, seen.notices)

    work.show(*await asyncio.to_thread(picture), seen.now)
    return seen.notices
