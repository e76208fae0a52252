"""Job → pods: completion indexes, and the PodGroup of a `spec.scheduling` (Kubernetes 1.37)."""

from typing import Any, Final

from scheduler.controlplane.objects import Object, containers

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_VARIABLE: Final = "JOB_COMPLETION_INDEX"
# The fields that a PodGroup has in common with a Job's `spec.scheduling`.
_OF_GROUP: Final = ("schedulingConstraints", "disruptionMode", "resourceClaims")


def missing_pods(spec: Object, succeeded: int, active: int) -> int:
    """Return how many pods a Job lacks, negative when it has too many."""
    wanted = int(spec.get("parallelism", 1))
    completions = spec.get("completions")
    if completions is not None:
        wanted = min(wanted, completions - succeeded)
    elif succeeded:
        wanted = active  # a work queue: after the first success no new pods
    return wanted - active


def give_index(pod: Object, job: str, index: int) -> None:
    """Add the fields that an Indexed Job writes into the pod of an index."""
    meta, spec = pod["metadata"], pod["spec"]
    meta["generateName"] = f"{job}-{index}-"
    for part in ("annotations", "labels"):
        meta[part] = {**(meta.get(part) or {}), COMPLETION_INDEX: str(index)}
    spec.setdefault("hostname", f"{job}-{index}")
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    for container in containers(spec):
        existing = container.setdefault("env", [])
        if not any(entry["name"] == _VARIABLE for entry in existing):
            existing.append({"name": _VARIABLE, "valueFrom": source})


def group_spec(spec: Object) -> Object | None:
    """Return the spec of the PodGroup of a Job's pods, or None.

    A gang without a minimum needs all pods that run at a time.
    """
    scheduling: Any = spec.get("scheduling") or {}
    policy = scheduling.get("schedulingPolicy")
    pod = spec["template"]["spec"]
    if not policy or pod.get("schedulingGroup"):
        return None
    if "gang" in policy:
        least = (policy["gang"] or {}).get("minCount") or spec.get("parallelism", 1)
        policy = {"gang": {"minCount": least}}
    made = {"schedulingPolicy": policy} | {
        key: scheduling[key] for key in _OF_GROUP if scheduling.get(key)
    }
    if pod.get("priorityClassName"):
        made["priorityClassName"] = pod["priorityClassName"]
    return made


def read_indexes(text: str, completions: int) -> set[int]:
    """Return the indexes below `completions` in a Job's `status.completedIndexes`, like `0,2-5`."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found.update(range(int(low), min(int(high or low), completions - 1) + 1))
    return found
