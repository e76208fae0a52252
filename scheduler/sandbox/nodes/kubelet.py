"""The simulated kubelets: bound pods start, run, end and stop, all through the store.

One controller serves all nodes. It observes every pod change, keeps the bound pods, and writes what
`podlifecycle` reports as due. A pod whose node is missing, or whose kubelet is stopped, waits; one
that exceeds the node's free capacity is rejected. With `lazy` no status is written (load tests of a
scheduler), only deletions are completed.
"""

from collections import defaultdict
from collections.abc import Callable

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import NODES, PODS
from scheduler.sandbox.nodes.alignment import REFUSED
from scheduler.sandbox.nodes.nodes import Machine, SimulatedNodes
from scheduler.sandbox.nodes.podfit import Amounts, requests_of
from scheduler.sandbox.nodes.podlifecycle import NEVER, LifePlan, SimulatedPace, plan_of, stage_at
from scheduler.sandbox.nodes.podstatus import stamp, status_of
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

_ENDED = ("Succeeded", "Failed")


class _Run(msgspec.Struct, eq=False):
    """One pod on one node, from binding until its deletion."""

    uid: str
    node: str
    machine: Machine | None = None
    address: str = ""
    plan: LifePlan | None = None
    started: float = 0.0
    stopping: float | None = None
    requests: Amounts | None = None


class Kubelets:
    """The controller that simulates the kubelets of all nodes."""

    def __init__(
        self,
        store: ObjectStore,
        nodes: SimulatedNodes,
        pace: SimulatedPace | None = None,
        *,
        lazy: bool = False,
        pods_changed: Callable[[str], object] = str,
    ) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._nodes = nodes
        self._pace = pace or SimulatedPace()
        self._lazy = lazy
        self._pods_changed = pods_changed
        self._runs: dict[str, _Run] = {}
        self._pods_of: dict[str, set[str]] = defaultdict(set)
        self._pods = store.collection(PODS).items

    def interests(self) -> list[Interest]:
        """Return its interests: pods, and nodes that are added or changed."""
        return [(PODS, self._observe_pod), (NODES, self._observe_node)]

    def act(self, key: str, now: float) -> None:
        """Advance one pod to the stage that is due at `now`."""
        stored, run = self._pods.get(key), self._runs.get(key)
        if stored is None or run is None:
            return
        machine = self._nodes.machines.get(run.node)
        if machine is None or not machine.alive:
            return
        pod = stored.obj
        if run.machine is not machine:
            self._settle(run, machine, pod, now)
        if run.requests is None and not self._lazy and not self._admit(stored, run, machine):
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._stop(stored, run, now)
        elif not self._lazy and (pod.get("status") or {}).get("phase") not in _ENDED:
            self._live(stored, run, now)

    def _observe_pod(self, change: StoreChange) -> None:
        pod = change.stored.obj
        node = pod["spec"].get("nodeName")
        if not node:
            return
        key = change.stored.key
        run = self._runs.get(key)
        if change.type == DELETED:
            if run is not None:
                self._forget(key, run)
            return
        uid = pod["metadata"]["uid"]
        if run is None or run.uid != uid:
            if run is not None:
                self._forget(key, run)
            self._runs[key] = _Run(uid, node)
            self._pods_of[node].add(key)
            self.work_queue.add(key)
        elif change.previous is None or _matters(pod, change.previous.obj):
            # The plan is read again: its annotations may have changed.
            run.plan = None
            self._count_anew(run, pod)
            self.work_queue.add(key)

    def _observe_node(self, change: StoreChange) -> None:
        name = change.stored.name
        pods = self._pods_of.get(name)
        if not pods:
            return
        previous = change.previous
        turned = previous is None or previous.obj["metadata"].get(
            "annotations"
        ) != change.stored.obj["metadata"].get("annotations")
        if change.type != DELETED and turned:
            for key in sorted(pods):
                self.work_queue.add(key)

    def _settle(self, run: _Run, machine: Machine, pod: Object, now: float) -> None:
        """Record a pod that its kubelet observes for the first time."""
        status = pod.get("status") or {}
        self._free(run)
        run.requests = None
        run.machine = machine
        started = parse_rfc3339(status.get("startTime"))
        run.started = now if started is None else started
        run.address = status.get("podIP") or ""

    def _admit(self, stored: Stored, run: _Run, machine: Machine) -> bool:
        """Admit the pod, or reject it permanently if the node lacks free capacity."""
        pod = stored.obj
        phase = (pod.get("status") or {}).get("phase")
        if phase in _ENDED:
            return True
        requests = requests_of(pod["spec"])
        node = self._store.find(NODES, "", run.node)
        allocatable = (node.obj.get("status") or {}).get("allocatable") if node else None
        lack = machine.usage.shortage(requests, allocatable or {}) if phase != "Running" else None
        if lack is None and machine.numa is not None:
            # A running pod keeps its resources.
            lack = None if machine.numa.admit(pod) or phase == "Running" else REFUSED
        if lack is None or "deletionTimestamp" in pod["metadata"]:
            run.requests = requests
            machine.usage.take(requests)
            self._pods_changed(run.node)
            return True
        status = {
            **(pod.get("status") or {}),
            "phase": "Failed",
            "startTime": stamp(run.started),
            **lack,
        }
        self._store.replace(PODS, stored, {**pod, "status": status})
        return False

    def _live(self, stored: Stored, run: _Run, now: float) -> None:
        pod = stored.obj
        plan = run.plan
        if plan is None:
            plan = run.plan = plan_of(pod, self._pace)
        machine = run.machine
        if machine is None:
            return
        stage = stage_at(plan, run.started, now)
        if not run.address and stage.step != "waiting":
            on_host = pod["spec"].get("hostNetwork")
            run.address = machine.address if on_host else machine.take_address()
        status = status_of(
            pod,
            stage,
            started=stamp(run.started),
            now=self._store.now(),
            host_ip=machine.address,
            pod_ip=run.address,
            exit_code=plan.exit_code,
        )
        self._store.replace(PODS, stored, {**pod, "status": status})
        if stage.step in ("succeeded", "failed"):
            self._free(run)
        elif stage.due != NEVER:
            self.work_queue.add_at(stored.key, stage.due)

    def _stop(self, stored: Stored, run: _Run, now: float) -> None:
        """Stop a deleted pod after its stop time, at the latest after its grace period."""
        if run.plan is None:
            run.plan = plan_of(stored.obj, self._pace)
        meta = stored.obj["metadata"]
        if meta.get("deletionGracePeriodSeconds") == 0 and meta.get("finalizers"):
            return
        runs = (stored.obj.get("status") or {}).get("phase") == "Running"
        if run.stopping is None:
            run.stopping = now
        due = run.stopping + (run.plan.stop_s if runs else 0.0)
        deadline = parse_rfc3339(meta["deletionTimestamp"])
        if deadline is not None:
            due = min(due, deadline)
        if now < due:
            self.work_queue.add_at(stored.key, due)
            return
        self._store.delete(
            PODS, stored.namespace, stored.name, Deletion(grace_period_s=0, uid=run.uid)
        )

    def _forget(self, key: str, run: _Run) -> None:
        del self._runs[key]
        pods = self._pods_of[run.node]
        pods.discard(key)
        if not pods:
            del self._pods_of[run.node]
        self._free(run)
        if run.machine is not None and run.address != run.machine.address:
            run.machine.give_back(run.address)

    @staticmethod
    def _count_anew(run: _Run, pod: Object) -> None:
        """Recompute a pod's amounts after a resize."""
        if run.machine is not None and run.requests:
            run.machine.usage.give_back(run.requests)
            run.requests = requests_of(pod["spec"])
            run.machine.usage.take(run.requests)

    def _free(self, run: _Run) -> None:
        """Release a pod's amounts on its node."""
        if run.machine is not None and run.requests:
            run.machine.usage.give_back(run.requests)
            run.requests = {}
            if run.machine.numa is not None:
                run.machine.numa.release(run.uid)
            self._pods_changed(run.node)


def _matters(new: Object, old: Object) -> bool:
    """Return whether the kubelet handles a change of a pod: all but most status writes."""
    meta, before = new["metadata"], old["metadata"]
    if meta.get("deletionTimestamp") != before.get("deletionTimestamp"):
        return True
    if meta.get("annotations") != before.get("annotations"):
        return True
    spec = new["spec"]
    if spec is not old["spec"] and spec != old["spec"]:
        return True
    return bool(spec.get("readinessGates")) and new.get("status") != old.get("status")
