"""A gang of priority 100 among a stream of pods of priority 0: bound within 3 s of capacity for it.

All nodes are full, a stream of pods waits, and a gang comes that may not evict. Then a node joins
with the capacity that the gang needs: all of it exists at one moment. On two other CPUs the stream
comes and goes all the while. Rounds go on in one namespace: 20 on the sandbox, 5 on a real API
server, a quarter of that where the daemon is restarted, or its leader killed, before capacity is
there. TRELLIS_ROUNDS=20 sets the number for all.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TypeAlias

import pytest

from scheduler.testing import pod
from tests.apiserver.patience import PATIENCE_S, asked, pause
from tests.apiserver.processes import free_ports
from tests.e2e.livecluster import QUIET, LiveCluster, answers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
GROUP, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
WITHIN_S = 3.0
CHURN = 2  # CPUs on which the stream comes and goes
STREAM_S = 0.1
Drain: TypeAlias = "asyncio.Task[tuple[bytes, bytes]]"
SIZES = (1, 3, 64)
ELECTING = """
leaderElection:
  leaderElect: true
  leaseDuration: 15s
  renewDeadline: 10s
  retryPeriod: 1s
  resourceName: trellis
"""


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """Return how many rounds a test has: fewer on the real server, which is slower."""
    return wanted_rounds(5 if request.node.callspec.params["kubeconfig"] == "real" else 20)


@pytest.fixture
def few_rounds(request: pytest.FixtureRequest) -> int:
    """Return the number of rounds of a test whose single round is long."""
    return wanted_rounds(2 if request.node.callspec.params["kubeconfig"] == "real" else 5)


def wanted_rounds(usual: int) -> int:
    """Return the number of rounds from the environment."""
    return int(os.environ.get("TRELLIS_ROUNDS", usual))


class Contention:
    """The pods of one test: fillers on every CPU, a stream that waits, and gangs."""

    def __init__(self, cluster: LiveCluster, size: int, priority: int) -> None:
        self.cluster, self.size, self.priority = cluster, size, priority
        self.capacity = CHURN if size > 1 else 1
        self.made = 0

    async def begin(self) -> None:
        """Create a node with as many CPUs as there are fillers."""
        await self.cluster.nodes(str(self.capacity))

    async def create(self, names: Sequence[str], priority: int = 0, gang: str = "") -> None:
        """Create pods of one CPU, side by side."""
        spec = {
            "schedulerName": "trellis",
            "nodeSelector": {"case": self.cluster.ns},
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": f"live-{priority}",
        }

        async def made(name: str) -> None:
            body = pod(name, namespace=self.cluster.ns, requests={"cpu": "1"}, spec=spec)
            del body["spec"]["nodeName"], body["status"]
            if gang:
                body["metadata"]["labels"] = {GROUP: gang}
                body["metadata"]["annotations"] = {TOTAL: str(len(names))}
            await self.cluster.post("pods", body)

        for at in range(0, len(names), 16):
            await asyncio.gather(*map(made, names[at : at + 16]))

    async def nodes_of(self) -> dict[str, str]:
        """Return the node of each pod, '' for those that wait."""
        url = f"{self.cluster.url}/api/v1/namespaces/{self.cluster.ns}/pods"
        async with self.cluster.session.get(url) as answer:
            items = (await answer.json())["items"]
        return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in items}

    async def delete(self, names: Sequence[str]) -> None:
        """Delete pods at once, side by side."""
        base = f"{self.cluster.url}/api/v1/namespaces/{self.cluster.ns}/pods"

        async def gone(name: str) -> None:
            body = {"gracePeriodSeconds": 0}
            async with self.cluster.session.delete(f"{base}/{name}", json=body) as answer:
                assert answer.status in (200, 404), await answer.text()

        await asyncio.gather(*map(gone, names))

    async def bound(self, names: Sequence[str], what: str) -> float:
        """Wait until pods have nodes; return the seconds."""
        started = monotonic()
        await asked(self.nodes_of, lambda found: all(found.get(one) for one in names), what)
        return monotonic() - started

    @asynccontextmanager
    async def stream(self, churned: Sequence[str]) -> AsyncIterator[None]:
        """Create a pod of priority 0 at an interval, and delete one that runs besides the
        fillers.
        """

        async def flow() -> None:
            last = list(churned)
            while True:
                self.made += 1
                await self.create([f"s-{self.made}"])
                if self.made % 5 == 0:
                    found = await self.nodes_of()
                    running = [one for one in found if one.startswith("s-") and found[one]]
                    await self.delete((last or running)[:1])
                    del last[:1]
                await pause(STREAM_S)

        task = asyncio.create_task(flow())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def priority_class(cluster: LiveCluster, value: int) -> None:
    """Create the priority class of a value, unless an earlier test has."""
    url = f"{cluster.url}/apis/scheduling.k8s.io/v1/priorityclasses"
    body = {"metadata": {"name": f"live-{value}"}, "value": value, "preemptionPolicy": "Never"}
    async with cluster.session.post(url, json=body) as answer:
        assert answer.status in (201, 409), await answer.text()


class Daemons:
    """Daemons of one test, by number; each can be killed and started again."""

    def __init__(self, cluster: LiveCluster, folder: Path, *, elects: bool) -> None:
        self.cluster, self.folder, self.elects = cluster, folder, elects
        self.running: dict[int, tuple[asyncio.subprocess.Process, Drain]] = {}
        self.first = 0  # the number of the one that leads

    async def start(self, number: int = 0) -> None:
        """Start one and wait until it is ready."""
        file = self.folder / f"config-{number}.yaml"
        text = QUIET
        if self.elects:
            elected = f"{ELECTING}  resourceNamespace: {self.cluster.ns}"
            text = QUIET.replace("leaderElection: {leaderElect: false}", elected.strip())
        await asyncio.to_thread(file.write_text, text)
        (port,) = free_ports(1)
        words = ["run", "--config", str(file), "--bind-address", "127.0.0.1"]
        process = await self.cluster.start([*words, "--secure-port", str(port)])
        self.running[number] = (process, asyncio.create_task(process.communicate()))
        if not self.elects:
            url = f"https://127.0.0.1:{port}/readyz"

            async def ready() -> bool:
                assert process.returncode is None, await self._exited(*self.running.pop(number))
                return await answers(url)

            await asked(ready, bool, "the daemon")

    async def kill(self, number: int = 0) -> None:
        """Kill one, so that it cannot release its lease."""
        process, drain = self.running.pop(number)
        assert process.returncode is None, await self._exited(process, drain)
        process.kill()
        await asyncio.wait_for(drain, PATIENCE_S)

    async def _exited(self, process: asyncio.subprocess.Process, drain: Drain) -> str:
        """Return why a daemon is not running: its exit code and the end of its output."""
        written = await asyncio.wait_for(drain, PATIENCE_S)
        return f"exit {process.returncode}: {written[1].decode()[-2000:]}"

    async def leader(self) -> str:
        """Return the holder of the lease, '' without one."""
        leases = f"apis/coordination.k8s.io/v1/namespaces/{self.cluster.ns}/leases"
        url = f"{self.cluster.url}/{leases}/trellis"
        async with self.cluster.session.get(url) as answer:
            found = await answer.json()
        return str((found.get("spec") or {}).get("holderIdentity") or "")

    async def close(self) -> None:
        """Kill the running daemons."""
        for process, drain in self.running.values():
            if process.returncode is None:
                process.kill()
            await asyncio.wait_for(drain, PATIENCE_S)


async def run_round(
    contention: Contention, number: int, daemons: Daemons, disruption: str
) -> float:
    """Run one round.

    Return the seconds from capacity, and a leader, to the last bind of the gang.
    """
    fillers = [f"f{number}-{at}" for at in range(contention.capacity)]
    await contention.create(fillers)
    await contention.bound(fillers, "the fillers")
    gang = [f"g{number}-{at}" for at in range(contention.size)]

    async def joins() -> None:
        node = f"more{number}-{contention.cluster.ns}"
        await contention.cluster.node(
            node, cpu=str(contention.size), labels={"case": contention.cluster.ns}
        )

    if contention.priority:
        await contention.create([f"early{number}-{at}" for at in range(5)])
    else:
        await contention.create(gang, 0, f"g{number}")
    async with contention.stream(fillers[:CHURN] if contention.size > 1 else ()):
        if contention.priority:
            await contention.create(gang, contention.priority, f"g{number}")
        await pause(1.0)  # it is refused, and the stream goes on
        if disruption == "restart":
            await daemons.kill()
            await joins()
            await daemons.start()
        elif disruption == "fail-over":
            first = await daemons.leader()
            await daemons.kill(daemons.first)
            await joins()
            await asked(daemons.leader, lambda one: one not in ("", first), "another leader")
        else:
            await joins()
        took = await contention.bound(gang, f"the gang of {contention.size}")
    async with contention.cluster.session.delete(
        f"{contention.cluster.url}/api/v1/nodes/more{number}-{contention.cluster.ns}"
    ) as answer:
        assert 200 == answer.status
    await contention.delete(list(await contention.nodes_of()))
    if disruption == "fail-over":
        await daemons.start(daemons.first)
        daemons.first = 1 - daemons.first
    return took


async def rounds_of(
    cluster: LiveCluster,
    folder: Path,
    size: int,
    count: int,
    *,
    priority: int = 100,
    disruption: str = "",
) -> list[float]:
    """Run rounds with one set of pods; return the seconds of each."""
    contention = Contention(cluster, size, priority)
    daemons = Daemons(cluster, folder, elects=disruption == "fail-over")
    for value in {0, priority}:
        await priority_class(cluster, value)
    await contention.begin()
    try:
        await daemons.start()
        if daemons.elects:
            await asked(daemons.leader, bool, "a leader")
            await daemons.start(1)
        found = [
            await run_round(contention, number, daemons, disruption) for number in range(count)
        ]
    finally:
        await daemons.close()
    print(
        f"{disruption or 'stream'} size {size} priority {priority}:",
        *(f"{one:.2f}" for one in found),
    )
    return found


@pytest.mark.parametrize("size", SIZES)
async def test_a_gang_of_higher_priority_is_bound_first(
    cluster: LiveCluster, tmp_path: Path, size: int, rounds: int
):
    """Pods of priority 0 that wait longer or are created meanwhile do not delay it."""
    found = await rounds_of(cluster, tmp_path, size, rounds)
    assert max(found) < WITHIN_S, found


@pytest.mark.parametrize("size", SIZES)
async def test_of_equal_priority_the_older_gang_is_bound_first(
    cluster: LiveCluster, tmp_path: Path, size: int, few_rounds: int
):
    """The pods of the stream are younger than the gang, and wait for it."""
    found = await rounds_of(cluster, tmp_path, size, few_rounds, priority=0)
    assert max(found) < WITHIN_S, found


@pytest.mark.parametrize("disruption", ["restart", "fail-over"])
@pytest.mark.parametrize("size", SIZES)
async def test_a_gang_is_bound_first_after_a_restart(
    cluster: LiveCluster, tmp_path: Path, size: int, few_rounds: int, disruption: str
):
    """A daemon that has just begun to lead finds capacity, the stream and the gang at the same
    time.
    """
    found = await rounds_of(cluster, tmp_path, size, few_rounds, disruption=disruption)
    assert max(found) < WITHIN_S, found
