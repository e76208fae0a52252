"""Replicas of the daemon in this process, on a real API server, with a client that a test can
disturb.

The daemon is the product's own except for its client: `Troubled` answers in the server's place,
breaks watches, and abandons requests that continue by themselves, as a bad network does.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import default_config, load
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.intree import registry
from scheduler.kube.api import Response, ResponseStream
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials
from scheduler.serve.app import Address
from tests.apiserver.realcluster import RealCluster

REGISTRY = registry()
LOADED = default_config(REGISTRY)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
# With a configuration file groups are off unless it names their plugin.
HASTY = load(
    f"{HEAD}leaderElection: {{resourceName: trellis, resourceNamespace: kube-system, "
    "leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s}\n"
    "profiles: [{schedulerName: trellis, "
    "plugins: {preEnqueue: {enabled: [{name: ClusterTopologyPlacementGroup}]}}}]\n",
    file="hasty",
    registry=REGISTRY,
)
LOST = Response(0, reason="ConnectionFailed", message="the connection broke")


class Troubled(ApiClient):
    """A client whose answers a test may spoil: `refusals` by the beginning of a path."""

    refusals: dict[str, Response]
    lost = 0.0
    is_dead = False

    def prepare(self, random: Random) -> None:
        """Start without faults."""
        self.refusals, self._random = {}, random
        self._under_way: set[asyncio.Task[Response]] = set()
        self._watches: set[_Cut] = set()

    async def request(self, method: str, path: str, *args: Any, **options: Any) -> Response:
        """Send a request; sometimes its answer is lost and it continues alone."""
        for prefix, refusal in self.refusals.items():
            if path.startswith(prefix):
                return refusal
        if self.is_dead:
            return Response(0, reason="NotSent", was_sent=False)
        if not path.endswith("/binding") or self._random.random() >= self.lost:
            return await super().request(method, path, *args, **options)
        sent = asyncio.create_task(self._late(method, path, *args, **options))
        self._under_way.add(sent)
        sent.add_done_callback(self._under_way.discard)
        return LOST

    async def _late(self, method: str, path: str, *args: Any, **options: Any) -> Response:
        # The time limit of a request in flight is not checked.
        options.pop("guard", None)
        woken = asyncio.Event()
        asyncio.get_running_loop().call_later(self._random.random() * 0.5, woken.set)
        await woken.wait()
        return await super().request(method, path, *args, **options)

    @asynccontextmanager
    async def stream(self, path: str, *, silence_s: float) -> AsyncGenerator[ResponseStream, None]:
        """Open a watch that can be cut."""
        async with super().stream(path, silence_s=silence_s) as opened:
            cut = _Cut(opened)
            for prefix, refusal in self.refusals.items():
                if path.startswith(prefix):
                    cut.head = refusal
            self._watches.add(cut)
            try:
                yield cut
            finally:
                self._watches.discard(cut)

    def cut(self) -> None:
        """Break all watches."""
        for watch in list(self._watches):
            watch.break_off()

    async def settle(self) -> None:
        """Wait until abandoned requests have arrived."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


class _Cut:
    def __init__(self, opened: ResponseStream) -> None:
        self.head = opened.head
        self._opened = opened
        self._broken = asyncio.Event()

    def break_off(self) -> None:
        self._broken.set()

    async def read(self) -> bytes:
        reading = asyncio.ensure_future(self._opened.read())
        broken = asyncio.ensure_future(self._broken.wait())
        try:
            await asyncio.wait({reading, broken}, return_when=asyncio.FIRST_COMPLETED)
            if self._broken.is_set():
                raise ConnectionResetError("cut")
            return await reading
        finally:
            for task in (reading, broken):
                task.cancel()
            await asyncio.gather(reading, broken, return_exceptions=True)


class Replica:
    """One daemon and its client."""

    def __init__(self, client: Troubled, seed: int) -> None:
        self.client = client
        self.daemon = Daemon(
            HASTY,
            REGISTRY,
            client,
            clock=RealClock(),
            random=Random(seed),
            meters=Meters(),
            options=DaemonOptions("test", Address(port=0), seed=seed),
        )
        self.task = asyncio.create_task(self.daemon.run())

    async def kill(self) -> None:
        """Die without releasing the lease; requests in flight arrive."""
        self.client.is_dead = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.client.settle()


async def replica(cluster: RealCluster, seed: int) -> Replica:
    """Start a replica."""
    clock, meters = RealClock(), Meters()
    credentials = await Credentials.load(clock, str(cluster.kubeconfig))
    client = Troubled(credentials, clock=clock, meters=meters)
    client.prepare(Random(seed))
    return Replica(client, seed)
