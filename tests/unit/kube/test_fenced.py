"""A process that lost the lease may send reads but no writes."""

import asyncio

import pytest

from scheduler.engine.effects import LATE_S
from scheduler.kube.api import Response
from scheduler.kube.writing.fence import Fence, FencedApi, FencedError
from scheduler.kube.writing.outcome import is_unsettled
from tests.unit.kube.memoryapi import START, MemoryApi

pytestmark = pytest.mark.looptime

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata": {"name": "a"}}'


async def test_only_reading_is_free():
    """All requests are sent before the fence's deadline; after it, only reads are sent."""
    api = MemoryApi()
    api.clock._start = START
    fence = Fence(api.clock, START + 10)
    fenced = FencedApi(api, fence)
    done = await fenced.request("POST", "/api/v1/namespaces", b'{"metadata": {"name": "default"}}')
    made = await fenced.request("POST", MAPS, BODY)
    api.clock._start += 10
    sent = list(api.requests())
    refused = [
        await fenced.request("PATCH", f"{MAPS}/a", b"{}"),
        await fenced.request("DELETE", f"{MAPS}/a"),
    ]
    left = api.requests()
    read = await fenced.request("GET", f"{MAPS}/a")

    assert (True, True) == (made.ok, read.ok), (done, made)
    assert sent == left
    assert [(0, "NotSent", False)] * 2 == [(r.code, r.reason, r.was_sent) for r in refused]


@pytest.mark.parametrize(
    ("response", "may_be_late"),
    [
        (Response(200), False),
        (Response(409, message="already bound"), False),
        (Response(409, message="etcdserver: request timed out"), True),
        (Response(422), False),
        (Response(429), False),
        (Response(0), True),
        (Response(0, was_sent=False), False),
        (Response(408), True),
        (Response(500, message='failed calling webhook "w"'), False),
        (Response(504), True),
    ],
)
async def test_a_write_of_unknown_outcome_may_be_late(response: Response, may_be_late):
    """A write without an answer may still be executed, until the server's time limit for requests
    has passed.
    """
    api, answers = MemoryApi(), asyncio.get_running_loop().create_future()
    api.clock._start = START
    fence = Fence(api.clock)
    sent = asyncio.create_task(fence.watched(answers, is_unsettled))
    await asyncio.sleep(0)
    in_flight = fence.may_be_late
    answers.set_result(response)
    answered = await sent
    late = fence.may_be_late
    api.clock._start += LATE_S

    assert (True, response) == (in_flight, answered)
    assert (may_be_late, False) == (late, fence.may_be_late)


async def test_a_cancelled_write_may_be_late_and_a_refused_one_not():
    """A cancelled sender does not know what became of its request; a fenced one never sent it."""
    api = MemoryApi()

    async def refused() -> Response:
        raise FencedError

    fence = Fence(api.clock)
    with pytest.raises(FencedError):
        await fence.watched(refused(), is_unsettled)
    after_refusal = fence.may_be_late
    sent = asyncio.create_task(fence.watched(asyncio.sleep(60, Response(200)), is_unsettled))
    await asyncio.sleep(0)
    sent.cancel()
    await asyncio.gather(sent, return_exceptions=True)

    assert (False, True) == (after_refusal, fence.may_be_late)
