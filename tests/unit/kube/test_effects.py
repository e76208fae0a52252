"""The executor carries every effect out once, reports its result, and stops when required."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from scheduler.base.meters import Meters
from scheduler.engine.effects import (
    Answer,
    Bind,
    Call,
    Effect,
    Event,
    Evict,
    Look,
    Record,
    Seen,
    SetStatus,
)
from scheduler.kube.api import Response
from scheduler.kube.writing.effects import CALL_TRIES, EffectLimits, Executor
from scheduler.kube.writing.fence import Fence
from scheduler.kube.writing.recorder import Recorder
from scheduler.kube.writing.sender import Sender
from scheduler.objects.pod import PodCondition
from tests.unit.kube.memoryapi import LOST, UNSENT, Accident, MemoryApi

pytestmark = pytest.mark.looptime

PODS = "/api/v1/namespaces/default/pods"


class Run:
    """An executor at work on a sandbox in memory, and the answers it has brought back."""

    def __init__(
        self, limits: EffectLimits | None = None, objection: Callable[[Bind], str] = lambda _: ""
    ) -> None:
        self.api = MemoryApi()
        self.meters = Meters()
        self.fence = Fence(self.api.clock)
        self.events: list[Event] = []
        random = Random(1)
        sender = Sender(self.api, self.fence, random, self.meters)
        self.recorder = Recorder(sender, "host", meters=self.meters)
        self.executor = Executor(
            self.api,
            self.events.append,
            self.recorder,
            fence=self.fence,
            clock=self.api.clock,
            random=random,
            meters=self.meters,
            limits=limits,
            objection=objection,
        )
        self.api.put("/api/v1/nodes", {"metadata": {"name": "n1"}})

    def pod(self, name: str) -> str:
        """Create a pod and return its uid."""
        spec = {"containers": [{"name": "c", "image": "i"}]}
        return str(
            self.api.put(PODS, {"metadata": {"name": name}, "spec": spec})["metadata"]["uid"]
        )

    def answers(self) -> list[Answer]:
        return [event for event in self.events if isinstance(event, Answer)]

    def codes(self) -> dict[int, int]:
        return {answer.effect: answer.code for answer in self.answers()}

    def accidents(self, *accidents: Accident, on: str = "") -> list[Accident]:
        """Inject these faults into the next requests whose method and path contain `on`; return
        the list of those that are left.
        """
        left = list(accidents)

        def next_one(method: str, path: str) -> Accident | None:
            return left.pop(0) if left and on in f"{method} {path}" else None

        self.api.accident = next_one
        return left

    async def carry_out(self, *effects: Effect, time_s: float = 1.0) -> None:
        self.executor.submit(effects)
        await asyncio.sleep(time_s)


@asynccontextmanager
async def running(
    limits: EffectLimits | None = None, objection: Callable[[Bind], str] = lambda _: ""
) -> AsyncIterator[Run]:
    run = Run(limits, objection)
    try:
        yield run
    finally:
        await run.executor.close()


def status(uid: str, name: str, message: str, nominated: str | None = None) -> SetStatus:
    condition = PodCondition(
        type="PodScheduled",
        status="False",
        reason="Unschedulable",
        message=message,
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
    )
    return SetStatus("default", name, uid, condition, nominated)


def refused(code: int, **more: Any) -> Accident:
    return Accident(Response(code, reason="Whatever", message="no", **more))


async def test_a_bind_is_one_post_with_the_uid():
    """The binding names pod, uid and node, and the engine gets the answer of the API server."""
    async with running() as run:
        uid = run.pod("a")
        await run.carry_out(Bind(7, "default", "a", uid, "n1"))
        pod = run.api.get(f"{PODS}/a")
        seen = run.api.seen

    assert {7: 201} == run.codes()
    assert "n1" == pod["spec"]["nodeName"]
    assert [f"POST {PODS}/a/binding"] == [f"{s.method} {s.path}" for s in seen]
    assert {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "default", "uid": uid},
        "target": {"kind": "Node", "name": "n1"},
    } == seen[0].body


async def test_refused_binds_are_answered_as_they_are():
    """Already bound, deleted and replaced are definite answers, and counted as such."""
    async with running() as run:
        uid = run.pod("a")
        run.pod("c")
        effects = (
            Bind(1, "default", "a", uid, "n1"),
            Bind(2, "default", "b", "no-such-uid", "n1"),
            Bind(3, "default", "c", "of-another", "n1"),
        )
        await run.carry_out(effects[0])
        await run.carry_out(*effects)
        conflicts = {
            sample.labels[0]: sample.value for sample in run.meters.bind_conflicts.samples()
        }

    assert [(1, 201), (1, 409), (2, 404), (3, 409)] == sorted(
        (answer.effect, answer.code) for answer in run.answers()
    )
    assert {"bound": 1, "gone": 1, "replaced": 1} == conflicts


@pytest.mark.parametrize(
    "accident", [Accident(LOST), Accident(LOST, is_applied=True), refused(500), refused(504)]
)
async def test_a_doubtful_bind_is_answered_as_doubtful(accident: Accident):
    """With an unknown result the bind is not repeated; the engine gets code 0 and looks it up."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(accident, on="binding")
        await run.carry_out(Bind(1, "default", "a", uid, "n1"))
        await run.carry_out(Look(2, "default", "a"))

    assert {1: 0, 2: 200} == run.codes()
    node = "n1" if accident.is_applied else ""
    assert Seen(uid, node) == run.answers()[1].body
    assert accident.is_applied == (1 == run.api.requests("POST").count(f"{PODS}/a/binding"))


@pytest.mark.parametrize("accident", [Accident(UNSENT), refused(429, retry_after_s=3.0)])
async def test_what_certainly_did_not_happen_is_sent_again(accident: Accident):
    """Without a connection, and if the server is busy, a bind is repeated, not before
    Retry-After.
    """
    async with running() as run:
        uid = run.pod("a")
        run.accidents(accident, accident, on="binding")
        started = run.api.clock.now()
        await run.carry_out(Bind(1, "default", "a", uid, "n1"), time_s=10)
        waited = run.api.seen[0].at - started

    assert {1: 201} == run.codes()
    assert waited >= 2 * (accident.response.retry_after_s or 0.025)


async def test_a_bind_is_given_up_before_the_engine_gives_it_up():
    """After 45 seconds it is answered 503, certainly not carried out, and not sent any more."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(*[Accident(UNSENT)] * 1000, on="binding")
        await run.carry_out(Bind(1, "default", "a", uid, "n1"), time_s=59)
        run.accidents()
        await asyncio.sleep(100)
        pod = run.api.get(f"{PODS}/a")

    assert {1: 503} == run.codes()
    assert "nodeName" not in pod["spec"]


async def test_each_time_before_it_is_sent_a_bind_is_asked_about():
    """The node has become too small while the server was busy: the bind is not sent again."""
    asked: list[Bind] = []

    def objection(bind: Bind) -> str:
        asked.append(bind)
        return "the node is too small" if len(asked) > 3 else ""

    async with running(objection=objection) as run:
        uid = run.pod("a")
        run.accidents(*[refused(429, retry_after_s=1.0)] * 2, on="binding")
        await run.carry_out(Bind(1, "default", "a", uid, "n1"), time_s=20)
        pod = run.api.get(f"{PODS}/a")
        outdated = run.meters.bind_conflicts.labels("outdated").value

    assert [Answer(1, 503, "Outdated", "the node is too small")] == run.answers()
    assert "nodeName" not in pod["spec"]
    assert {uid} == {bind.uid for bind in asked}
    assert 1 == outdated


async def test_binds_that_are_put_off_hold_up_no_others():
    """All 64 that may be in flight are answered 429 with Retry-After 600: the next 20 are bound at
    once, those within half a minute.
    """
    async with running(EffectLimits(binds=64)) as run:
        uids = [run.pod(f"p{number}") for number in range(84)]
        busy = refused(429, retry_after_s=600.0)
        run.accidents(*[busy] * 64, on="binding")
        binds = [Bind(n, "default", f"p{n}", uid, "n1") for n, uid in enumerate(uids)]
        await run.carry_out(*binds, time_s=2)
        soon = run.codes()
        samples = run.meters.effects_waiting.samples()
        (waiting,) = [sample.value for sample in samples if sample.labels == ("Bind",)]
        await asyncio.sleep(32)

    assert dict.fromkeys(range(64, 84), 201) == soon
    assert 64 == waiting
    assert dict.fromkeys(range(84), 201) == run.codes()


async def test_those_who_come_back_wait_for_a_place():
    """However many are deferred at once, no more are sent at a time than the limit."""
    async with running(EffectLimits(binds=4)) as run:
        uids = [run.pod(f"p{number}") for number in range(40)]
        slow = Accident(Response(200), delay_s=0.5)
        run.accidents(*[refused(429, retry_after_s=1.0)] * 30, *[slow] * 40, on="binding")
        binds = [Bind(n, "default", f"p{n}", uid, "n1") for n, uid in enumerate(uids)]
        await run.carry_out(*binds, time_s=60)

    assert dict.fromkeys(range(40), 201) == run.codes()
    assert 4 == run.api.most_running


async def test_a_delayed_write_still_fills_the_queue():
    """A server that defers everything must not fill the memory: the queue then has no capacity."""
    async with running(EffectLimits(binds=2, capacity=10)) as run:
        uids = [run.pod(f"p{number}") for number in range(12)]
        run.accidents(*[refused(429, retry_after_s=20.0)] * 12, on="binding")
        binds = [Bind(n, "default", f"p{n}", uid, "n1") for n, uid in enumerate(uids)]
        await run.carry_out(*binds)
        waiting = asyncio.create_task(run.executor.wait_capacity())
        await asyncio.sleep(5)
        assert not waiting.done()
        await asyncio.sleep(60)
        assert waiting.done()


async def test_a_webhook_that_fails_leaves_nothing_open():
    """Admission precedes the write: the bind did not happen, and will not."""
    async with running() as run:
        uid = run.pod("a")
        text = 'Internal error occurred: failed calling webhook "w.example.com": timeout'
        failed = Accident(Response(500, reason="InternalError", message=text))
        run.accidents(failed, on="binding")
        await run.carry_out(Bind(1, "default", "a", uid, "n1"))

    assert {1: 500} == run.codes()


async def test_looking_goes_on_until_the_answer_is_definite():
    """However long the server is away, a look-up ends with the present state."""
    async with running() as run:
        run.accidents(*[Accident(LOST), refused(503)] * 30, on="GET")
        await run.carry_out(Look(1, "default", "gone"), time_s=900)

    assert {1: 404} == run.codes()


async def test_not_more_at_a_time_than_allowed():
    """Binds beyond the limit wait their turn; none is lost."""
    async with running(EffectLimits(binds=5)) as run:
        uids = {f"p{n}": run.pod(f"p{n}") for n in range(40)}
        binds = [Bind(i, "default", n, uid, "n1") for i, (n, uid) in enumerate(uids.items())]
        await run.carry_out(*binds)

    assert dict.fromkeys(range(40), 201) == run.codes()
    assert 5 == run.api.most_running


async def test_a_full_queue_asks_to_wait():
    """`wait_capacity` returns when there is capacity again.

    Until then no new decision should be made.
    """
    async with running(EffectLimits(binds=1, capacity=3)) as run:
        run.accidents(*[Accident(Response(200), delay_s=1.0)] * 10, on="binding")
        for number in range(5):
            run.executor.submit([Bind(number, "default", "x", "u", "n1")])
        started = run.api.clock.now()
        await asyncio.wait_for(run.executor.wait_capacity(), 60)
        waited = run.api.clock.now() - started
        await asyncio.sleep(10)

    assert 1 <= waited <= 4
    assert 5 == len(run.answers())


async def test_a_status_patch_says_only_what_it_is_about():
    """The condition and the nomination are sent field by field, as by kube-scheduler."""
    async with running() as run:
        uid = run.pod("a")
        await run.carry_out(status(uid, "a", "0/1 nodes are available: 1 no."))
        await run.carry_out(SetStatus("default", "a", uid, None, "n1"))
        await run.carry_out(SetStatus("default", "a", uid, None, ""))
        pod = run.api.get(f"{PODS}/a")
        bodies = [seen.body for seen in run.api.seen]

    assert {
        "metadata": {"uid": uid},
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 no.",
                    "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        },
    } == bodies[0]
    assert {"metadata": {"uid": uid}, "status": {"nominatedNodeName": "n1"}} == bodies[1]
    assert {"metadata": {"uid": uid}, "status": {"nominatedNodeName": None}} == bodies[2]
    assert "nominatedNodeName" not in pod["status"]
    assert [] == run.answers()


async def test_patches_of_a_pod_keep_their_order_and_merge():
    """While one is in flight the next ones wait and are merged; the newest values win."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(Accident(Response(200), delay_s=5.0), on="PATCH")
        run.executor.submit([status(uid, "a", "first")])
        await asyncio.sleep(1)
        run.executor.submit([status(uid, "a", "second", "n1"), status(uid, "a", "third")])
        await asyncio.sleep(10)
        pod = run.api.get(f"{PODS}/a")

    assert 2 == len(run.api.seen)
    assert "third" == pod["status"]["conditions"][0]["message"]
    assert "n1" == pod["status"]["nominatedNodeName"]


@pytest.mark.parametrize("code", [0, 409, 429, 500, 503])
async def test_a_status_patch_is_repeated(code: int):
    """After conflicts and responses of busy or broken servers the patch is sent again until it is
    written.
    """
    async with running() as run:
        uid = run.pod("a")
        run.accidents(refused(code), refused(code), on="PATCH")
        await run.carry_out(status(uid, "a", "reported"), time_s=10)
        pod = run.api.get(f"{PODS}/a")

    assert "reported" == pod["status"]["conditions"][0]["message"]


async def test_a_status_never_reaches_another_pod_of_the_name():
    """The uid in the patch keeps it off a recreated pod; it is not repeated."""
    async with running() as run:
        run.pod("a")
        await run.carry_out(status("of-the-old-one", "a", "reported"), time_s=60)
        pod = run.api.get(f"{PODS}/a")
        results = run.meters.effects.labels("SetStatus", "gone").value

    assert "conditions" not in pod["status"]
    assert 1 == len(run.api.seen)
    assert 1 == results


async def test_a_bind_comes_after_the_status_that_was_under_way():
    """A late "unschedulable" would overwrite the binding's status; unsent patches are dropped."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(Accident(Response(200), delay_s=5.0), on="PATCH")
        run.executor.submit([status(uid, "a", "first")])
        await asyncio.sleep(1)
        run.executor.submit([status(uid, "a", "late"), Bind(1, "default", "a", uid, "n1")])
        await asyncio.sleep(10)
        pod = run.api.get(f"{PODS}/a")

    assert ["PATCH", "POST"] == [seen.method for seen in run.api.seen]
    assert [("PodScheduled", "True")] == [
        (c["type"], c["status"]) for c in pod["status"]["conditions"]
    ]


async def test_a_bind_does_not_wait_for_a_patch_that_keeps_failing():
    """Repeating a patch ends when the pod is about to be bound."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(*[refused(500)] * 100, on="PATCH")
        run.executor.submit([status(uid, "a", "first")])
        await asyncio.sleep(20)
        await run.carry_out(Bind(1, "default", "a", uid, "n1"))

    assert {1: 201} == run.codes()


async def test_a_victim_is_marked_and_then_deleted():
    """The mark names the preemptor; the deletion has the uid and no grace period of its own."""
    async with running() as run:
        uid = run.pod("a")
        await run.carry_out(Evict(1, "default", "a", uid, "trellis: preempting"))
        mark, deletion = (s.body for s in run.api.seen if s.method != "GET")

    assert {1: 200} == run.codes()
    condition = mark["status"]["conditions"][0]
    assert ("DisruptionTarget", "True", "PreemptionByScheduler", "trellis: preempting") == tuple(
        condition[name] for name in ("type", "status", "reason", "message")
    )
    assert {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid},
    } == deletion
    assert run.api.get(f"{PODS}/a") is None


async def test_a_victim_gets_its_event_before_the_deletion():
    """While the event about it cannot be written, it is neither marked nor deleted."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(*[refused(503)] * 5, on="POST")
        reported = Record("default", "a", uid, "1", "t", "Normal", "Preempted", "b", "n", 1.0)
        await run.carry_out(reported, Evict(1, "default", "a", uid, "m"), time_s=60)
        sent = [request.method for request in run.api.seen if request.method != "GET"]

    assert ["POST", "PATCH", "DELETE"] == sent
    assert {1: 200} == run.codes()


@pytest.mark.parametrize("code", [403, 404, 422])
async def test_the_event_of_a_victim_is_written_although_it_was_first_rejected(code: int):
    """A role that is wrong for some seconds does not suppress the event."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(*[refused(code)] * 6, on="POST")
        reported = Record("default", "a", uid, "1", "t", "Normal", "Preempted", "b", "n", 1.0)
        await run.carry_out(reported, Evict(1, "default", "a", uid, "m"), time_s=60)
        sent = [request.method for request in run.api.seen if request.method != "GET"]

    assert ["POST", "PATCH", "DELETE"] == sent
    assert {1: 200} == run.codes()


async def test_an_event_that_is_refused_for_good_holds_no_eviction_up():
    """An event that the API server does not accept is not awaited forever.

    The mark has the information as well.
    """
    async with running() as run:
        uid = run.pod("a")
        run.accidents(*[refused(403)] * 100, on="POST")
        reported = Record("default", "a", uid, "1", "t", "Normal", "Preempted", "b", "n", 1.0)
        await run.carry_out(reported, Evict(1, "default", "a", uid, "m"), time_s=3)
        assert {} == run.codes()
        await run.carry_out(time_s=10)
        sent = [request.method for request in run.api.seen if request.method != "GET"]

    assert ["PATCH", "DELETE"] == sent
    assert {1: 200} == run.codes()


async def test_evicting_again_marks_only_once():
    """A marked victim is deleted without another patch; a deleted one is no error."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(*[refused(403)], on="DELETE")
        await run.carry_out(Evict(1, "default", "a", uid, "m"))
        await run.carry_out(Evict(2, "default", "a", uid, "m", is_marked=True))
        await run.carry_out(Evict(3, "default", "a", uid, "m", is_marked=True))
        await run.carry_out(Evict(4, "default", "b", "u", "m"))

    assert {1: 403, 2: 200, 3: 404, 4: 404} == run.codes()
    assert [f"{PODS}/a/status", f"{PODS}/b/status"] == run.api.requests("PATCH")
    assert not run.api.requests("GET")


async def test_an_eviction_spares_a_pod_that_took_the_name():
    """The victim of that uid is deleted; the new pod of the name is not touched."""
    async with running() as run:
        run.pod("a")
        await run.carry_out(Evict(1, "default", "a", "of-the-old-one", "m"))

    assert {1: 404} == run.codes()
    assert run.api.get(f"{PODS}/a") is not None


async def test_a_call_brings_its_answer_back_decoded():
    """A plugin's request is sent unchanged; the body is returned as plain data."""
    async with running() as run:
        body = {"metadata": {"name": "n2"}}
        await run.carry_out(Call(1, "POST", "/api/v1/nodes", body=body))
        await run.carry_out(Call(2, "GET", "/api/v1/nodes/n2"))
        await run.carry_out(Call(3, "POST", "/api/v1/nodes", body=body))
        run.accidents(refused(500))
        await run.carry_out(Call(4, "GET", "/api/v1/nodes/n2"))

    assert {1: 201, 2: 200, 3: 409, 4: 0} == run.codes()
    assert ["n2", "n2"] == [answer.body["metadata"]["name"] for answer in run.answers()[:2]]
    assert "AlreadyExists" == run.answers()[2].reason


@pytest.mark.parametrize(("accident", "code"), [(Accident(UNSENT), 503), (refused(429), 429)])
async def test_a_call_is_sent_a_limited_number_of_times(accident: Accident, code: int):
    """A request that was certainly not executed is repeated, and its last outcome is reported."""
    async with running() as run:
        run.accidents(*[accident] * (CALL_TRIES - 1))
        await run.carry_out(Call(1, "GET", "/api/v1/nodes/n1"), time_s=600)
        left = run.accidents(*[accident] * 2 * CALL_TRIES)
        await run.carry_out(Call(2, "GET", "/api/v1/nodes/n1"), time_s=600)

    assert {1: 200, 2: code} == run.codes()
    assert CALL_TRIES == len(left)


async def test_writes_of_one_object_keep_their_order():
    """The first change is retried a while later; the second waits for it, others do not."""
    async with running(EffectLimits(writes=1)) as run:
        path = "/api/v1/nodes/n1"
        run.pod("a")
        run.accidents(refused(429, retry_after_s=5.0), on=path)
        merge = "application/merge-patch+json"
        stated = [{"metadata": {"labels": {"said": word}}} for word in ("first", "last")]
        first, last = (Call(n, "PATCH", path, merge, stated[n]) for n in range(2))
        await run.carry_out(first, last, Call(2, "PATCH", f"{PODS}/a", merge, stated[0]))
        early = run.codes()
        await asyncio.sleep(20)
        node = run.api.get(path)

    assert {2: 200} == early
    assert {0: 200, 1: 200, 2: 200} == run.codes()
    assert "last" == node["metadata"]["labels"]["said"]


async def test_after_the_fence_nothing_is_sent_any_more():
    """Requests in flight are abandoned, waiting ones are dropped and counted, and no answer is
    returned.
    """
    async with running(EffectLimits(binds=1)) as run:
        uid = run.pod("a")
        run.accidents(Accident(Response(200), delay_s=5.0), on="binding")
        run.executor.submit([Bind(n, "default", "a", uid, "n1") for n in range(3)])
        run.executor.submit([status(uid, "b", "x")])
        await asyncio.sleep(1)
        before = len(run.api.seen)
        left = run.executor.fence()
        await run.carry_out(Bind(9, "default", "a", uid, "n1"), time_s=100)
        dropped = sum(queue.dropped for queue in run.executor._all)
        pod = run.api.get(f"{PODS}/a")

    assert 3 == left
    assert 4 == dropped
    assert before == len(run.api.seen)
    assert {} == run.codes()
    assert "nodeName" not in pod["spec"]


@pytest.mark.parametrize("unfinished", [0, 1, 3])
async def test_the_fence_reports_how_many_effects_are_dropped(unfinished: int):
    """An operator reads of dropped effects in the log; without one there is nothing to report."""
    async with running(EffectLimits(binds=1)) as run:
        uid = run.pod("a")
        run.accidents(Accident(Response(200), delay_s=5.0), on="binding")
        run.executor.submit([Bind(n, "default", "a", uid, "n1") for n in range(unfinished)])
        with capture_logs() as entries:
            run.executor.fence()

    assert [unfinished] * bool(unfinished) == [one["effects"] for one in entries]


async def test_the_fence_closes_before_a_timer_fires():
    """A process that slept past its deadline sends nothing, although no timer has fired yet."""
    async with running() as run:
        uid = run.pod("a")
        run.fence.open_until(run.api.clock.now() - 1)
        await run.carry_out(Bind(1, "default", "a", uid, "n1"), status("u", "b", "x"))

    assert [] == run.api.seen
    assert {} == run.codes()
    assert 2 == sum(queue.dropped for queue in run.executor._all)


async def test_work_goes_on_after_a_new_term():
    """A new leader carries effects out again."""
    async with running() as run:
        uid = run.pod("a")
        run.executor.fence()
        run.fence.open_until(run.api.clock.now() + 100)
        run.executor.resume()
        await run.carry_out(Bind(1, "default", "a", uid, "n1"))

    assert {1: 201} == run.codes()


async def test_draining_finishes_requests_in_progress():
    """At the end all submitted effects are carried out, also those that follow from answers."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(Accident(Response(200), delay_s=5.0), on="binding")
        run.executor.submit([Bind(1, "default", "a", uid, "n1")])
        draining = asyncio.create_task(run.executor.drain(30))
        await asyncio.sleep(4)
        run.executor.submit(
            [Record("default", "a", uid, "1", "t", "Normal", "Scheduled", "b", "n", 1.0)]
        )
        left = await draining

    assert 0 == left
    assert {1: 201} == run.codes()
    assert 1 == run.meters.event_writes.labels("created").value


async def test_draining_ends_at_its_deadline():
    """Unfinished work is dropped then, and counted."""
    async with running() as run:
        run.accidents(*[Accident(LOST)] * 1000, on="GET")
        run.executor.submit([Look(1, "default", "a")])
        started = run.api.clock.now()
        left = await run.executor.drain(20)

    assert 1 == left
    assert 19.9 <= run.api.clock.now() - started <= 21


@pytest.mark.allow_blocking("the log of the fault reads source lines")
async def test_an_exception_in_an_effect_is_answered():
    """An effect whose sending raises an exception gets code 0, and the others continue."""
    async with running() as run:
        uid = run.pod("a")
        await run.carry_out(
            Call(1, "POST", "/api/v1/nodes", body=object()), Bind(2, "default", "a", uid, "n1")
        )

    assert {1: 0, 2: 201} == run.codes()


async def test_what_happened_is_counted():
    """Results, durations and retries by effect; the numbers waiting and in flight."""
    async with running() as run:
        uid = run.pod("a")
        run.accidents(refused(429), on="binding")
        await run.carry_out(Bind(1, "default", "a", uid, "n1"), Look(2, "default", "b"))
        meters = run.meters

    assert 1 == meters.effects.labels("Bind", "ok").value
    assert 1 == meters.effects.labels("Look", "gone").value
    assert 1 == meters.effect_duration.labels("Bind").count
    assert 1 == meters.effect_retries.labels("Bind", "Whatever").value
    queues = {"Bind", "Look", "Evict", "Call", "SetStatus", "Record"}
    assert queues | {"SetStatus of refusals", "Record of refusals"} == {
        sample.labels[0] for sample in meters.effects_queued.samples()
    }


async def test_answers_can_be_logged_and_replayed():
    """Answers are plain records: a decision log reads them back equal."""
    async with running() as run:
        run.pod("a")
        await run.carry_out(Look(2, "default", "a"))
        (answer,) = run.answers()

    again = msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    assert msgspec.convert(again.body, Seen) == answer.body


async def test_a_refusal_decides_for_members_of_a_unit_that_come_later():
    """Fewer evictions are carried out at a time than a unit has victims: the first may have ended
    before the last begins. None is deleted, and nothing is remembered of the unit.
    """
    async with running(EffectLimits(writes=1)) as run:
        victims = {name: run.pod(name) for name in "abc"}
        run.accidents(refused(422), on=f"PATCH {PODS}/a/status")
        evictions = [
            Evict(at, "default", name, victims[name], "m", unit=7, unit_size=3)
            for at, name in enumerate(victims)
        ]
        for one in evictions:
            await run.carry_out(one)
        kept = [run.api.get(f"{PODS}/{name}") is not None for name in victims]

    assert {0: 422, 1: 422, 2: 422} == run.codes()
    assert [True] * 3 == kept
    assert {} == run.executor._evictor._units
