"""The bare binder: the minimal work of a scheduler in Python, without any decision.

Watches pods, binds each to the next node in turn, and with `--events` writes one event per bound
pod as kube-scheduler does. A contestant of the benchmark in its own process: its throughput is the
limit that the API server and an asyncio client set for a scheduler. It ends with SIGTERM.
"""

import argparse
import asyncio
import base64
import itertools
import json
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from scheduler.base.clock import RealClock, rfc3339_micro

CONNECTIONS = 32
UNFINISHED = "fieldSelector=status.phase!%3DSucceeded,status.phase!%3DFailed"
HEADERS = {"Content-Type": "application/json"}

_clock = RealClock()


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduler_name: str = ""


class Pod(msgspec.Struct):
    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(name="continue", default="")


class PodList(msgspec.Struct):
    metadata: ListMeta
    items: list[Pod]


class PodEvent(msgspec.Struct):
    type: str
    object: Pod


class Binder:
    """Binds pods of one scheduler name as they arrive."""

    def __init__(self, session: aiohttp.ClientSession, url: str, options: Any) -> None:
        self._session = session
        self._url = url
        self._options = options
        self._waiting: asyncio.Queue[Meta] = asyncio.Queue()
        self._lines = msgspec.json.Decoder(PodEvent)
        self._nodes: itertools.cycle[str] = itertools.cycle(())

    async def run(self) -> None:
        """Bind until cancelled."""
        nodes, _ = await self._list("/api/v1/nodes")
        self._nodes = itertools.cycle([node.metadata.name for node in nodes])
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.connections):
                group.create_task(self._bind_all())
            group.create_task(self._take_pods())

    async def _take_pods(self) -> None:
        pods, version = await self._list(f"/api/v1/pods?{UNFINISHED}")
        for pod in pods:
            self._take(pod)
        async for pod in self._watch(version):
            self._take(pod)

    def _take(self, pod: Pod) -> None:
        if not pod.spec.node_name and pod.spec.scheduler_name == self._options.scheduler_name:
            self._waiting.put_nowait(pod.metadata)

    async def _list(self, path: str) -> tuple[list[Pod], str]:
        items: list[Pod] = []
        token, joint = "", "&" if "?" in path else "?"
        while True:
            async with self._session.get(
                f"{self._url}{path}{joint}limit=5000&continue={token}"
            ) as answer:
                page = msgspec.json.decode(await answer.read(), type=PodList)
            items += page.items
            token = page.metadata.continue_
            if not token:
                return items, page.metadata.resource_version

    async def _watch(self, version: str) -> AsyncIterator[Pod]:
        while True:
            async for event in self._watch_once(version):
                version = event.object.metadata.resource_version
                if event.type == "ADDED":
                    yield event.object

    async def _watch_once(self, version: str) -> AsyncIterator[PodEvent]:
        url = f"{self._url}/api/v1/pods?watch=1&resourceVersion={version}&{UNFINISHED}"
        async with self._session.get(url) as answer:
            if answer.status != 200:
                raise ConnectionError(f"{url}: {answer.status} {await answer.text()}")
            rest = b""
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield self._lines.decode(line)

    async def _bind_all(self) -> None:
        while True:
            pod = await self._waiting.get()
            node = next(self._nodes)
            await self._post(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", binding(pod, node)
            )
            if self._options.events:
                await self._post(
                    f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events",
                    event(pod, node, self._options.scheduler_name),
                )

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        async with self._session.post(
            self._url + path, data=msgspec.json.encode(body), headers=HEADERS
        ) as answer:
            content = await answer.read()
            if answer.status != 201:
                raise ConnectionError(f"{path}: {answer.status} {content[:300]!r}")


def binding(pod: Meta, node: str) -> dict[str, Any]:
    """Return the body of a bind."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "target": {"kind": "Node", "name": node},
    }


def event(pod: Meta, node: str, scheduler_name: str) -> dict[str, Any]:
    """Return the event that a pod was bound, with the fields that kube-scheduler fills."""
    now = _clock.now()
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.{int(now * 1e9):x}", "namespace": pod.namespace},
        "eventTime": rfc3339_micro(now),
        "reportingController": scheduler_name,
        "reportingInstance": f"{scheduler_name}-binder",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "apiVersion": "v1",
            "resourceVersion": pod.resource_version,
        },
        "note": f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
        "type": "Normal",
    }


async def main() -> None:
    """Read the options and bind until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--scheduler-name", required=True)
    parser.add_argument("--events", action="store_true")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    options = parser.parse_args()
    config = yaml.safe_load(options.kubeconfig.read_text())
    server, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(server["certificate-authority-data"]).decode()
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(cadata=authority))
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("not in a task")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with aiohttp.ClientSession(
        connector=connector,
        headers={"Authorization": f"Bearer {user['token']}", "User-Agent": "trellis-binder"},
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=1 << 18,
    ) as session:
        print(json.dumps({"started": True}), flush=True)
        try:
            await Binder(session, server["server"], options).run()
        except asyncio.CancelledError:
            return


if __name__ == "__main__":
    asyncio.run(main())
