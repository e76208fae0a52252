"""The real API server's answers if its storage fails.

The answers are recorded in tests/simulated/answers.json (`TRELLIS_RECORD=1`);
tests/simulated/test_answers.py compares the faults of the simulated cluster with them. etcd is
stopped with SIGSTOP and killed; the server accepts one write of users at a time, so that a second
one is answered with "too many".
"""

import asyncio
import json
import os
import signal
import subprocess
from contextlib import ExitStack
from functools import partial
from typing import Any

import aiohttp
import pytest

from tests.apiserver.manifests import binding, node, pod
from tests.apiserver.patience import asked, pause
from tests.apiserver.processes import running
from tests.apiserver.realcluster import READY_S, SCHEDULER_TOKEN, RealCluster, start_cluster
from tests.real.api import Api
from tests.simulated import answers
from tests.simulated.test_answers import RECORDED, read

PODS = "/api/v1/namespaces/default/pods"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
AWAY = {
    "metadata": {"name": "v1.away.example.com"},
    "spec": {
        "group": "away.example.com",
        "version": "v1",
        "service": {"name": "nobody", "namespace": "default"},
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
    },
}
# One concurrent write of users outside system:masters, without a queue.
FLAGS = ("--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1")


@pytest.mark.real
async def test_the_answers_are_the_recorded_ones():
    """Code, reason, message, and the presence of Retry-After agree."""
    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(FLAGS, name="answers"))
        found = {"history": await _history(cluster, stack), "trouble": await _without_etcd(cluster)}
    if os.environ.get("TRELLIS_RECORD"):
        RECORDED.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")

    assert found == {part: read(part) for part in found}


async def _history(cluster: RealCluster, stack: ExitStack) -> dict[str, Any]:
    """Compact etcd and restart the server, so that it has no earlier versions in memory."""
    async with Api(cluster) as api:
        asked = await answers.before(api.request)
    words = [str(word) for word in cluster.etcd.process.args]  # type: ignore[union-attr]
    (url,) = (w.partition("=")[2] for w in words if w.startswith("--listen-client-urls="))
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/v3/kv/range", json={"key": "AA=="}) as reported:
            revision = json.loads(await reported.read())["header"]["revision"]
        order = {"revision": revision, "physical": True}
        async with session.post(f"{url}/v3/kv/compaction", json=order) as reported:
            assert 200 == reported.status
    server = cluster.apiserver
    server.process.kill()
    server.process.wait()
    words = [str(word) for word in server.process.args]  # type: ignore[union-attr]
    again = stack.enter_context(running("kube-apiserver", words, server.log))
    again.wait_ready(lambda: _serves(cluster), READY_S)
    async with Api(cluster) as api:
        return await answers.after(asked, api.request, partial(_watch, api))


def _serves(cluster: RealCluster) -> bool:
    """Return whether the server answers, and has its initial objects."""
    try:
        return cluster.request("GET", "/readyz")[0] == 200
    except OSError:
        return False


async def _watch(api: Api, path: str) -> tuple[int, Any]:
    return await api.first_event(path, 8)


async def _without_etcd(cluster: RealCluster) -> dict[str, Any]:
    """Bind pods while etcd is stopped, and after it has ended."""
    etcd = cluster.etcd.process
    async with Api(cluster) as admin, Api(cluster, SCHEDULER_TOKEN) as ours:
        await admin.expect("POST", "/api/v1/nodes", node("n"))
        for name in ("late", "second", "lost"):
            await admin.expect("POST", PODS, pod(name))
        await admin.expect("POST", API_SERVICES, AWAY)
        away = await asked(
            lambda: _answer(admin, "GET", "/apis/away.example.com/v1/things"),
            lambda stated: stated["code"] != 404,
            "the other API",
        )
        try:
            first = await _waiting(ours, "late", etcd)
            second = await _bind(ours, "second")
            # On a busy machine the later request may arrive first.
            refused, late = sorted((second, await first), key=lambda stated: stated["code"])
            etcd.send_signal(signal.SIGCONT)
            third = await _waiting(ours, "lost", etcd)
            etcd.kill()
            etcd.wait()
            lost = await third
        finally:
            if etcd.poll() is None:
                etcd.send_signal(signal.SIGCONT)
    return {
        "etcd stands still for longer than a bind may take": late,
        "one more write than the server takes at a time": refused,
        "etcd goes while a bind waits for it": lost,
        "the server of an API is away": away,
    }


async def _bind(api: Api, name: str) -> dict[str, Any]:
    """Bind a pod within three seconds; return the server's answer."""
    return await _answer(api, "POST", f"{PODS}/{name}/binding?timeout=3s", binding(name, "n"))


async def _waiting(
    api: Api, name: str, etcd: "subprocess.Popen[bytes]"
) -> "asyncio.Task[dict[str, Any]]":
    """Stop etcd, and return a bind that waits for it.

    A write of the server's own may occupy the only slot for writes: then etcd continues for it.
    """
    while True:
        etcd.send_signal(signal.SIGSTOP)
        sent = asyncio.create_task(_bind(api, name))
        await pause(1.0)
        if not sent.done():
            return sent
        assert 429 == sent.result()["code"], sent.result()
        etcd.send_signal(signal.SIGCONT)
        await pause(1.0)


async def _answer(api: Api, method: str, path: str, obj: Any = None) -> dict[str, Any]:
    code, headers, body = await api.ask(method, path, obj)
    # A server that is out of time, or overloaded, answers before it negotiates the media type.
    text = body if isinstance(body, str) else json.dumps(body)
    reported = json.loads(text) if text.startswith("{") else {}
    return {
        "code": code,
        "reason": reported.get("reason", ""),
        # How a connection broke differs from time to time.
        "message": reported.get("message", text).partition(" desc = ")[0],
        "says when to come again": "Retry-After" in headers,
    }
