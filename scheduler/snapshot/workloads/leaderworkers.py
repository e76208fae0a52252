"""LeaderWorkerSets: groups of one leader and its workers."""

from collections.abc import Iterator
from typing import Final

from scheduler.controlplane.templates import pod_maker
from scheduler.snapshot.workloads.exclusive import asked_of_groups, in_group
from scheduler.snapshot.workloads.found import (
    FoundWorkload,
    Plain,
    SnapshotSurroundings,
    count_of,
    named,
    part_of,
    template_of,
)

_LWS: Final = "leaderworkerset.sigs.k8s.io"


def leader_workers(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the missing leaders and workers of all groups."""
    spec = workload.spec
    inner = part_of(spec, "leaderWorkerTemplate", "spec")
    field = "spec.leaderWorkerTemplate"
    size = count_of(inner, "size", field, 1)
    workers = template_of(inner, field, "workerTemplate")
    leader = template_of(inner, field, "leaderTemplate") if inner.get("leaderTemplate") else workers
    annotations = part_of(workload.meta, "annotations", "metadata")
    annotations = asked_of_groups(spec, annotations)
    exclusive = {k: v for k, v in annotations.items() if k.startswith(f"{_LWS}/")}
    taken = around.pods.names.get(workload.namespace, set())
    reference = workload.reference()
    for group in range(count_of(spec, "replicas", "spec", 1)):
        for worker in range(size):
            name = f"{workload.name}-{group}" + (f"-{worker}" if worker else "")
            if name in taken:
                continue
            made = named(
                pod_maker(workers if worker else leader, reference)(), workload.namespace, name
            )
            made["metadata"]["labels"] |= {
                f"{_LWS}/name": workload.name,
                f"{_LWS}/group-index": str(group),
                f"{_LWS}/worker-index": str(worker),
            }
            made["metadata"]["annotations"] |= exclusive | {f"{_LWS}/size": str(size)}
            in_group(made, f"{workload.name}-{group}", worker, size, inner, exclusive)
            yield made
