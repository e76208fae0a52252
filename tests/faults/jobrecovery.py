"""`JobRecovery`: groups of real Jobs, whose pods the sandbox's Job controller makes and replaces.

A Job of Kubernetes 1.37 with `spec.scheduling` has a PodGroup of the controller's; a JobSet's pods
are of several Jobs, and the scheduler derives their group from the JobSet. Pods finish, fail and
are lost in any order; the process dies or fails over to a standby. If nodes have capacity for all,
the pods that the controllers want exist and are bound.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from scheduler.base.clock import ManualClock
from scheduler.config import load
from scheduler.controlplane.jobs import missing_pods
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.objects.groups.jobs import JobSet
from scheduler.objects.groups.podgroup import WorkloadGroup
from scheduler.objects.pod import Pod
from scheduler.sandbox.controllers.workloads.job import Jobs
from scheduler.sandbox.controllers.workqueue import ControllerLoop
from scheduler.sandbox.kinds.kinds import JOBS, POD_GROUPS_1_37, PODS
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.collection import Stored
from scheduler.sandbox.store.store import Deletion
from tests.faults.recovery import NODES, RECOVERY_KINDS
from tests.faults.test_group_lifecycle import Killer
from tests.property.engines import REGISTRY
from tests.property.making import SCHEDULER, make_node, with_meta
from tests.property.rig import START

Object = dict[str, Any]
GROUP = "PodGroup.v1beta1"
CONTROLLED = ("Job", "JobSet")
MOST_PODS = 6
_JOBSET = "jobset.sigs.k8s.io/jobset-name"
_CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: {SCHEDULER}
  pluginConfig: [{{name: ClusterTopologyPlacementGroup, args: {{derive: [JobSet]}}}}]
"""
# The longest pause of the Job controller after failures, in seconds, and a bit.
_PAUSE_S = 700.0


def deriving() -> Engine:
    """Return an engine whose profile derives groups from JobSets."""
    loaded = load(_CONFIG, file="c.yaml", registry=REGISTRY)
    return Engine(loaded.profiles, REGISTRY, settings=engine_settings(loaded))


def _job(name: str, labels: Object, **spec: Any) -> Object:
    """Return a Job whose pods request one CPU each; it never fails as a whole."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"schedulerName": SCHEDULER, "restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"metadata": {"name": name}, "spec": {"backoffLimit": 999, "template": template, **spec}}


class JobRecovery(Killer):
    """One Job or JobSet; its controllers' store owns Jobs, pods and PodGroups.

    The model API server, which the engine watches, copies them from the store, and the store gets
    the pods' states.
    """

    def __init__(self, source: str, random: Random) -> None:
        self.source, self.random = source, random
        self.clock = ManualClock(START)
        self.store = new_store(self.clock, seed=1, with_crds=False, release="1.37")
        self.turns = ControllerLoop(self.store, [Jobs(self.store)], strict=True)
        self.jobs = list(self._jobs())
        super().__init__(
            is_hot=random.random() < 0.5, kinds=(*RECOVERY_KINDS, "JobSet"), make=deriving
        )
        self.add_nodes()
        if source == "JobSet":
            replicated = [
                {"name": f"r{at}", "template": {"spec": one["spec"]}}
                for at, one in enumerate(self.jobs)
            ]
            meta = {"name": "s", "namespace": "default", "uid": "uid-s"}
            raw = {"metadata": meta, "spec": {"replicatedJobs": replicated}}
            self.api.put("JobSet", msgspec.convert(raw, JobSet))
        self.create_jobs()

    def _jobs(self) -> Iterator[Object]:
        random = self.random
        if self.source == "JobSet":
            for at in range(random.randint(1, 3)):
                size = random.randint(1, 2)
                spec = {"parallelism": size, "completions": size, "completionMode": "Indexed"}
                yield _job(f"s-r{at}-0", {_JOBSET: "s"}, **spec)
            return
        parallelism = random.randint(1, 4)
        spec = {"parallelism": parallelism}
        if random.random() < 0.8:
            spec["completions"] = parallelism + random.randrange(4)
            if random.random() < 0.5:
                spec["completionMode"] = "Indexed"
        gang = {"minCount": random.randint(1, parallelism)} if random.random() < 0.5 else {}
        yield _job("j", {}, scheduling={"schedulingPolicy": {"gang": gang}}, **spec)

    # Between the two servers

    def control(self) -> None:
        """Run the controllers until they rest, and copy their objects to the model API server."""
        self.clock.set(max(self.now, self.clock.now()))
        self.turns.tick()
        for one in self.store.list(PODS, "default"):
            if "deletionTimestamp" in one.obj["metadata"]:
                self.drop(one.name)  # its kubelet has ended it
        for group in self.store.list(POD_GROUPS_1_37, "default"):
            self._put_group(group)
        stored = {one.uid: one for one in self.store.list(PODS, "default")}
        for pod in list(self.api.pods.values()):
            if pod.metadata.uid not in stored:
                self.api.remove("Pod", pod.key)
        known = {pod.metadata.uid for pod in (*self.api.pods.values(), *self.api.finished.values())}
        for uid, one in stored.items():
            if uid not in known:
                made = msgspec.convert(one.obj, Pod, strict=False)
                self.api.put("Pod", with_meta(made, creation_timestamp=None))

    def _put_group(self, stored: Stored) -> None:
        made = msgspec.convert(stored.obj, WorkloadGroup)
        known = self.api.objects[GROUP].get(stored.key)
        if known is None or known.spec != made.spec:
            status = made.status if known is None else known.status
            self.api.put(GROUP, msgspec.structs.replace(made, status=status))

    def report(self) -> None:
        """Report to the store where pods run."""
        for pod in self.api.pods.values():
            one = self.store.find(PODS, "default", pod.metadata.name)
            if one is not None and pod.spec.node_name and not one.obj["spec"].get("nodeName"):
                spec = one.obj["spec"] | {"nodeName": pod.spec.node_name}
                status = (one.obj.get("status") or {}) | {"phase": "Running"}
                self.store.replace(PODS, one, one.obj | {"spec": spec, "status": status})

    def live(self) -> None:
        """Run the scheduler and the controllers until both are idle."""
        self.control()
        super().live()
        self.report()
        self.control()

    # Events

    def create_jobs(self) -> None:
        """Create the Jobs, in any order."""
        for job in self.random.sample(self.jobs, len(self.jobs)):
            self.store.create(JOBS, job, "default")
            if self.random.random() < 0.5:
                self.control()
        self.control()

    def restart_all(self) -> None:
        """Delete all Jobs and create them again, as the controller of JobSets does on a failure."""
        if self.source == "JobSet":
            for one in self.store.list(PODS, "default"):
                self.drop(one.name)
            for job in self.store.list(JOBS, "default"):
                self.store.delete(JOBS, "default", job.name, Deletion(propagation="Background"))
            for key in list(self.api.finished):
                self.api.collect(key)
            self.create_jobs()

    def resize(self) -> None:
        """Change the parallelism of the Job; its group needs no more pods than may exist."""
        if self.source == "Job":
            job = self.store.get(JOBS, "default", "j").obj
            spec = job["spec"]
            least = spec["scheduling"]["schedulingPolicy"]["gang"].get("minCount", 1)
            most = spec.get("completions", 4)
            wanted = self.random.randint(least, max(least, min(4, most)))
            self.store.update(JOBS, job | {"spec": spec | {"parallelism": wanted}})

    def finish(self, phase: str) -> None:
        """Finish a running pod, with success or failure."""
        running = [pod for pod in self.api.pods.values() if pod.spec.node_name]
        if running:
            pod = self.random.choice(running)
            self.report()
            self.api.finish(pod.key, phase)
            one = self.store.get(PODS, "default", pod.metadata.name)
            status = (one.obj.get("status") or {}) | {"phase": phase}
            self.store.replace(PODS, one, one.obj | {"status": status})

    def drop(self, name: str) -> None:
        """Delete a pod at once, on both servers."""
        self.api.remove("Pod", f"default/{name}")
        if self.store.find(PODS, "default", name) is not None:
            self.store.delete(PODS, "default", name, Deletion(grace_period_s=0))

    def lose(self) -> None:
        """Delete a pod, running or pending."""
        if self.api.pods:
            self.drop(self.random.choice(list(self.api.pods.values())).metadata.name)

    def lose_node(self) -> None:
        """Delete a node with all its pods."""
        name = self.random.choice(NODES)
        self.api.remove("Node", name)
        for pod in list(self.api.pods.values()):
            if pod.spec.node_name == name:
                self.drop(pod.metadata.name)

    def add_nodes(self) -> None:
        """Add all nodes, with capacity for all pods together."""
        for name in NODES:
            if name not in self.api.nodes:
                self.api.put("Node", make_node(name, cpu=1 + MOST_PODS // len(NODES)))

    def succeed(self) -> None:
        """Fail over to another process, which has the server's state."""
        for kind in self.kinds:
            self.watch(kind)
        super().succeed()

    def happen(self) -> None:
        """Cause one event, and proceed until nothing changes, or not that far."""
        move = self.random.choice(
            (
                lambda: self.finish("Succeeded"),
                lambda: self.finish("Failed"),
                self.lose,
                self.lose,
                self.lose_node,
                self.add_nodes,
                self.control,
                self.control,
                self.resize,
                self.restart_all,
                self.succeed,
            )
        )
        move()
        if self.random.random() < 0.6:
            self.live()
            self.pass_time(self.random.choice((0.5, 6.0, 70.0, _PAUSE_S)))

    def rest(self) -> None:
        """Restore all nodes, and proceed until nothing changes."""
        self.add_nodes()
        for _ in range(3):
            self.live()
            self.pass_time(_PAUSE_S)
        self.live()

    def check(self, when: str) -> None:
        """Check that the pods that the Jobs want exist and are bound."""
        assert [] == self.faults
        waiting = {
            key: pod.condition("PodScheduled")
            for key, pod in self.api.pods.items()
            if not pod.spec.node_name
        }
        assert {} == waiting, f"{when} pods wait"
        for job in self.store.list(JOBS, "default"):
            status = job.obj.get("status") or {}
            is_over = any(one["status"] == "True" for one in status.get("conditions") or ())
            lacking = missing_pods(
                job.obj["spec"], status.get("succeeded", 0), status.get("active", 0)
            )
            assert is_over or lacking <= 0, f"{when} {job.name} lacks {lacking} pods: {status}"


def recovered_job(source: str, seed: int) -> JobRecovery:
    """Return a lifecycle at its end: every pod that its Jobs want is bound, also after a
    restart.
    """
    rig = JobRecovery(source, Random(f"job recovery {source} {seed}"))
    rig.rest()
    rig.check("at its start")
    for _ in range(rig.random.randint(3, 12)):
        rig.happen()
    rig.rest()
    rig.check("at its end")
    rig.succeed()
    rig.rest()
    rig.check("after a restart")
    return rig
