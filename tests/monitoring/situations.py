"""The real situations of the alerts: one context each, which ends the situation."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

import yaml

from scheduler.base.clock import RealClock, rfc3339_micro
from tests.apiserver.processes import free_ports
from tests.e2e.livecluster import answers
from tests.monitoring.watched import MERGE, ROLES, Watched, pause

LEASES = "/apis/coordination.k8s.io/v1/namespaces/sys/leases"
Situation = Callable[[Watched], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def again_and_again(step: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Repeat a step until the block ends."""

    async def work() -> None:
        while True:
            await step()

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def another_holder_of_the_lease(one: Watched) -> AsyncIterator[None]:
    """Another client holds our Lease and does not use it."""
    now = rfc3339_micro(RealClock().now())
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 3600, "renewTime": now}
    await one.send("POST", LEASES, {"metadata": {"name": "trellis"}, "spec": spec})
    yield
    await one.send("DELETE", f"{LEASES}/trellis")


@asynccontextmanager
async def it_is_down(one: Watched) -> AsyncIterator[None]:
    """Return whether the process has ended."""
    await one.stop()
    yield
    await one.start()


@asynccontextmanager
async def pods_fit_nowhere(one: Watched) -> AsyncIterator[None]:
    """A pod requests more than any node has."""
    names = await one.pods(1, cpu="400")
    yield
    await one.delete(names)


@asynccontextmanager
async def it_is_stopped_again_and_again(one: Watched) -> AsyncIterator[None]:
    """The process is stopped for most of the time."""

    random = Random(1)

    async def step() -> None:
        one.signal(signal.SIGSTOP)
        await pause(random.uniform(0.4, 0.8))
        one.signal(signal.SIGCONT)
        await pause(random.uniform(0.1, 0.4))

    async with again_and_again(step):
        yield
    one.signal(signal.SIGCONT)


@asynccontextmanager
async def a_plugin_raises(one: Watched) -> AsyncIterator[None]:
    """Pods arrive for which a plugin raises."""
    names: list[str] = []

    async def step() -> None:
        names.extend(await one.pods(1, labels={"mood": "bad"}))
        await pause(0.5)

    async with again_and_again(step):
        yield
    await one.delete(names)


@asynccontextmanager
async def an_extender_is_away(one: Watched) -> AsyncIterator[None]:
    """Pods arrive that an extender must evaluate, and it is unavailable."""
    names: list[str] = []

    async def step() -> None:
        names.extend(await one.pods(1, limits={"cpu": "100m", "example.com/device": "1"}))
        await pause(0.5)

    async with again_and_again(step):
        yield
    await one.delete(names)


@asynccontextmanager
async def a_rival_binds_our_pods(one: Watched) -> AsyncIterator[None]:
    """A second scheduler of the same name, with a Lease of its own."""
    kube, ours = yaml.safe_load_all(one.config.read_text())
    kube["leaderElection"] = {"leaderElect": False}
    ours["operators"] = {"enabled": False}
    file = one.folder / "rival.yaml"
    file.write_text(yaml.safe_dump_all([kube, ours]))
    (port,) = free_ports(1)
    names: list[str] = []

    async def step() -> None:
        names.extend(await one.pods(12, nodeSelector={"pool": "general"}, cpu="10m"))
        await pause(0.4)

    with one.daemon(file, port) as rival:
        await one.until(lambda: answers(f"https://127.0.0.1:{port}/readyz"))
        async with again_and_again(step):
            yield
        await asyncio.to_thread(rival.stop)
    await one.delete(names)


@asynccontextmanager
async def another_client_overcommits(one: Watched) -> AsyncIterator[None]:
    """Pods are bound, past every scheduler, to a node without capacity for them."""
    names = await one.pods(2, cpu="3", scheduler="", nodeName="dead-0")
    yield
    await one.delete(names)


@asynccontextmanager
async def the_solver_is_killed(one: Watched) -> AsyncIterator[None]:
    """The helper process is killed while it has questions to answer."""
    killed: set[int] = set()
    names: list[str] = []

    async def step() -> None:
        for pid in set(one.helpers()) - killed:
            one.signal(signal.SIGSTOP, pid)
            killed.add(pid)
            names.extend(await one.group(2, scheduler="hasty"))  # the others are solved at once
            await pause(0.5)
            one.signal(signal.SIGKILL, pid)
        await pause(0.05)

    async with again_and_again(step):
        yield
    await one.delete(names)


@asynccontextmanager
async def the_solver_has_no_time(one: Watched) -> AsyncIterator[None]:
    """Groups of a profile whose solver may search for a thousandth of a second."""
    names: list[str] = []

    async def step() -> None:
        rules = {"rack": {"type": "spread"}, "node": {"type": "spread"}}
        names.extend(await one.group(6, rules, scheduler="hasty", cpu="10m"))
        await pause(0.4)

    async with again_and_again(step):
        yield
    await one.delete(names)


@asynccontextmanager
async def a_foreign_pod_takes_a_zone(one: Watched) -> AsyncIterator[None]:
    """A guaranteed pod of another scheduler is on a node whose agent reports late."""
    tolerations = [{"key": "pool", "operator": "Exists"}]
    names = await one.pods(
        1, limits={"cpu": "3", "memory": "1Gi"}, scheduler="other", nodeName="numa-0",
        tolerations=tolerations,
    )  # fmt: skip
    yield
    await one.delete(names)


@asynccontextmanager
async def no_agent_measures_the_network(one: Watched) -> AsyncIterator[None]:
    """The costs that decide were calculated two hours ago."""
    await one.measured(2)
    yield
    await one.measured(0)


@asynccontextmanager
async def agents_fall_silent(one: Watched) -> AsyncIterator[None]:
    """A third of the nodes do not report their load any more."""
    loads = {"off": "agent=off", "on": "cpu=15% memory=10% use=60% every=1s"}
    for state in ("off", "on"):
        for number in range(6):
            notes = {"annotations": {"trellis.dev/simulate-load": loads[state]}}
            path = f"/api/v1/nodes/node-{number:02}"
            await one.send("PATCH", path, {"metadata": notes}, headers=MERGE)
        if state == "off":
            yield


@asynccontextmanager
async def the_wire_breaks(one: Watched) -> AsyncIterator[None]:
    """Connections to the API server break off every second."""

    async def step() -> None:
        one.wire.cut()
        await pause(1.0)

    async with again_and_again(step):
        yield


@asynccontextmanager
async def nodes_may_not_be_listed(one: Watched) -> AsyncIterator[None]:
    """The role is edited: nodes, which every decision needs, cannot be listed any more."""
    path = f"{ROLES}/clusterroles/trellis"
    rules = (await one.send("GET", path))["rules"]
    left = [
        {**rule, "resources": [kind for kind in rule["resources"] if kind != "nodes"] or ["none"]}
        for rule in rules
    ]
    await one.send("PATCH", path, {"rules": left}, headers=MERGE)
    one.wire.cut()
    yield
    await one.send("PATCH", path, {"rules": rules}, headers=MERGE)


@asynccontextmanager
async def a_right_is_taken_away(one: Watched) -> AsyncIterator[None]:
    """The role is edited: AppGroups cannot be listed any more. Watches end from time to time."""
    path = f"{ROLES}/clusterroles/trellis"
    rules = (await one.send("GET", path))["rules"]
    left = [rule for rule in rules if rule["resources"] != ["appgroups"]]
    await one.send("PATCH", path, {"rules": left}, headers=MERGE)
    one.wire.cut()
    yield
    await one.send("PATCH", path, {"rules": rules}, headers=MERGE)


@asynccontextmanager
async def the_file_is_broken(one: Watched) -> AsyncIterator[None]:
    """A field of the configuration is misspelled."""
    text = one.config.read_text()
    one.config.write_text(text.replace("profiles:", "profils:"))
    yield
    one.config.write_text(text)


@asynccontextmanager
async def the_certificate_ends_soon(one: Watched) -> AsyncIterator[None]:
    """The files hold a certificate that is good for three days."""
    one.certify(3)
    yield
    one.certify(300)


# Faults that can exist at the same time without hiding one another, in turn.
ROUNDS: tuple[dict[str, Situation], ...] = (
    {
        "TrellisPodsPending": pods_fit_nowhere,
        "TrellisOvercommitted": another_client_overcommits,
        "TrellisNumaStale": a_foreign_pod_takes_a_zone,
        "TrellisNodeMetricStale": agents_fall_silent,
        "TrellisNetworkCostsOld": no_agent_measures_the_network,
        "TrellisConfigReloadFailed": the_file_is_broken,
        "TrellisCertificateExpires": the_certificate_ends_soon,
        "TrellisPluginErrors": a_plugin_raises,
        "TrellisExtenderFails": an_extender_is_away,
        "TrellisSolverUnproven": the_solver_has_no_time,
    },
    {"TrellisSolverFails": the_solver_is_killed},
    {"TrellisOperatorDown": a_right_is_taken_away},
    {"TrellisDecisionsPaused": nodes_may_not_be_listed},
    {"TrellisWatchRestarts": the_wire_breaks},
    {"TrellisLoopLate": it_is_stopped_again_and_again},
    {"TrellisBindConflicts": a_rival_binds_our_pods},
    {"TrellisDown": it_is_down},
)
