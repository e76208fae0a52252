"""Jobs, CronJobs and JobSets: pods that run to completion."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from scheduler.controlplane.defaults import name_job_pods
from scheduler.controlplane.jobs import (
    COMPLETION_INDEX,
    JOB_NAME,
    give_index,
    group_spec,
    missing_pods,
    read_indexes,
)
from scheduler.controlplane.objects import derived_uid
from scheduler.controlplane.templates import pod_maker
from scheduler.objects.pod import Pod
from scheduler.snapshot.workloads.exclusive import in_job
from scheduler.snapshot.workloads.found import (
    FoundWorkload,
    Plain,
    SnapshotSurroundings,
    count_of,
    list_of,
    named,
    part_of,
    template_of,
)
from scheduler.snapshot.workloads.replicas import defaulted

_JOBSET: Final = "jobset.sigs.k8s.io"
_ALPHA: Final = "alpha.jobset.sigs.k8s.io/"


def jobs(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield a Job's missing pods, and the PodGroup of a Job with `spec.scheduling`."""
    scheduling = group_spec(workload.spec)
    if scheduling is None:
        yield from _pods(workload, around)
        return
    own = around.pods.of("Job", workload.owner)
    groups = (pod.spec.scheduling_group for pod in own)
    name = next((group.pod_group_name for group in groups if group is not None), "")
    if not name:
        name = workload.name
        yield {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": workload.namespace},
            "spec": scheduling,
        }
    for made in _pods(workload, around):
        made["spec"]["schedulingGroup"] = {"podGroupName": name}
        yield made


def cron_jobs(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the pods of a given CronJob's next run; a CronJob of the cluster has none now."""
    if not workload.is_given or workload.spec.get("suspend"):
        return
    template = part_of(workload.spec, "jobTemplate", "spec")
    around.notices.append(f"{workload.title}: the pods of one run are placed")
    yield from jobs(_job(workload, f"{workload.name}-next", template), around)


def job_sets(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the pods of all Jobs of a JobSet."""
    spec = workload.spec
    if spec.get("suspend"):
        return
    annotations = part_of(workload.meta, "annotations", "metadata")
    exclusive = {k: v for k, v in annotations.items() if k.startswith(_ALPHA)}
    for index, replicated in enumerate(list_of(spec, "replicatedJobs", "spec")):
        field = f"spec.replicatedJobs[{index}]"
        group = str(replicated.get("name"))
        template = part_of(replicated, "template", field)
        template_of(part_of(template, "spec", f"{field}.template"), f"{field}.template.spec")
        own = part_of(part_of(template, "metadata", field), "annotations", f"{field}.metadata")
        all_annotations = exclusive | {k: v for k, v in own.items() if k.startswith(_ALPHA)}
        for number in range(count_of(replicated, "replicas", field, 1)):
            name = f"{workload.name}-{group}-{number}"
            labels = {
                f"{_JOBSET}/jobset-name": workload.name,
                f"{_JOBSET}/replicatedjob-name": group,
                f"{_JOBSET}/job-index": str(number),
            }
            for made in _pods(_job(workload, name, template), around):
                made["metadata"]["labels"] |= labels
                made["metadata"]["annotations"] |= all_annotations
                in_job(made, name, all_annotations)
                yield made


def _job(workload: FoundWorkload, name: str, template: Plain) -> FoundWorkload:
    """Return the Job that a CronJob or a JobSet creates."""
    meta = {"name": name, "namespace": workload.namespace}
    raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": template.get("spec")}
    return FoundWorkload(
        workload.where, "Job", defaulted("jobs.batch", raw), is_given=workload.is_given
    )


def _pods(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the pods that a Job lacks now."""
    spec = workload.spec
    if spec.get("suspend"):
        return
    template_of(spec, "spec")
    count_of(spec, "parallelism", "spec", 1)
    count_of(spec, "completions", "spec", 1)
    status = part_of(workload.raw, "status", "")
    active = around.pods.of("Job", workload.owner)
    missing = missing_pods(spec, count_of(status, "succeeded", "status", 0), len(active))
    if missing <= 0:
        return
    make = pod_maker(_labelled(workload), workload.reference())
    names = around.numbered(workload.namespace, workload.name)
    if spec.get("completionMode") != "Indexed":
        for name in islice(names, missing):
            yield named(make(), workload.namespace, name)
        return
    completions = spec.get("completions") or 0
    done = read_indexes(str(status.get("completedIndexes") or ""), completions)
    taken = {*map(_index, active), *done}
    free = (index for index in range(completions) if index not in taken)
    for index in islice(free, missing):
        made = make()
        give_index(made, workload.name, index)
        name = around.free_name(workload.namespace, f"{workload.name}-{index}")
        yield named(made, workload.namespace, name)


def _labelled(workload: FoundWorkload) -> Plain:
    """Return a Job's template with the labels that the API server adds."""
    uid = workload.meta.get("uid") or derived_uid("/".join(workload.key))
    meta: Any = {"name": workload.name, "uid": uid}
    job = {"metadata": meta, "spec": {**workload.spec}}
    template = workload.spec["template"]
    job["spec"]["template"] = {**template, "metadata": {**(template.get("metadata") or {})}}
    name_job_pods(job)
    labelled: Plain = job["spec"]["template"]
    labelled["metadata"]["labels"].setdefault(JOB_NAME, workload.name)
    return labelled


def _index(pod: Pod) -> int:
    text = pod.metadata.labels.get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else -1
