"""A MovePlan on a running server whose daemon is killed at each state: the next one, or the second
of two daemons, continues.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.patience import PATIENCE_S, asked
from tests.apiserver.processes import free_ports
from tests.e2e.movescene import CLOSED, Scene, cases, scene_of
from tests.e2e.movescluster import CONFIG, Json, Live, daemon, state_of

# Each fail-over takes the 15 s of a lease.
pytestmark = [pytest.mark.timeout(400), pytest.mark.allow_blocking("servers start on the loop")]
ELECTS = """leaderElection:
  leaderElect: true
  resourceName: trellis
  resourceNamespace: default
"""


@pytest.fixture
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    """Give the server of a case with its pods."""
    async with scene_of(request, tmp_path) as found:
        yield found


class Pair:
    """Two daemons, the first of which leads.

    The second starts only while the first leads: of two that wait for a lease to end either may get
    it.
    """

    def __init__(self, live: Live, folder: Path) -> None:
        self.live, self.folder = live, folder
        self.running: list[tuple[asyncio.subprocess.Process, asyncio.Task[Any]]] = []

    async def start(self) -> None:
        """Start one more daemon."""
        config = self.folder / "config.yaml"
        elects = CONFIG.replace("leaderElection: {leaderElect: false}\n", ELECTS)
        await asyncio.to_thread(config.write_text, elects)
        (port,) = free_ports(1)
        words = ["run", "--config", str(config), "--bind-address", "127.0.0.1"]
        process = await self.live.cluster.start([*words, "--secure-port", str(port)])
        self.running.append((process, asyncio.create_task(process.communicate())))

    async def leader(self) -> str:
        """Return the holder of the lease, '' without one."""
        path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/trellis"
        found = await self.live.send("GET", path)
        return str((found.get("spec") or {}).get("holderIdentity") or "")

    async def fail_over(self) -> None:
        """Kill the leader; return once the other daemon leads and a new one is started."""
        first = await self.leader()
        await self._kill()
        await asked(self.leader, lambda one: one not in ("", first), "another leader")
        await self.start()

    async def _kill(self) -> None:
        process, drain = self.running.pop(0)
        if process.returncode is None:
            process.kill()
        await asyncio.wait_for(drain, PATIENCE_S)

    async def close(self) -> None:
        """Kill both daemons."""
        while self.running:
            await self._kill()


@asynccontextmanager
async def pair_of(live: Live, folder: Path) -> AsyncIterator[Pair]:
    """Run two daemons until the block ends."""
    pair = Pair(live, folder)
    try:
        await pair.start()
        await asked(pair.leader, bool, "a leader")
        await pair.start()
        yield pair
    finally:
        await pair.close()


@pytest.mark.parametrize("scene", cases("deployments"), indirect=True)
async def test_a_leader_that_is_killed_after_each_state(scene: Scene, tmp_path: Path) -> None:
    """The other daemon continues the plan from its object until the waiting pod runs."""
    live = scene.live
    async with pair_of(live, tmp_path) as pair:
        await scene.prepare()
        plan = await scene.propose()
        await pair.fail_over()
        await scene.approve(plan)
        await carried_out(scene, plan, pair.fail_over)


@pytest.mark.parametrize("scene", cases("statefulsets", "gangs"), indirect=True)
async def test_a_daemon_that_is_killed_after_each_state(scene: Scene, tmp_path: Path) -> None:
    """The next one continues the plan from its object until the waiting pod runs."""
    async with daemon(scene.live.cluster, tmp_path) as process:
        await scene.prepare()
        plan = await scene.propose()
        await process.restart()
        await scene.approve(plan)
        await carried_out(scene, plan, process.restart)


async def carried_out(scene: Scene, plan: Json, kill: Callable[[], Awaitable[None]]) -> None:
    """Assert that the plan reaches its goal although the daemon is killed after each state."""
    live = scene.live
    states = [state_of(plan)]
    while states[-1][0] not in CLOSED:
        states.append(await live.changed(states[-1]))
        await kill()
    plan = await live.plan(*CLOSED)
    assert plan["status"]["phase"] == "Completed", plan["status"]
    moves = plan["status"]["moves"]
    assert await live.node_of("train") == moves[0]["from"]
    after = await live.web(2)

    assert len(states) > 2, states
    assert all(after[move["replacement"]] == move["to"] for move in moves)
    await scene.check()
