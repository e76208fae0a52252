"""Workload objects from which groups are derived: only the fields that determine their pods."""

import math
import re
from typing import Final

from scheduler.objects.meta import Int32, Object, ObjectMeta

_PERCENT: Final = re.compile(r"\d{1,4}%")


class JobSpec(Object, frozen=True):
    """How many pods of a Job run at a time, and whether they have indexes."""

    parallelism: Int32 = 1
    completions: Int32 | None = None
    completion_mode: str = "NonIndexed"


class Job(Object, frozen=True):
    """A Job of batch/v1."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class JobTemplate(Object, frozen=True):
    """The Job that a JobSet makes."""

    spec: JobSpec = JobSpec()


class DependsOn(Object, frozen=True):
    """A replicated job that has to be ready or complete before."""

    name: str = ""


class ReplicatedJob(Object, frozen=True):
    """A number of identical Jobs of a JobSet."""

    name: str = ""
    replicas: Int32 = 1
    template: JobTemplate = JobTemplate()
    depends_on: tuple[DependsOn, ...] = ()


class StartupPolicy(Object, frozen=True):
    """The order in which replicated jobs start."""

    startup_policy_order: str = "AnyOrder"


class JobSetSpec(Object, frozen=True):
    """The Jobs of a JobSet."""

    replicated_jobs: tuple[ReplicatedJob, ...] = ()
    startup_policy: StartupPolicy = StartupPolicy()


class JobSet(Object, frozen=True):
    """A JobSet of jobset.x-k8s.io."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()


class LeaderWorkerTemplate(Object, frozen=True):
    """The pods of one group: a leader and workers."""

    size: Int32 = 1


class RollingUpdate(Object, frozen=True):
    """How many groups more than `replicas` an update may create, as a number or a percentage."""

    max_surge: Int32 | str = 0


class RolloutStrategy(Object, frozen=True):
    """How groups are replaced."""

    rolling_update_configuration: RollingUpdate = RollingUpdate()


class LeaderWorkerSetSpec(Object, frozen=True):
    """A number of identical groups."""

    replicas: Int32 = 1
    leader_worker_template: LeaderWorkerTemplate = LeaderWorkerTemplate()
    rollout_strategy: RolloutStrategy = RolloutStrategy()
    startup_policy: str = "LeaderCreated"

    @property
    def surge(self) -> int:
        """Return how many groups more than `replicas` may exist, rounded up as its controller
        does.
        """
        most = self.rollout_strategy.rolling_update_configuration.max_surge
        if isinstance(most, int):
            return max(0, most)
        if not _PERCENT.fullmatch(most):
            return 0
        return math.ceil(max(0, self.replicas) * int(most[:-1]) / 100)


class LeaderWorkerSet(Object, frozen=True):
    """A LeaderWorkerSet of leaderworkerset.x-k8s.io."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaderWorkerSetSpec = LeaderWorkerSetSpec()


class RayWorkerGroup(Object, frozen=True):
    """Replicas of `num_of_hosts` hosts each."""

    replicas: Int32 | None = None
    min_replicas: Int32 = 0
    num_of_hosts: Int32 = 1


class RayClusterSpec(Object, frozen=True):
    """The groups of workers beside the head; with autoscaling they start with their minimum."""

    enable_in_tree_autoscaling: bool = False
    worker_group_specs: tuple[RayWorkerGroup, ...] = ()


class RayCluster(Object, frozen=True):
    """A RayCluster of ray.io."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RayClusterSpec = RayClusterSpec()


class MPIReplicas(Object, frozen=True):
    """A number of launchers or workers."""

    replicas: Int32 = 1


class MPIJobSpec(Object, frozen=True):
    """Launcher and workers of an MPIJob."""

    mpi_replica_specs: dict[str, MPIReplicas] = {}
    launcher_creation_policy: str = "AtStartup"


class MPIJob(Object, frozen=True):
    """An MPIJob of kubeflow.org."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MPIJobSpec = MPIJobSpec()
