"""The jobs of a trace: the pods of one row or of one group, from arrival to the last end."""

from typing import Any

import msgspec

from scheduler.groups.sources.coscheduling import LABEL
from scheduler.objects.pod import Pod
from scheduler.simulate.traces.arrival import Arrival
from scheduler.simulate.traces.summary import Tally

GROUP_KIND = "PodGroup"
_GROUP_API = "scheduling.x-k8s.io/v1alpha1"


class Job(msgspec.Struct):
    """Pods that arrived together: `open` ones have not ended, `least` start as a gang."""

    tally: Tally
    began_s: float
    open: int = 0
    bound: int = 0
    least: int = 0
    # The PodGroup that was made for the row's gang.
    group: Any = None

    def count_bound(self, seconds: float) -> None:
        """Count one more bound pod."""
        self.bound += 1
        if self.least and self.bound == self.least:
            self.tally.gang_waits.append(seconds - self.began_s)


class Jobs:
    """Jobs by key: the number of a row, or `namespace/name` of a group."""

    def __init__(self) -> None:
        self._known: dict[str, Job] = {}
        # Minimum of the groups that the trace has, by `namespace/name`.
        self._least: dict[str, int] = {}

    def of(self, key: str) -> Job | None:
        """Return a job that has not ended."""
        return self._known.get(key)

    def describe(self, kind: str, obj: Any) -> None:
        """Take the minimum of a group from its object."""
        if kind == GROUP_KIND:
            meta = obj.metadata
            self._least[f"{meta.namespace}/{meta.name}"] = obj.spec.min_member

    def join(self, key: str, tally: Tally, seconds: float, least: int = 0) -> Job:
        """Add a pod to a job; the first one begins it."""
        job = self._known.get(key)
        if job is None:
            least = least or self._least.get(key, 0)
            job = self._known[key] = Job(tally, seconds, least=least)
            tally.jobs += 1
            tally.gangs += least > 0
        job.open += 1
        return job

    def leave(self, key: str, seconds: float, *, is_done: bool) -> Job | None:
        """Remove a pod from its job; return the job if that was its last one.

        A job one of whose pods was evicted never completes.
        """
        job = self._known.get(key)
        if job is None:
            return None
        job.open -= 1
        if not is_done:
            job.bound = -1
        if job.open:
            return None
        if job.bound >= 0:
            job.tally.completions.append(seconds - job.began_s)
        return self._known.pop(key)


def job_key(pod: Pod) -> str:
    """Return the key of the job of a pod of a manifest: its group, or itself."""
    meta = pod.metadata
    return f"{meta.namespace}/{meta.labels.get(LABEL, '') or meta.name}"


def gang_object(arrival: Arrival, name: str) -> dict[str, Any]:
    """Return the PodGroup of a row's gang."""
    return {
        "apiVersion": _GROUP_API,
        "kind": GROUP_KIND,
        "metadata": {"name": name, "namespace": arrival.namespace, "uid": name},
        "spec": {"minMember": arrival.gang},
    }


def gang_labels(arrival: Arrival, name: str) -> dict[str, str]:
    """Return the labels of a pod of a row."""
    return {LABEL: name} if arrival.gang else {}
