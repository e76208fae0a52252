"""The same cases on the sandbox over HTTPS and on a real kube-apiserver: both accept our
requests.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.engine.effects import (
    Answer,
    Bind,
    Event,
    Evict,
    Listed,
    Look,
    Record,
    Seen,
    SetStatus,
    Watched,
)
from scheduler.kube.api import MERGE
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.lease import Election
from scheduler.kube.leaserecord import LeaseSettings
from scheduler.kube.watching.watch import Reflector, WatchSettings
from scheduler.kube.writing.effects import Executor
from scheduler.kube.writing.fence import Fence
from scheduler.kube.writing.recorder import Recorder
from scheduler.kube.writing.sender import Sender
from scheduler.objects.kinds import POD, Kind
from scheduler.objects.pod import PodCondition
from scheduler.objects.workloads import Namespace
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.start import new_store
from tests.apiserver.realcluster import POWERLESS_TOKEN, RealCluster
from tests.unit.kube.waiting import wait_until

NOW = RealClock().now()
_numbers = itertools.count(1)


class SimulatedCluster:
    """A server, a client, a namespace of its own, and the package's components running on them."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.client = client
        self.ns = namespace
        self.clock = RealClock()
        self.meters = Meters()
        self.random = Random(1)
        self.events: list[Event] = []
        self.fence = Fence(self.clock)
        sender = Sender(client, self.fence, self.random, self.meters)
        self.recorder = Recorder(sender, "host", meters=self.meters)
        self.executor = Executor(
            client,
            self.events.append,
            self.recorder,
            fence=self.fence,
            clock=self.clock,
            random=self.random,
            meters=self.meters,
        )

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.ns}/pods"

    async def ask(self, method: str, path: str, body: Any = None, kind: str = MERGE) -> Any:
        """Send a request of the test itself; it must succeed."""
        content_type = kind if method == "PATCH" else "application/json"
        data = b"" if body is None else msgspec.json.encode(body)
        response = await self.client.request(method, path, data, content_type=content_type)
        assert response.ok, (method, path, response)
        return msgspec.json.decode(response.body)

    async def pod(self, name: str) -> Any:
        spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
        return await self.ask("POST", self.pods, {"metadata": {"name": name}, "spec": spec})

    async def node(self, name: str) -> None:
        await self.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})

    async def answers(self, count: int) -> dict[int, Answer]:
        """Wait for this many answers and return all by effect."""
        await wait_until(lambda: len(self._answers()) >= count)
        return {answer.effect: answer for answer in self._answers()}

    def _answers(self) -> list[Answer]:
        return [event for event in self.events if isinstance(event, Answer)]

    def reflector(self, kind: Kind, **settings: Any) -> Reflector:
        return Reflector(
            kind,
            self.client,
            self.events.append,
            random=self.random,
            meters=self.meters,
            settings=WatchSettings(**settings),
        )


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def target(request: pytest.FixtureRequest) -> ApiServer | RealCluster:
    """Which server; made outside of the loop, since it reads files."""
    if request.param == "real":
        found: RealCluster = request.getfixturevalue("real_cluster")
        return found
    return ApiServer(new_store(RealClock(), with_crds=False))


@pytest.fixture
async def kubeconfig(target: ApiServer | RealCluster, tmp_path: Path) -> AsyncIterator[Path]:
    """Return its kubeconfig; the sandbox runs until the test ends."""
    if isinstance(target, RealCluster):
        yield target.kubeconfig
        return
    async with target:
        yield await asyncio.to_thread(target.kubeconfig, tmp_path / "kubeconfig")


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[SimulatedCluster]:
    """A namespace of its own on the server."""
    client = await ApiClient.connect(str(kubeconfig), clock=RealClock(), meters=Meters())
    cluster = SimulatedCluster(client, f"kube-{os.getpid()}-{next(_numbers)}")
    await cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": cluster.ns}})
    yield cluster
    await cluster.executor.close()
    # A real server serves other tests: none of them finds a pod of ours.
    await client.request("DELETE", cluster.pods, b'{"gracePeriodSeconds": 0}')
    await client.request("DELETE", f"/api/v1/namespaces/{cluster.ns}")
    await client.close()


@asynccontextmanager
async def at_work(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a task until the block ends."""
    task: asyncio.Task[None] = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_are_listed_in_pages_and_followed(cluster: SimulatedCluster):
    """The list is whole, each change arrives once, and a finished pod stays: it counts in its
    group.
    """
    for name in ("a", "b", "c", "d", "e"):
        await cluster.pod(name)

    def reported() -> list[str]:
        return [
            f"{event.verb} {event.object.metadata.name}"
            for event in cluster.events
            # How many steps a deletion takes is the server's business.
            if isinstance(event, Watched) and event.verb != "MODIFIED"
            if event.object.metadata.namespace == cluster.ns
        ]

    reflector = cluster.reflector(POD, page_limit=2)
    async with at_work(reflector.run()):
        await wait_until(lambda: reflector.is_synced)
        await cluster.pod("f")
        await cluster.ask("PATCH", f"{cluster.pods}/a/status", {"status": {"phase": "Succeeded"}})
        await cluster.ask("DELETE", f"{cluster.pods}/b?gracePeriodSeconds=0")
        await wait_until(lambda: "DELETED b" in reported())

    (listed,) = [event for event in cluster.events if isinstance(event, Listed)]
    names = [pod.metadata.name for pod in listed.objects if pod.metadata.namespace == cluster.ns]
    assert ["a", "b", "c", "d", "e"] == sorted(names)
    assert ["ADDED f", "DELETED b"] == reported()
    assert 0 == cluster.meters.watch_decode_errors.labels("Pod").value


async def test_a_version_from_the_future_does_not_stop_us(cluster: SimulatedCluster):
    """After a restore from a backup the server does not know our version: the kind is listed
    again.
    """
    await cluster.pod("a")
    reflector = cluster.reflector(POD, first_delay_s=0.01, silence_s=0.5)
    reflector._version = "999999999"
    async with at_work(reflector._follow()) as task:
        await wait_until(task.done)

    assert task.exception() is None


async def test_a_kind_is_picked_up_when_it_is_defined(cluster: SimulatedCluster):
    """Until it is defined the kind is empty; then its objects are reported."""
    group = f"g{os.getpid()}x{next(_numbers)}.example.com"
    kind = Kind("Gadget", group, "v1", "gadgets", Namespace, namespaced=False, required=False)
    reflector = cluster.reflector(kind, look_again_s=0.1)

    def lists() -> list[list[str]]:
        return [
            [obj.metadata.name for obj in event.objects]
            for event in cluster.events
            if isinstance(event, Listed)
        ]

    async with at_work(reflector.run()):
        await wait_until(lambda: lists() == [[]])
        await define(cluster, group)
        await wait_until(lambda: len(lists()) == 2)
        await cluster.ask(
            "POST",
            kind.path,
            {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "g"}},
        )
        await wait_until(lambda: any(isinstance(event, Watched) for event in cluster.events))
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await cluster.ask("DELETE", f"{definitions}/gadgets.{group}")

    assert [[], []] == lists()


async def test_a_closed_client_leaves_no_socket(kubeconfig: Path):
    """A closed client leaves no open socket, also after an abandoned watch."""
    client = await ApiClient.connect(str(kubeconfig), clock=RealClock(), meters=Meters())
    socket = None
    while socket is None:
        async with client.stream("/api/v1/pods?watch=1", silence_s=30) as watch:
            assert watch.head.ok
            opened: Any = watch
            connection = opened._opened.connection
            if connection is not None:  # a server may end a watch at once
                socket = connection.transport.get_extra_info("socket")
    await client.close()

    assert -1 == socket.fileno()


async def test_binds_and_their_refusals(cluster: SimulatedCluster):
    """Done, already bound, deleted, replaced: each with its code; a look-up returns the present
    state.
    """
    pod = await cluster.pod("a")
    await cluster.pod("b")
    uid = pod["metadata"]["uid"]
    cluster.executor.submit([Bind(1, cluster.ns, "a", uid, "some-node")])
    await cluster.answers(1)
    cluster.executor.submit(
        [
            Bind(2, cluster.ns, "a", uid, "other-node"),
            Bind(3, cluster.ns, "gone", uid, "some-node"),
            Bind(4, cluster.ns, "b", uid, "some-node"),
            Look(5, cluster.ns, "a"),
            Look(6, cluster.ns, "gone"),
        ]
    )
    answers = await cluster.answers(6)

    codes = {number: answer.code for number, answer in answers.items()}
    assert {1: 201, 2: 409, 3: 404, 4: 409, 5: 200, 6: 404} == codes
    assert Seen(uid, "some-node") == answers[5].body
    conflicts = {
        sample.labels[0]: sample.value for sample in cluster.meters.bind_conflicts.samples()
    }
    assert {"bound": 1, "gone": 1, "replaced": 1} == conflicts


async def test_a_status_is_written_and_cleared(cluster: SimulatedCluster):
    """The condition is stored as sent, the nomination is set and cleared, another uid is not
    touched.
    """
    pod = await cluster.pod("a")
    uid = pod["metadata"]["uid"]
    condition = PodCondition(
        type="PodScheduled",
        status="False",
        reason="Unschedulable",
        message="0/0 nodes are available: none.",
        observed_generation=1,
        last_transition_time="2026-01-01T00:00:00Z",
    )
    statuses = cluster.executor._statuses
    stored = []
    for effect in (
        SetStatus(cluster.ns, "a", uid, condition, "some-node"),
        SetStatus(cluster.ns, "a", uid, None, ""),
        SetStatus(cluster.ns, "a", "of-another", condition, "other-node"),
        SetStatus(cluster.ns, "gone", uid, condition),
    ):
        cluster.executor.submit([effect])
        await wait_until(lambda: statuses.write_queue.is_idle and statuses.refusals.is_idle)
        stored.append((await cluster.ask("GET", f"{cluster.pods}/a"))["status"])

    (written,) = [c for c in stored[0]["conditions"] if c["type"] == "PodScheduled"]
    assert {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/0 nodes are available: none.",
        "observedGeneration": 1,
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    } == written
    assert "some-node" == stored[0]["nominatedNodeName"]
    assert "nominatedNodeName" not in stored[1]
    assert stored[1] == stored[2] == stored[3]
    effects = cluster.meters.effects
    assert (2, 2) == (
        effects.labels("SetStatus", "ok").value,
        effects.labels("SetStatus", "gone").value,
    )
    assert [] == cluster.meters.effect_retries.samples()


async def test_a_victim_goes(cluster: SimulatedCluster):
    """Marked and deleted; a pod that took its name stays."""
    pod = await cluster.pod("a")
    await cluster.pod("b")
    cluster.executor.submit(
        [
            Evict(1, cluster.ns, "a", pod["metadata"]["uid"], "trellis: preempting"),
            Evict(2, cluster.ns, "b", "of-another", "trellis: preempting"),
        ]
    )
    answers = await cluster.answers(2)

    assert (200, 404) == (answers[1].code, answers[2].code)
    assert 404 == (await cluster.client.request("GET", f"{cluster.pods}/a")).code
    assert 200 == (await cluster.client.request("GET", f"{cluster.pods}/b")).code


async def test_events_are_taken(cluster: SimulatedCluster):
    """Created, counted up as a series, with a related pod, with the longest note and name."""
    pod = await cluster.pod("a")
    meta = pod["metadata"]
    failed = Record(
        namespace=cluster.ns,
        name="a",
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        scheduler_name="trellis",
        type="Warning",
        reason="FailedScheduling",
        action="Scheduling",
        note="0/1 nodes are available: 1 no.",
        now=NOW,
    )
    replace = msgspec.structs.replace
    records = [
        failed,
        replace(failed, now=NOW + 1),
        replace(failed, reason="Preempted", related=(cluster.ns, "b", "uid-b"), note="x" * 3000),
        replace(failed, name="a" * 253, uid="u2", reason="Scheduled", action="Binding"),
    ]
    recorder = cluster.recorder
    for record in records:
        cluster.executor.submit([record])
        await wait_until(lambda: recorder.write_queue.is_idle and recorder.refusals.is_idle)
    cluster.recorder.put(replace(failed, namespace="no-such-namespace"))
    await wait_until(lambda: recorder.refusals.is_idle)
    path = f"/apis/events.k8s.io/v1/namespaces/{cluster.ns}/events"
    events = {e["reason"]: e for e in (await cluster.ask("GET", path))["items"]}

    assert {"FailedScheduling", "Preempted", "Scheduled"} == set(events)
    assert 2 == events["FailedScheduling"]["series"]["count"]
    assert "uid-b" == events["Preempted"]["related"]["uid"]
    assert 1024 == len(events["Preempted"]["note"])
    written = [cluster.meters.event_writes.labels(r).value for r in ("created", "series", "error")]
    assert [3, 1, 1] == written


async def test_a_lease_is_taken_kept_and_given_back(cluster: SimulatedCluster):
    """Of two candidates one leads, the other waits; when the first releases the lease the second
    leads soon.
    """
    candidates = [Candidate(cluster, f"candidate-{number}") for number in range(2)]
    async with at_work(candidates[0].election.run()) as first:
        await wait_until(lambda: candidates[0].election.is_leader)
        async with at_work(candidates[1].election.run()):
            path = f"/apis/coordination.k8s.io/v1/namespaces/{cluster.ns}/leases/it"
            started = await cluster.ask("GET", path)
            renewed = started
            while renewed["spec"]["renewTime"] == started["spec"]["renewTime"]:
                renewed = await cluster.ask("GET", path)
            assert not candidates[1].election.is_leader
            candidates[0].election.leave()
            await wait_until(first.done)
            await wait_until(lambda: candidates[1].election.is_leader)
            taken = await cluster.ask("GET", path)
        events = await cluster.ask("GET", f"/api/v1/namespaces/{cluster.ns}/events")

    assert first.exception() is None
    assert ("candidate-0", "candidate-1") == (
        started["spec"]["holderIdentity"],
        taken["spec"]["holderIdentity"],
    )
    assert 1 == taken["spec"]["leaseTransitions"]
    stated = {event["message"] for event in events["items"]}
    assert {"candidate-0 became leader", "candidate-0 stopped leading"} <= stated


async def test_a_user_without_the_right_gets_the_reason(
    target: ApiServer | RealCluster, cluster: SimulatedCluster, tmp_path: Path
):
    """A wrong token is 401, a user without rights 403: values both, with the server's message."""
    config = await asyncio.to_thread(_kubeconfig_of, cluster, target, tmp_path, "no-such-token")
    foreign = await ApiClient.connect(str(config), clock=RealClock(), meters=Meters())
    refused = await foreign.request("GET", "/api/v1/pods")
    async with foreign.stream("/api/v1/pods?watch=1", silence_s=5) as watch:
        refused_watch = watch.head
    await foreign.close()
    assert [(401, "Unauthorized")] * 2 == [(r.code, r.reason) for r in (refused, refused_watch)]

    if isinstance(target, RealCluster):
        no_rights = await ApiClient.connect(
            str(target.powerless_kubeconfig), clock=RealClock(), meters=Meters()
        )
        forbidden = await no_rights.request("GET", "/api/v1/pods")
        await no_rights.close()
        assert (403, "Forbidden") == (forbidden.code, forbidden.reason)
        assert POWERLESS_TOKEN


class Candidate:
    """Takes part in the election on the lease `it` of a cluster's namespace."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.election = Election(
            cluster.client,
            Fence(cluster.clock),
            LeaseSettings(cluster.ns, "it", name, lease_s=3, renew_deadline_s=2, retry_s=0.1),
            clock=cluster.clock,
            random=cluster.random,
            meters=Meters(),
            on_lead=lambda _has_predecessor: None,
            on_lost=lambda: None,
        )


def _kubeconfig_of(cluster: SimulatedCluster, target: Any, folder: Path, token: str) -> Path:
    del cluster
    if isinstance(target, ApiServer):
        return target.kubeconfig(folder / "other", token)
    text = target.kubeconfig.read_text()
    path = folder / "other"
    path.write_text(text.replace("token: admin-token", f"token: {token}"))
    return path


async def define(cluster: SimulatedCluster, group: str) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    await cluster.ask(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"gadgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Cluster",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
                "versions": [version],
            },
        },
    )
