"""A whole cluster in this process: store, HTTPS API server, simulated nodes, controllers.

    async with Sandbox(Options(shape=plain_shape(30))) as sandbox:
        sandbox.kubeconfig_path      # for kubectl, helm, the daemon
        sandbox.url, sandbox.store

`trellis sandbox up`, `trellis demo` and tests use it. It has no scheduler: pods stay Pending until
a client binds them.
"""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from scheduler.base.clock import Clock, RealClock
from scheduler.sandbox import manifests
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.controllers.ownership import reference_to
from scheduler.sandbox.controllers.table import controllers
from scheduler.sandbox.controllers.workqueue import ControllerLoop
from scheduler.sandbox.kinds.kinds import NODES, RELEASES, RESOURCESLICES
from scheduler.sandbox.nodes.kubelet import Kubelets
from scheduler.sandbox.nodes.loadagents import LoadAgents
from scheduler.sandbox.nodes.nodes import SimulatedNodes
from scheduler.sandbox.nodes.podlifecycle import SimulatedPace
from scheduler.sandbox.nodes.shape import ClusterShape, device_slices, nodes_of, plain_shape
from scheduler.sandbox.nodes.topologyagents import TopologyAgents
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.store import ObjectStore

_NODES_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The options of a sandbox.

    `port` 0 takes a free one; without `kubeconfig` the file is in a temporary folder that is
    removed with the sandbox; `lazy` kubelets write no pod status; a node is lost when its lease is
    older than `node_grace_s`. `release` is the Kubernetes release whose group kinds it serves.
    """

    shape: ClusterShape = field(default_factory=lambda: plain_shape(3))
    host: str = "127.0.0.1"
    port: int = 0
    kubeconfig: Path | None = None
    pace: SimulatedPace = field(default_factory=SimulatedPace)
    lazy: bool = False
    renew_interval_s: float = 10.0
    node_grace_s: float = 40.0
    release: str = RELEASES[0]


class Sandbox:
    """One embedded cluster; `async with` starts and stops it."""

    store: ObjectStore
    server: ApiServer
    turns: ControllerLoop
    kubeconfig_path: Path

    def __init__(self, options: SandboxOptions | None = None, clock: Clock | None = None) -> None:
        self.options = options or SandboxOptions()
        self._clock = clock or RealClock()
        self._folder = ""
        self._acting: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """Return the address of the API server."""
        return self.server.url

    async def start(self) -> None:
        """Start the server and all controllers.

        Return when all nodes of the shape are Ready and the kubeconfig is written.
        """
        options = self.options
        # Reads the CRDs from files, so it may block.
        self.store = await asyncio.to_thread(new_store, self._clock, release=options.release)
        nodes = SimulatedNodes(self.store, renew_interval_s=options.renew_interval_s)
        agents = TopologyAgents(self.store, nodes)
        kubelets = Kubelets(
            self.store, nodes, options.pace, lazy=options.lazy, pods_changed=agents.changed
        )
        others = controllers(self.store, node_grace_s=options.node_grace_s)
        load = LoadAgents(self.store, nodes)
        self.turns = ControllerLoop(self.store, [nodes, agents, load, kubelets, *others])
        self.server = ApiServer(self.store, host=options.host, port=options.port)
        await self.server.start()
        self._acting = asyncio.create_task(self.turns.run(), name="sandbox controllers")
        try:
            await self._add_nodes()
            self.kubeconfig_path = await asyncio.to_thread(self._write_kubeconfig)
        except BaseException:  # cancellation too: servers and tasks are running
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the server and all controllers; the objects are dropped."""
        if self._acting is not None:
            self._acting.cancel()
            await asyncio.gather(self._acting, return_exceptions=True)
            self.turns.close()
        await self.server.stop()
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def apply(self, *names: str) -> list[str]:
        """Apply the manifests of files, folders or `-`, namespaces first.

        Return the actions, a line each.
        """
        found = await asyncio.to_thread(lambda: manifests.in_order(manifests.read(names)))
        lines = []
        for manifest in found:
            lines.append(manifests.apply(self.store, manifest))
            await asyncio.sleep(0)
        return lines

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    async def _add_nodes(self) -> None:
        now = self.store.now()
        for number, node in enumerate(nodes_of(self.options.shape, now)):
            self.store.create(NODES, node, owned=True)
            if number % _NODES_AT_ONCE == _NODES_AT_ONCE - 1:
                await asyncio.sleep(0)
        for number, (name, published) in enumerate(device_slices(self.options.shape)):
            node = self.store.get(NODES, "", name).obj
            published["metadata"]["ownerReferences"] = [reference_to(NODES, node)]
            self.store.create(RESOURCESLICES, published, owned=True)
            if number % _NODES_AT_ONCE == _NODES_AT_ONCE - 1:
                await asyncio.sleep(0)

    def _write_kubeconfig(self) -> Path:
        path = self.options.kubeconfig
        if path is None:
            self._folder = tempfile.mkdtemp(prefix="trellis-sandbox-")
            path = Path(self._folder, "kubeconfig")
        return self.server.kubeconfig(path)
