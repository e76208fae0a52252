"""One run: one workload, one scheduler, one fresh control plane; the results as plain numbers.

The operations of the workload are carried out in order while an observer records when pods become
bound and a sampler records the resource use of each process. The run ends when all pods are bound
and no event was written for a while, so that deferred work is included.
"""

import json
import os
from contextlib import AsyncExitStack
from time import monotonic

import msgspec

from tests.apiserver.patience import pause, until
from tests.apiserver.realcluster import RealCluster, start_cluster
from tests.differential.claimcontroller import make_claims
from tests.differential.kinds import collection
from tests.perf.observer import Observer
from tests.perf.usage import Sampler
from tests.perf.workload import (
    Barrier,
    Churn,
    CreateDevices,
    CreateNodes,
    CreatePods,
    Manifest,
    StartScheduler,
    Workload,
    encoded,
    laid_over,
)
from tests.real.api import Api
from tests.real.background import background
from tests.real.exposition import parse
from tests.real.schedulers import Running, Scheduler

BARRIER_S = 900.0
# The events are complete if their number is unchanged for this long.
QUIET_S = 2.0
EVENTS = "/apis/events.k8s.io/v1/events"
POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"


class Outcome(msgspec.Struct, frozen=True, rename="camel"):
    """The results of a run; times in monotonic seconds.

    `bound` are the times at which the measured pods were seen bound, ascending. The phase begins
    with the creation of measured pods, or with the scheduler's start if it finds a backlog.
    """

    phase_start: float
    scheduler_start: float
    settled: float
    bound: list[float]
    events: int
    other_pods: int
    watches_cut_off: int
    observer_restarts: int
    sampler: Sampler
    metrics: str
    log_tail: str


class Contest:
    """The state of a running measurement."""

    def __init__(self, cluster: RealCluster, scheduler: Scheduler, api: Api) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.api = api
        self.sampler = Sampler(
            {
                "etcd": cluster.etcd.pid,
                "kube-apiserver": cluster.apiserver.pid,
                "bench": os.getpid(),
            }
        )
        # A sample at the edge of the measured phase avoids interpolation across it.
        self.observer = Observer(cluster, scheduler.encoding, self.sampler.sample)
        self.running: Running | None = None
        self.scheduler_start = self.phase_start = 0.0
        self.awaited = 0
        self.measured: list[str] = []
        self._namespaces = 0

    async def carry_out(self, workload: Workload, stack: AsyncExitStack) -> None:
        """Do all operations of the workload; churn ends with them."""
        async with AsyncExitStack() as churning:
            for op in workload.ops:
                match op:
                    case CreateNodes():
                        await self.api.create_all("/api/v1/nodes", encoded(op.manifests()))
                    case CreateDevices():
                        for manifest in op.manifests():
                            await self.api.expect("POST", collection(manifest["kind"]), manifest)
                    case CreatePods():
                        await self._create_pods(op)
                    case StartScheduler():
                        await self._start_scheduler(stack)
                    case Churn():
                        await churning.enter_async_context(background(self._churn(op)))
                    case Barrier():
                        await self._wait_bound()

    async def settle(self) -> tuple[int, float]:
        """Wait until no more events arrive; return their number and the time of the last one."""
        count, since = -1, monotonic()
        while monotonic() - since < QUIET_S:
            now = await self.api.count(EVENTS)
            if now != count:
                count, since = now, monotonic()
            await pause(0.1)
        return count, since

    async def _wait_bound(self) -> None:
        """Wait until all awaited pods are bound; a scheduler that ended ends the contest."""
        running, bound = self.running, self.observer.bound
        if running is None:
            raise ValueError("a barrier before the scheduler was started")

        def is_over() -> bool:
            has_ended = running.program.process.poll() is not None
            return has_ended or len(bound) >= self.awaited

        await until(is_over, f"{self.awaited} binds", BARRIER_S)
        if len(bound) < self.awaited:
            raise AssertionError(
                f"the scheduler ended, {len(bound)} of {self.awaited} pods are bound\n"
                f"{running.program.tail()}"
            )

    async def _start_scheduler(self, stack: AsyncExitStack) -> None:
        self.scheduler_start = monotonic()
        if self.measured:
            self.phase_start = self.scheduler_start
        self.running = stack.enter_context(self.scheduler.start(self.cluster))
        self.sampler.pids = {**self.sampler.pids, "scheduler": self.running.pid}
        if self.running.url and not self.measured:
            await self.running.wait_ready()

    async def _create_pods(self, op: CreatePods) -> None:
        if op.namespace:
            raise ValueError("named namespaces are for workloads that run in process")
        namespace = await self._new_namespace()
        bodies = encoded(op.manifests(self.scheduler.scheduler_name))
        if not op.skip_wait_to_completion:
            self.awaited += op.count
        if op.collect_metrics:
            self.measured += [f"{namespace}/pod-{number:05d}" for number in range(op.count)]
            self.sampler.sample()
            self.phase_start = monotonic()
        groups = encoded(op.groups())
        await self.api.create_all(POD_GROUPS.format(namespace), groups)
        templates = collection("ResourceClaimTemplate", namespace)
        for name, spec in op.claim_templates.items():
            body = {"metadata": {"name": name}, "spec": {"spec": spec}}
            await self.api.expect("POST", templates, body)
        await self.api.create_all(f"/api/v1/namespaces/{namespace}/pods", bodies)
        if op.claim_templates:
            pods, _ = await self.api.list(f"/api/v1/namespaces/{namespace}/pods")
            await self.api.each(self._make_claims, pods)

    async def _make_claims(self, pod: Manifest) -> None:
        await make_claims(self.api, pod)

    async def _new_namespace(self) -> str:
        name = f"bench-{self._namespaces}"
        self._namespaces += 1
        await self.api.expect("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    async def _churn(self, op: Churn) -> None:
        namespace = await self._new_namespace()
        manifests = op.manifests(self.scheduler.scheduler_name)
        kinds = [(_path(manifest["kind"], namespace), manifest) for manifest in manifests]
        number = 0
        while True:
            names = [f"churn-{number % op.number:05d}"] * len(kinds)
            for (path, manifest), name in zip(kinds, names, strict=True):
                body = laid_over(manifest, {"metadata": {"name": name}})
                await self.api.request("POST", path, json.dumps(body).encode())
            await pause(op.interval_milliseconds / 1000)
            if op.mode == "recreate":
                await self.api.delete_all(
                    f"{path}/{name}" for (path, _), name in zip(kinds, names, strict=True)
                )
            number += 1


async def run(workload: Workload, scheduler: Scheduler) -> Outcome:
    """Run a workload against a scheduler on a control plane of its own."""
    with start_cluster(name=f"bench-{scheduler.name}") as cluster:
        async with Api(cluster) as api, AsyncExitStack() as stack:
            contest = Contest(cluster, scheduler, api)
            _, version = await api.list("/api/v1/pods")
            await stack.enter_async_context(background(contest.observer.watch(version)))
            await stack.enter_async_context(background(contest.sampler.collect()))
            await contest.carry_out(workload, stack)
            events, settled = await contest.settle()
            contest.sampler.sample()
            return _outcome(contest, events, settled)


def _outcome(contest: Contest, events: int, settled: float) -> Outcome:
    _, apiserver = contest.cluster.request("GET", "/metrics")
    cut_off = parse(apiserver).get("apiserver_terminated_watchers_total")
    running = contest.running
    if running is None:
        raise ValueError("the workload never starts the scheduler")
    if running.program.process.poll() is not None:
        raise AssertionError(f"the scheduler ended\n{running.program.tail()}")
    bound = contest.observer.bound
    return Outcome(
        phase_start=contest.phase_start,
        scheduler_start=contest.scheduler_start,
        settled=settled,
        bound=sorted(bound[pod] for pod in contest.measured),
        events=events,
        other_pods=len(bound) - len(contest.measured),
        watches_cut_off=int(cut_off.value(resource="pods")) if cut_off else 0,
        observer_restarts=contest.observer.restarts,
        sampler=contest.sampler,
        metrics=running.get("/metrics") if running.url else "",
        log_tail=running.program.tail(5),
    )


def _path(kind: str, namespace: str) -> str:
    """Return where objects of a kind are created."""
    return {
        "Node": "/api/v1/nodes",
        "Pod": f"/api/v1/namespaces/{namespace}/pods",
        "Service": f"/api/v1/namespaces/{namespace}/services",
    }[kind]
