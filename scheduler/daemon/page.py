"""The daemon's page: what each user may see, redrawn while it has readers.

The cluster is taken from the engine's memory between two turns; a thread draws, and a `AnswerPool`
plans and explains. Users with the same rights share one `_View`. Drawing and sending the cluster to
the pool take at most `IDLE_SHARE` of the time, and `BUSY_SHARE` while pods are being placed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import structlog
from msgspec.structs import replace

from scheduler.base.clock import Clock, process_s, thread_s
from scheduler.base.errors import InputError, MissingError
from scheduler.daemon.answering import AnswerPool, cluster_of
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.daemon.rights import Rights, may_see_pod, rights, within
from scheduler.engine.engine import Engine
from scheduler.explain.attempts import AttemptRecord, LeaderChange, moments, undone
from scheduler.explain.questions import Question
from scheduler.objects.finished import FINISHED
from scheduler.objects.kinds import BY_KIND, POD
from scheduler.serve.access import RequestAuthorizer, ReviewedUser
from scheduler.serve.feed import PageFeed
from scheduler.serve.pageroutes import Answers, PageView, TrialChange
from scheduler.snapshot.nodeview import node_view
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.views import DrawnView, with_origin

AGAIN_S = 2.0
IDLE_SHARE = 0.05
BUSY_SHARE = 0.01
LONGEST_REST_S = 60.0
RIGHTS_S = 30.0
IDLE_S = 120.0
MOST_VIEWS = 16

_log = structlog.get_logger()


class DaemonPage:
    """Gives each user a view; `run` keeps them up to date."""

    def __init__(
        self,
        engine: Engine,
        history_log: DecisionHistory,
        access: RequestAuthorizer,
        clock: Clock,
        helper: AnswerPool,
        origin: Mapping[str, str] | None = None,
    ) -> None:
        self.origin = origin or {}
        self._engine = engine
        self._history_log = history_log
        self._access = access
        self._clock = clock
        self.helper = helper
        self._rights: dict[tuple[object, str], tuple[float, Rights]] = {}
        self._views: dict[Rights, _View] = {}

    async def show(self, user: ReviewedUser, namespace: str) -> PageView:
        """Return the page of a user's rights, limited to `namespace` if they may not list all."""
        seen = await self._rights_of(user, namespace)
        view = self._views.get(seen)
        if view is None:
            self._drop_idle_view()
            view = _View(seen, self)
            await view.draw()
            # another request may have created it meanwhile
            view = self._views.setdefault(seen, view)
        elif not view.feed.readers and self._clock.now() > view.drawn_at + view.rest_s:
            await view.draw()

        async def expires() -> None:
            while True:
                await asyncio.sleep(RIGHTS_S)
                if await self._rights_of(user, namespace) != seen:
                    return

        view.used_at = self._clock.now()
        return PageView(view.feed, view.answers, expires)

    async def run(self) -> None:
        """Redraw views with readers and drop unused ones, until cancelled."""
        took_s = 0.0
        while True:
            await self._rest(took_s)
            took_s = self.helper.spent_s()  # each picture is planned once
            for seen, view in list(self._views.items()):
                if view.feed.readers:
                    view.used_at = self._clock.now()
                    try:
                        took_s += await view.draw()
                    except Exception as error:  # noqa: BLE001 - a picture is no reason to end
                        _log.error("the page cannot be drawn", exc_info=error)
                elif self._clock.now() - view.used_at > IDLE_S:
                    del self._views[seen]
            await self.helper.close_idle()

    async def _rest(self, took_s: float) -> None:
        """Wait until drawing, which took so long, is due again.

        While pods are being placed the processor's time counts that this process has had: where it
        gets little of the machine, a share of the clock's time would be a large part of its own.
        """
        began_s, began_at = process_s(), self._clock.now()
        while True:
            await asyncio.sleep(AGAIN_S)
            waited_s = self._clock.now() - began_at
            is_busy = self._engine.has_work() or self._engine.view.bindings().in_flight > 0
            if waited_s >= LONGEST_REST_S or (
                process_s() - began_s >= took_s / BUSY_SHARE
                if is_busy
                else waited_s >= took_s / IDLE_SHARE
            ):
                return

    def taken(self, seen: Rights) -> Snapshot:
        """Return the visible part of the cluster in memory."""
        return within(cluster_of(self._engine, self._clock.now()), seen)

    @property
    def leading(self) -> Iterable[LeaderChange]:
        """Return when this process began and ceased to lead."""
        return self._history_log.leading

    def attempts(self, seen: Rights) -> list[AttemptRecord]:
        """Return the attempts at pods that may be seen, without victims that may not."""
        found = []
        for one in self._history_log.attempts:
            if not may_see_pod(seen, one.namespace):
                continue
            shown = tuple(gone for gone in one.victims if may_see_pod(seen, gone.namespace))
            found.append(one if len(shown) == len(one.victims) else replace(one, victims=shown))
        return found

    async def _rights_of(self, user: ReviewedUser, namespace: str) -> Rights:
        key = (msgspec.json.encode(user), namespace)
        now = self._clock.now()
        known = self._rights.get(key)
        if known is None or now >= known[0]:

            async def may(attributes: Mapping[str, str]) -> bool:
                return await self._access.may(user, resourceAttributes=attributes)

            found = await rights(may, self._namespaces_by_kind(), namespace)
            self._rights = {one: kept for one, kept in self._rights.items() if now < kept[0]}
            known = self._rights[key] = (now + RIGHTS_S, found)
        return known[1]

    def _namespaces_by_kind(self) -> dict[str, Iterable[str]]:
        """Return each kind that has objects, with the namespaces of these."""
        view = self._engine.view
        namespaces: dict[str, Iterable[str]] = {
            kind: {obj.metadata.namespace for obj in view.objects(kind).values()}
            for kind in view.kinds()
            if kind != FINISHED and BY_KIND[kind].namespaced
        }
        finished = view.objects(FINISHED).values()
        pods = Counter(one.pod.metadata.namespace for one in view.placed)
        pods.update(queued.pod.metadata.namespace for queued in view.queue())
        pods.update(pod.metadata.namespace for pod in finished)
        return (
            namespaces
            | {kind: () for kind in view.kinds() if kind not in (*namespaces, FINISHED)}
            | {POD.kind: pods}
        )

    def _drop_idle_view(self) -> None:
        """Drop the least recently used view without readers, above `MOST_VIEWS`."""
        idle = [(view.used_at, seen) for seen, view in self._views.items() if not view.feed.readers]
        if len(self._views) < MOST_VIEWS:
            return
        if not idle:
            raise MissingError("too many users look at it; try again later", where="the page")
        del self._views[min(idle, key=lambda one: one[0])[1]]


class _View:
    """The page as users with the same rights see it."""

    def __init__(self, seen: Rights, page: DaemonPage) -> None:
        self.feed = PageFeed()
        self.used_at = self.drawn_at = self.rest_s = 0.0
        self._seen = seen
        self._page = page
        self._drawing = DrawnView()
        self._snapshot = Snapshot()
        self._plan: tuple[Snapshot, bytes] | None = None
        self._planning = asyncio.Lock()

    @property
    def answers(self) -> Answers:
        """Return the answers to the page's questions."""
        return Answers(
            self._planned, self._explain, self._change, self._moments, self._back, self._node
        )

    async def draw(self) -> float:
        """Take the cluster and publish it; return the seconds of the processor that it took."""
        began = thread_s()
        snapshot = self._page.taken(self._seen)
        taken_s = thread_s() - began

        def drawn() -> tuple[dict[str, dict[str, object]], float]:
            began = thread_s()
            found = self._drawing.sections(snapshot, snapshot.taken_at, snapshot.notices)
            return with_origin(found, self._page.origin), thread_s() - began

        shown, drawn_s = await asyncio.to_thread(drawn)
        self._snapshot = snapshot
        began = thread_s()
        self.feed.publish(shown)
        took_s = taken_s + drawn_s + thread_s() - began
        self.drawn_at = snapshot.taken_at
        self.rest_s = max(AGAIN_S, took_s / IDLE_SHARE)
        return took_s

    async def _planned(self, at: float | None) -> object:
        snapshot = self._at(at)
        if at is not None:
            return await self._page.helper.answer(Question("plan"), snapshot)
        async with self._planning:  # concurrent requests share one answer
            if self._plan is None or self._plan[0] is not snapshot:
                self._plan = (snapshot, await self._page.helper.answer(Question("plan"), snapshot))
            return self._plan[1]

    async def _explain(self, pod: str, at: float | None) -> object:
        return await self._page.helper.answer(Question("explain", pod=pod), self._at(at))

    async def _change(self, change: TrialChange, at: float | None) -> object:
        question = Question("change", **msgspec.structs.asdict(change))
        return await self._page.helper.answer(question, self._at(at))

    async def _moments(self) -> object:
        return moments(self._page.attempts(self._seen), self._page.leading)

    async def _back(self, at: float) -> object:
        snapshot = self._at(at)
        shown = await asyncio.to_thread(self._drawing.sections, snapshot, at, snapshot.notices)
        return with_origin(shown, self._page.origin)

    async def _node(self, name: str, at: float | None) -> object:
        return await asyncio.to_thread(node_view, self._at(at), name)

    def _at(self, at: float | None) -> Snapshot:
        if at is None:
            return self._snapshot
        attempts = self._page.attempts(self._seen)
        if not attempts or at < min(one.since for one in attempts):
            raise InputError("no decisions are kept of that time", where="at")
        return undone(self._snapshot, attempts, at)
