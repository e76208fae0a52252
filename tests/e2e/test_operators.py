"""The operators against an API server: the sandbox in the default suite, the real one as well."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from operators.settings import OperatorsSettings
from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.kube.api import Response
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials
from scheduler.objects.kinds import BY_KIND
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.start import new_store
from tests.apiserver.patience import PATIENCE_S, asked
from tests.e2e.operatorcluster import (
    DEFINITION,
    SERVERS,
    TOPOLOGIES,
    Json,
    LiveCluster,
    Seen,
    count_is,
    definition,
    open_cluster,
)

# The sandbox and kubernetes-asyncio read files now and then; that is for their own tests.
pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with open_cluster(request.param, tmp_path) as opened:
        yield opened


async def test_the_status_follows_the_nodes(cluster: LiveCluster):
    """The operator waits for the kind without errors.

    Then nodes, spec and status stay in step, and nothing else.
    """
    cluster.nodes("n1", "n2")
    async with cluster.operators():
        await cluster.health.wait_for("waiting")
        assert cluster.health.check() is None
        await cluster.define()
        await cluster.health.wait_for("running")
        created = await cluster.create()
        seen = Seen(cluster, "nt-default")
        first = await seen.until(count_is(2))
        cluster.nodes("n1", "n2", "n3")
        await seen.until(count_is(3))
        cluster.nodes("n3")
        await seen.until(count_is(1))
        await cluster.change_spec()
        last = await seen.until(lambda one: one["status"].get("observedGeneration") == 2)

    assert created["metadata"]["generation"] == first["status"]["observedGeneration"] == 1
    assert ("Ready", "True") == tuple(
        first["status"]["conditions"][0][k] for k in ("type", "status")
    )
    assert "ListedTwice" == last["status"]["conditions"][0]["reason"]
    assert not {"finalizers", "annotations"} & set(last["metadata"])
    (record,) = cluster.health.records.values()
    assert ("stopped", 0, "") == (record.state, record.restarts, record.last_error)


async def test_a_crash_of_kopf_stays_its_own(cluster: LiveCluster):
    """The operator is restarted; signals, tasks and the loop of the daemon are not affected."""
    loop = asyncio.get_running_loop()
    terminated, ours = asyncio.Event(), asyncio.create_task(asyncio.Event().wait())
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        await cluster.define()
        await cluster.create()
        seen = Seen(cluster, "nt-default")
        async with cluster.operators():
            cluster.nodes("n1")
            await seen.until(count_is(1))
            for restarts, name in enumerate(("resource observer", "multidimensional"), start=1):
                victim = next(t for t in asyncio.all_tasks() if t.get_name().startswith(name))
                victim.cancel()
                await cluster.health.wait_for("running", restarts)
                cluster.nodes(*(f"n{number}" for number in range(restarts + 1)))
                await seen.until(count_is(restarts + 1))
            assert (
                "ended without an error" in next(iter(cluster.health.records.values())).last_error
            )
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(terminated.wait(), PATIENCE_S)
            assert not ours.done()
            assert interrupt == signal.getsignal(signal.SIGINT)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        ours.cancel()
    again = ["down", "starting", "running"]
    assert ["starting", "running", *again, *again, "stopped"] == cluster.health.states


async def test_churn_is_few_writes(cluster: LiveCluster):
    """However fast nodes change, the status is written once per interval, and is right at the
    end.
    """
    churn, interval_s, step_s = 100, 0.3, 0.005
    loop = asyncio.get_running_loop()
    await cluster.define()
    await cluster.create()
    seen = Seen(cluster, "nt-default")
    settings = OperatorsSettings(
        enabled=("networktopology",), status_interval_s=interval_s, definition_poll_s=0.1
    )
    async with cluster.operators(settings):
        await seen.until(count_is(0))
        before, began, changes = len(seen.versions), loop.time(), 0

        def step() -> None:
            nonlocal changes
            changes += 1
            cluster.nodes(*(f"n{number}" for number in range(1 + changes % 2)))
            if changes < churn:
                loop.call_later(step_s, step)
            else:
                cluster.nodes(*(f"n{number}" for number in range(7)))

        step()
        await seen.until(count_is(7))
        took_s = loop.time() - began

    assert len(seen.versions) - before <= took_s / interval_s + 2
    assert len(seen.versions) - before < churn / 2


def has_observed_generation(response: Response) -> bool:
    return response.ok and "observedGeneration" in json.loads(response.body)["status"]


async def test_an_older_definition_is_served(cluster: LiveCluster):
    """Without status subresource the count alone is written; a newer definition is noticed."""
    await cluster.define(legacy=True)
    await cluster.create()
    cluster.nodes("n1", "n2")
    seen = Seen(cluster, "nt-default")
    async with cluster.operators():
        old = await seen.until(count_is(2))
        cluster.nodes("n1")
        await seen.until(count_is(1))
        found = await cluster.send("GET", DEFINITION)
        found["spec"] = definition()["spec"]
        await cluster.send("PUT", DEFINITION, found)
        # Not by a watch: the older definition's may still deliver the write, without the field.
        path = f"{TOPOLOGIES}/nt-default"
        await asked(lambda: cluster.client.request("GET", path), has_observed_generation, path)

    assert {"nodeCount": 2} == old["status"]


async def test_a_definition_that_goes_is_no_crash(cluster: LiveCluster):
    """The operator waits for it again, and serves it when it is back."""
    await cluster.define()
    await cluster.create()
    cluster.nodes("n1")
    async with cluster.operators():
        await Seen(cluster, "nt-default").until(count_is(1))
        await cluster.send("DELETE", DEFINITION)
        await cluster.wait_served(here=False)
        await cluster.health.wait_for("waiting")
        await cluster.define()
        await cluster.create()
        await Seen(cluster, "nt-default").until(count_is(1))

    assert 0 == next(iter(cluster.health.records.values())).restarts


async def test_new_tokens_and_authorities_are_taken_over(tmp_path: Path):
    """After a server's return with other credentials the operator continues, and no crash is
    counted.
    """
    clock, store = RealClock(), new_store(RealClock())
    async with ApiServer(store) as server:
        port = int(server.url.rpartition(":")[2])
        credentials = await Credentials.load(clock, str(server.kubeconfig(tmp_path / "config")))
        cluster = LiveCluster(ApiClient(credentials, clock=clock, meters=Meters()), credentials)
        await cluster.create()
        cluster.nodes("n1")
        async with cluster.operators():
            await Seen(cluster, "nt-default").until(count_is(1))
            await server.stop()
            async with ApiServer(store, port=port) as other:
                other.kubeconfig(tmp_path / "config")
                await cluster.client._refresh(force=False)  # as it does by itself every minute
                await cluster.health.wait_for("starting", restarts=0)
                await cluster.change_spec()
                seen = Seen(cluster, "nt-default")
                await seen.until(lambda one: one["status"]["observedGeneration"] == 2)
        await cluster.client.close()


async def test_a_watch_that_is_cut_or_fell_behind_goes_on(tmp_path: Path):
    """After cut connections, and a 410 for a watch that is too late, new changes are handled.

    No crash.
    """
    clock, store = RealClock(), new_store(RealClock())
    async with ApiServer(store) as server:
        credentials = await Credentials.load(clock, str(server.kubeconfig(tmp_path / "config")))
        cluster = LiveCluster(ApiClient(credentials, clock=clock, meters=Meters()), credentials)
        await cluster.create()
        cluster.nodes("n1")
        kind = BY_KIND["NetworkTopology"]
        resource = store.kinds.find(kind.group, kind.version, kind.plural)
        assert resource is not None

        def changed(generation: int) -> Callable[[Json], bool]:
            return lambda one: one.get("status", {}).get("observedGeneration") == generation

        async with cluster.operators():
            await Seen(cluster, "nt-default").until(changed(1))
            old = store.get(resource, "default", "nt-default").obj
            # Written and forgotten without an await between: no watcher can have read it.
            new = {**old, "spec": {**old["spec"], "weights": old["spec"]["weights"] * 2}}
            store.update(resource, new)
            store.forget_history()
            await Seen(cluster, "nt-default").until(changed(2))

            await server.stop()
            new = {**store.get(resource, "default", "nt-default").obj, "spec": old["spec"]}
            store.update(resource, new)
            await server.start()
            await Seen(cluster, "nt-default").until(changed(3))
        (record,) = cluster.health.records.values()
        await cluster.client.close()

    assert 0 == record.restarts
