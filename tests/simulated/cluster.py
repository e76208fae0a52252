"""Two replicas of the real daemon, one store, and a network between them, with virtual time.

The daemon is the product's own except for the client, `Wiring`, and the solver, which answers in
this process. One seed makes one run.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from math import inf
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.config import Loaded, default_config
from scheduler.intree import registry
from scheduler.sandbox.kinds.kinds import PODS, RELEASES
from scheduler.sandbox.start import new_store
from tests.simulated.audit import IN_FLIGHT_S, PROTECTED, Audit
from tests.simulated.groupcapacity import POD_GROUP, at_most, members
from tests.simulated.history import History
from tests.simulated.invariants import Breach, BrokenError, Invariant
from tests.simulated.network import Wiring
from tests.simulated.replica import Replica
from tests.simulated.setting import Setting
from tests.unit.kube.memoryapi import LoopClock

# This module runs on a loop with virtual time: its delays cost nothing.
pytestmark = pytest.mark.looptime

SEEN = "PodScheduled"
# The status of a PodGroup without a written condition.
NOT_SCHEDULED = ("", "Pending", "PreScheduling", "Scheduling")
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
Object = dict[str, Any]
# Files are read here and not while a loop runs: the definitions of kinds, the plugins.
REGISTRY = registry()
LOADED = default_config(REGISTRY)
for release in RELEASES:
    new_store(LoopClock(), release=release)
PLAIN = Setting()
# The check interval in a quiet cluster, and an API server's retention of events.
GLANCE_S = 30.0
EVENTS_LIVE_S = 3600.0


class SimulatedCluster:
    """The store, its watchers, and the replicas."""

    def __init__(self, seed: int, setting: Setting = PLAIN) -> None:
        self.random = Random(seed)
        self.clock = LoopClock()
        # The configuration of new processes; running ones keep theirs.
        self.setting = setting
        self.longest_lease_s = self.longest_backoff_s = 0.0
        self.store = new_store(
            self.clock, seed=seed, history=setting.history, release=setting.release
        )
        self.registry = REGISTRY
        self.history = History()
        self.audit = Audit(self.store, self.history, self.informed_until)
        # By the beginning of paths, or their end after a `*`.
        self.refusals: dict[str, tuple[Any, ...]] = {}
        self.writes: dict[str, int] = {}
        self._digest = sha256()
        # Pods in deletion, by namespace and name.
        self._ending: set[tuple[str, str]] = set()
        # The time of each event's last write, oldest first.
        self._events: dict[tuple[str, str], float] = {}
        self.store.listen(self._changed)
        # Users, controllers and kubelets have a connection of their own, without faults.
        self.outside = Wiring(self.store, Random(seed))
        self.replicas: list[Replica] = []
        self._number = 0
        self.looked: Callable[[], None] = lambda: None
        self._is_awake = asyncio.Event()
        self._is_awake.set()

    @property
    def loaded(self) -> Loaded:
        """Return the configuration of new processes."""
        return self.setting.loaded(LOADED)

    @asynccontextmanager
    async def running(self, replicas: int | None = None) -> AsyncIterator["SimulatedCluster"]:
        """Run so many replicas, or as many as the setting says, and the kubelets, until the block
        ends.
        """
        kubelets = asyncio.create_task(self._end_what_is_deleted())
        for _ in range(self.setting.replicas if replicas is None else replicas):
            self.add()
            await asyncio.sleep(1)
        try:
            yield self
        finally:
            kubelets.cancel()
            await asyncio.gather(kubelets, return_exceptions=True)
            for replica in list(self.replicas):
                await replica.kill()
                await replica.wiring.arrived()

    async def _end_what_is_deleted(self) -> None:
        """End deleted pods after some time, as kubelets do.

        And check which processes are up to date.
        """
        while True:
            await asyncio.sleep(1)
            await self._is_awake.wait()
            self._look()

    def _look(self) -> None:
        self.looked()
        for replica in self.replicas:
            self._ask(replica)
        for namespace, name in sorted(self._ending):
            self.remove_pod(name, namespace)

    async def rest(self, seconds: float) -> None:
        """Let time pass without events: checks are rarer, and time passes faster.

        Events expire after an hour, and an API server may drop its history.
        """
        until, forgets_at = self.clock.now() + seconds, self.clock.now()
        self._is_awake.clear()
        while (left_s := until - self.clock.now()) > 0:
            await asyncio.sleep(min(left_s, GLANCE_S))
            self._look()
            self._forget_events()
            await self.revive()
            if self.clock.now() - forgets_at >= self.setting.forgets_s:
                forgets_at = self.clock.now()
                self.store.forget_history()
        self._is_awake.set()

    def _forget_events(self) -> None:
        """Delete the events unchanged for an hour, as an API server does."""
        now = self.clock.now()
        for key, seen_at in list(self._events.items()):
            if now - seen_at < EVENTS_LIVE_S:
                break  # they are in the order of their last changes
            namespace, name = key
            self.outside.remove(f"/api/v1/namespaces/{namespace}/events/{name}")

    def add(self) -> Replica:
        """Start another replica."""
        self._number += 1
        self.longest_lease_s = max(self.longest_lease_s, self.setting.lease.duration_s)
        self.longest_backoff_s = max(self.longest_backoff_s, self.setting.backoff[1])
        replica = Replica(self, self._number)
        self.replicas.append(replica)
        replica.start()
        return replica

    async def revive(self) -> None:
        """Restart ended processes, as a Deployment would."""
        for replica in list(self.replicas):
            if replica.task is not None and replica.task.done():
                if fault := replica.fault():
                    self.history.broken.append(Breach(Invariant.ENDS, self.clock.now(), fault))
                self.replicas.remove(replica)
                await replica.wiring.arrived()
                self.add()

    def informed_until(self, number: int) -> float:
        """Return the time up to which a process has received all events, in seconds since the
        epoch.
        """
        replica = next((one for one in self.replicas if one.number == number), None)
        if replica is None:
            return float("-inf")
        self._ask(replica)
        return replica.informed_at

    def _ask(self, replica: Replica) -> None:
        """Record whether a process is up to date now.

        A process that is up to date again receives all missed events at once, and has a moment to
        process them.
        """
        flows, now = replica.wiring.flows, self.clock.now()
        replica.most_flows = max(replica.most_flows, len(flows))
        is_whole = len(flows) == replica.most_flows and not any(flow.is_dead for flow in flows)
        if not is_whole or self.refusals or replica.wiring.is_cut_off:
            replica.whole_since = inf
            return
        replica.whole_since = min(replica.whole_since, now)
        if now - replica.whole_since >= IN_FLIGHT_S:
            replica.informed_at = now

    def refusal(self, method: str, path: str) -> Any:
        """Return a request's planned fault, by the beginning or the end of its path.

        With a method before the path it applies to that method alone.
        """
        for part, accidents in self.refusals.items():
            if part.startswith("*"):
                is_meant = path.endswith(part[1:])
            else:
                is_meant = path.startswith(part) or f"{method} {path}".startswith(part)
            if is_meant:
                return self.random.choice(accidents)
        return None

    # Actions of users and controllers

    def node(self, name: str, cpu: str = "8", pods: str = "110", **labels: str) -> None:
        """Add a node."""
        capacity = {"cpu": cpu, "memory": "64Gi", "pods": pods}
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
        self.outside.put("/api/v1/nodes", {"metadata": meta, "status": status})

    def resize(self, name: str, cpu: str) -> None:
        """Change a node's allocatable amounts; its pods stay."""
        capacity = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        self.outside.change(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": capacity}})

    def pod(self, name: str, cpu: str = "1", namespace: str = "default", **more: Any) -> str:
        """Create a pending pod; return its uid."""
        resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
        spec = {
            "schedulerName": "trellis",
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            **more.pop("spec", {}),
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        meta = {"name": name, "namespace": namespace, **more}
        made = self.outside.put(path, {"metadata": meta, "spec": spec})
        return str(made["metadata"]["uid"])

    def claim(self, namespace: str, name: str, storage_class: str) -> None:
        """Add a claim of one gibibyte."""
        spec = {
            "storageClassName": storage_class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self.outside.put(path, {"metadata": {"name": name}, "spec": spec})

    def condition(self, name: str, namespace: str = "default") -> Object:
        """Return the PodScheduled condition of a pod, empty when it has none."""
        pod = self.outside.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        found = pod["status"].get("conditions", ())
        return next((one for one in found if one["type"] == "PodScheduled"), {})

    def foreign(self, name: str, node: str, cpu: str = "1") -> None:
        """Create a pod bound by another client."""
        self.pod(name, cpu, spec={"nodeName": node})

    def gang(self, name: str, size: int = 8, cpu: str = "1") -> None:
        """Add a PodGroup and its members."""
        self.group(name, size)
        for number in range(size):
            self.pod(f"{name}-{number}", cpu, labels={POD_GROUP: name})

    def group(self, name: str, size: int) -> None:
        """Add a PodGroup if it is not there."""
        if self.outside.get(f"{POD_GROUPS}/{name}") is None:
            spec = {"metadata": {"name": name}, "spec": {"minMember": size}}
            self.outside.put(POD_GROUPS, spec)

    def pods(self) -> dict[str, Object]:
        """Return all pods by uid, as they are now."""
        return {stored.obj["metadata"]["uid"]: stored.obj for stored in self.store.list(PODS)}

    def unbound(self) -> list[str]:
        """Return the pods without a node."""
        pods = (stored.obj for stored in self.store.list(PODS))
        return sorted(pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName"))

    def remove_pod(self, name: str, namespace: str = "default") -> None:
        """Delete a pod at once, if it exists."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        if self.outside.get(path) is not None:
            self.outside.remove(path)

    def protect(self) -> None:
        """Create a budget without allowed disruptions, and a class of pods that may preempt its
        pods.
        """
        spec = {"minAvailable": "100%", "selector": {"matchLabels": PROTECTED}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        self.outside.put(path, {"metadata": {"name": "protected"}, "spec": spec})
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        self.outside.put("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        patient = {"metadata": {"name": "patient"}, "value": 500, "preemptionPolicy": "Never"}
        self.outside.put("/apis/scheduling.k8s.io/v1/priorityclasses", patient)

    def is_settled(self, groups: dict[str, int]) -> bool:
        """Return whether a process leads, no group is partially bound, and no pending pod fits."""
        pods = self.pods()
        if self.partial(groups) or not any(one.leads for one in self.replicas):
            return False
        bound = {bound_now for bound_now in self.history.bound_pods if bound_now in pods}
        for name, size in groups.items():
            mine = members(pods, name)
            is_open = len(mine) >= size and not any(one["metadata"]["uid"] in bound for one in mine)
            if is_open and at_most(self.history, pods, name) >= size:
                return False
        waiting = [
            pod
            for pod in pods.values()
            if not pod["spec"].get("nodeName")
            and not pod["metadata"].get("labels", {}).get(POD_GROUP)
        ]
        if any(self.history.fits(pod) for pod in waiting):
            return False
        urgent = (pod for pod in waiting if pod["spec"].get("priority", 0) > 0)
        return not any(next(self.audit.without_budgets(pod), "") for pod in urgent)

    def idle(self) -> list[Breach]:
        """Return the processes with requests in flight that have never led."""
        found = []
        for one in self.replicas:
            engine = one.daemon.engine
            has_led = self.audit.has_led(one.number) or engine.is_leading
            if not has_led and (len(engine.bindings) or len(engine.preemptions)):
                what = f"{one.number} has never led, and has binds or evictions in flight"
                found.append(Breach(Invariant.ONE, self.clock.now(), what))
        return found

    def deviations(self) -> list[Breach]:
        """Return the deviations from the required final state: conditions, the leader's state,
        leftovers.
        """
        now, found = self.clock.now(), list[Breach]()

        def deviates(invariant: Invariant, what: str) -> None:
            found.append(Breach(invariant, now, what))

        pods = self.pods()
        leaders = [one for one in self.replicas if one.leads]
        if len(leaders) != 1:
            deviates(Invariant.ONE, f"{len(leaders)} lead")
        waiting = {uid: pod for uid, pod in pods.items() if not pod["spec"].get("nodeName")}
        for uid, pod in waiting.items():
            if uid in self.audit.unreported:
                continue
            reported = (
                one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"
            )
            if not any(one["status"] == "False" and one.get("message") for one in reported):
                deviates(Invariant.REPORTED, f"{pod['metadata']['name']} waits without a condition")
        for name, stated in self._whole_and_silent(pods):
            deviates(
                Invariant.GROUP_REPORTED, f"{name} is complete, and its PodGroup reports {stated!r}"
            )
        for one in leaders:
            engine = one.daemon.engine
            bound_now = {placed.pod.metadata.uid: placed.node for placed in engine.cluster.pods}
            if bound_now != {uid: there.node for uid, there in self.history.bound_pods.items()}:
                deviates(Invariant.BOOKS, f"{one.number} counts other pods on nodes")
            for name, row in engine.cluster.table.rows.items():
                used = self.history.used(name)
                for resource in ("cpu", "memory", "pods"):
                    if engine.cluster.table.requested(resource)[row] != used.get(resource, 0):
                        deviates(
                            Invariant.BOOKS, f"{one.number} counts another {resource} on {name}"
                        )
            if set(engine.cluster.table.rows) != set(self.history.nodes):
                deviates(Invariant.BOOKS, f"{one.number} knows other nodes")
            if {queued.uid for queued in engine.queues} != set(waiting):
                deviates(Invariant.BOOKS, f"{one.number} has other pods in its queues than wait")
            if one.is_busy:
                deviates(Invariant.LEFT, f"{one.number} has work left over")
        return found

    def _whole_and_silent(self, pods: dict[str, Object]) -> Iterator[tuple[str, str]]:
        """Yield the complete PodGroups without a Scheduled condition, and their message.

        Pods bound by other clients, or created with a node, are not counted; nor are those whose
        status was overwritten by a write without an answer, which a kubelet would correct.
        """
        bound: Counter[str] = Counter()
        for uid, pod in pods.items():
            stated = (c["status"] for c in pod["status"].get("conditions", ()) if c["type"] == SEEN)
            is_ours = uid in self.history.waited - self.history.foreign
            if uid in self.history.bound_pods and is_ours and next(stated, "") == "True":
                bound[(pod["metadata"].get("labels") or {}).get(POD_GROUP, "")] += 1
        for group in (self.outside.get(POD_GROUPS) or {"items": ()})["items"]:
            name, stated = group["metadata"]["name"], (group.get("status") or {}).get("phase", "")
            is_whole = bound[name] >= group["spec"].get("minMember", 0) > 0
            if is_whole and stated in NOT_SCHEDULED and name not in self.audit.unreported:
                yield name, stated

    def partial(self, groups: dict[str, int]) -> list[str]:
        """Return the partially bound groups, without excused ones.

        A group whose capacity others were free to use is partial until there is capacity for the
        rest.
        """
        bound_now = {
            name: size for name, size in groups.items() if name not in self.audit.partially_evicted
        }
        pods = self.pods()
        return [
            name
            for name in self.history.partial(bound_now, POD_GROUP, pods)
            if name not in self.audit.deprived
            or at_most(self.history, pods, name) >= bound_now[name]
        ]

    async def until(self, holds: Any, timeout_s: float = 120.0) -> float:
        """Advance the time until a condition holds; return the virtual seconds that this took."""
        began = self.clock.now()
        while not holds():
            if self.clock.now() - began >= timeout_s:
                what = f"in {timeout_s:.0f} s it does not come true; unbound: {self.unbound()[:20]}"
                raise BrokenError([*self.history.broken, Breach(Invariant.LIVENESS, began, what)])
            await asyncio.sleep(0.25)
        return self.clock.now() - began

    async def pass_time(self, seconds: float) -> None:
        """Advance the time."""
        await asyncio.sleep(seconds)

    @property
    def digest(self) -> str:
        """Return a digest of all writes so far, byte for byte and in order, with their times."""
        return self._digest.hexdigest()

    def _changed(self, resource: Any, change: Any) -> None:
        seen = (self.clock.now(), resource.kind, change.type, change.stored.obj)
        self._digest.update(msgspec.json.encode(seen, order="sorted"))
        if resource.kind == "Pod":
            meta = change.stored.obj["metadata"]
            is_ending = change.type != "DELETED" and "deletionTimestamp" in meta
            (self._ending.add if is_ending else self._ending.discard)(
                (meta["namespace"], meta["name"])
            )
        elif resource.kind == "Event":
            meta = change.stored.obj["metadata"]
            key = (meta["namespace"], meta["name"])
            self._events.pop(key, None)
            if change.type != "DELETED":
                self._events[key] = self.clock.now()
        self.writes[resource.kind] = self.writes.get(resource.kind, 0) + 1
        self.history.take(resource.kind, change.type, change.stored.obj, self.clock.now())
        self.audit.take(resource.kind, change.type, change.stored.obj, self.clock.now())
