"""A process that lost the lease may read and not write."""

import pytest

from scheduler.kube.writing.fence import Fence, FencedApi
from tests.unit.kube.memoryapi import START, MemoryApi

pytestmark = pytest.mark.looptime

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = b'{"metadata": {"name": "a"}}'


async def test_only_reading_is_free():
    """Before its deadline all requests are sent; after it writes are not sent."""
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
