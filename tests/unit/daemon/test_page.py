"""The daemon's page: visible objects, their lifetime, and the cost."""

import asyncio

import pytest

from scheduler.base.clock import ManualClock
from scheduler.base.errors import MissingError
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.daemon import answering
from scheduler.daemon import page as module
from scheduler.daemon.answering import AnswerPool, AnswerSettings
from scheduler.daemon.page import DaemonPage
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.engine.view import BindingsView
from scheduler.explain.questions import Question
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_pod
from scheduler.serve.access import RequestAuthorizer, ReviewedUser
from scheduler.snapshot.snapshot import Snapshot
from scheduler.testing import node, pod

REGISTRY = Registry(IN_TREE)
NOW = 1_767_225_600.0
EVE, ADMIN = ReviewedUser("eve"), ReviewedUser("root", ("system:masters",))


class PageRig:
    """An engine with pods of two namespaces, and the reviews of an API server."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.engine = Engine(default_config(REGISTRY).profiles, REGISTRY)
        self.history = DecisionHistory(self.engine)
        self.allowed = {("pods", "a")}
        access = RequestAuthorizer(self.review, self.clock, Meters())
        self.helper = AnswerPool(self.clock, AnswerSettings("scheduler.cli.jobs.pagejobs"))
        self.page = DaemonPage(self.engine, self.history, access, self.clock, self.helper)
        self.handle("Node", read_node(node("n1", cpu="4")))
        for namespace in ("a", "b"):
            for name, cpu in (("fits", "1"), ("huge", "99")):
                raw = pod(
                    f"{name}-{namespace}",
                    namespace=namespace,
                    requests={"cpu": cpu},
                    spec={"schedulerName": "trellis"},
                )
                self.handle("Pod", read_pod(raw))
        self.engine.run(NOW, 9)

    def handle(self, kind, obj):
        self.engine.handle(Watched(kind, "ADDED", obj), self.clock.now())

    async def review(self, body):
        wanted = body["spec"]["resourceAttributes"]
        asked = (wanted["resource"], wanted.get("namespace", ""))
        return {**body, "status": {"allowed": asked in self.allowed}}


async def seen(shown):
    """Return all data shown to a user, as one text."""
    with shown.feed.reader() as reader:
        reported = [(await reader.next()).decode(), str(await shown.answers.moments())]
    return " ".join([*reported, str(await shown.answers.snapshot(NOW))])


async def test_each_sees_what_the_api_server_says():
    """Pods that are decided and not bound yet are on their nodes.

    Another namespace is not visible.
    """
    rig = PageRig()
    own = await seen(await rig.page.show(EVE, ""))
    everything = await seen(await rig.page.show(ADMIN, ""))

    assert "fits-a" in own
    assert '"node":"n1"' in own
    assert "huge-a" in own
    assert "fits-b" not in own
    assert "huge-b" not in own
    assert all(name in everything for name in ("fits-a", "huge-a", "fits-b", "huge-b"))


async def test_users_of_the_same_rights_share_a_picture():
    """The picture is drawn once, again when it is old, and dropped when it was not requested for
    long.
    """
    rig = PageRig()
    one = await rig.page.show(EVE, "")
    assert one.feed is (await rig.page.show(ReviewedUser("adam"), "")).feed
    assert one.feed is not (await rig.page.show(ADMIN, "")).feed
    late = pod("late", namespace="a", spec={"schedulerName": "trellis"})
    rig.handle("Pod", read_pod(late))
    assert "late" not in await seen(await rig.page.show(EVE, ""))
    rig.clock.advance(60.0)
    assert "late" in await seen(await rig.page.show(EVE, ""))


@pytest.mark.looptime
async def test_lost_rights_end_the_stream():
    """The stream ends within half a minute; with unchanged rights it continues."""
    rig = PageRig()
    shown = await rig.page.show(EVE, "")
    assert shown.expires is not None
    ending = asyncio.ensure_future(shown.expires())
    await asyncio.sleep(100)
    assert not ending.done()
    rig.allowed.clear()
    rig.clock.advance(module.RIGHTS_S)
    await asyncio.sleep(module.RIGHTS_S)
    await asyncio.sleep(0)
    assert ending.done()


async def test_there_is_a_limit_to_views_and_to_questions(monkeypatch):
    """Requests above it are rejected with a reason; unused views are dropped."""
    rig = PageRig()
    monkeypatch.setattr(module, "MOST_VIEWS", 1)
    shown = await rig.page.show(EVE, "")
    with shown.feed.reader(), pytest.raises(MissingError, match="too many users"):
        await rig.page.show(ADMIN, "")
    await rig.page.show(ADMIN, "")
    monkeypatch.setattr(answering, "MOST_WAITING", 0)
    with pytest.raises(MissingError, match="too many questions"):
        await rig.helper.answer(Question("plan"), Snapshot())


async def test_a_process_of_its_own_answers():
    """The process returns the plan, one pod, and the reason for an invalid request."""
    rig = PageRig()
    shown = await rig.page.show(EVE, "")
    plan = await shown.answers.plan(None)
    assert isinstance(plan, bytes)
    assert b'"huge-a"' in plan
    assert b"huge-b" not in plan
    assert plan is await shown.answers.plan(None), "kept until there is a new picture"
    assert rig.page.helper.spent_s() > 0, "what was handed over counts as drawing does"
    assert rig.page.helper.spent_s() == 0
    explained = await shown.answers.explain("a/huge-a", None)
    assert isinstance(explained, bytes)
    assert b"no nodes available" in explained
    with pytest.raises(Exception, match="no such pod"):
        await shown.answers.explain("b/huge-b", None)
    with pytest.raises(Exception, match="no decisions are kept of that time"):
        await shown.answers.snapshot(NOW - 10)
    await rig.helper.close()


@pytest.mark.looptime
async def test_an_idle_daemon_draws_more_often_than_one_at_work(monkeypatch):
    """A twentieth of the clock's time, a hundredth of the time that the process had.

    A minute at most.
    """
    rig = PageRig()
    used = [0.0]
    monkeypatch.setattr(module, "process_s", lambda: used[0])

    async def rested(took_s: float, *, busy: bool, share: float, bindings: int = 0) -> float:
        """Return how long it waits while the process gets `share` of the processor."""
        monkeypatch.setattr(rig.engine, "has_work", lambda: busy)
        monkeypatch.setattr(rig.engine.view, "bindings", lambda: BindingsView(bindings, 0, 0))
        loop = asyncio.get_running_loop()
        began, used_then, then = loop.time(), used[0], rig.clock.now()
        resting = asyncio.ensure_future(rig.page._rest(took_s))
        while not resting.done():
            await asyncio.sleep(0.5)
            rig.clock.set(then + loop.time() - began)
            used[0] = used_then + share * (loop.time() - began)
        return loop.time() - began

    assert await rested(0.01, busy=False, share=0.1) <= 4.5
    assert 4 <= await rested(0.2, busy=False, share=0.1) <= 6.5
    assert 20 <= await rested(0.2, busy=True, share=1.0) <= 24.5
    assert 40 <= await rested(0.2, busy=True, share=0.5) <= 44.5
    assert 40 <= await rested(0.2, busy=False, share=0.5, bindings=1) <= 44.5
    assert 60 <= await rested(2.0, busy=True, share=0.5) <= 64.5


@pytest.mark.looptime
async def test_a_view_is_redrawn_for_its_readers_and_dropped_when_unused(monkeypatch):
    """A view without readers is kept for two minutes after its last request, and one with readers
    until they leave.
    """
    rig, drawn = PageRig(), []
    shown, unused = await rig.page.show(EVE, ""), await rig.page.show(ADMIN, "")
    views = dict(rig.page._views)
    for seen_by, view in views.items():

        async def draw(seen_by=seen_by) -> float:
            drawn.append(seen_by)
            return 0.0

        monkeypatch.setattr(view, "draw", draw)

    async def rest(_took_s: float) -> None:
        await asyncio.sleep(1)
        rig.clock.advance(60.0)

    monkeypatch.setattr(rig.page, "_rest", rest)
    task = asyncio.ensure_future(rig.page.run())
    read, idle = [
        next(key for key, view in views.items() if view.feed is one.feed) for one in (shown, unused)
    ]
    with shown.feed.reader():
        await asyncio.sleep(2.5)
        assert [read] * 2 == drawn
        assert {read, idle} == rig.page._views.keys(), "not idle for more than two minutes"
        await asyncio.sleep(1)
        assert {read} == rig.page._views.keys()
    await asyncio.sleep(2)
    assert {read} == rig.page._views.keys()
    await asyncio.sleep(1)
    assert {} == rig.page._views
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
