"""Jobs: pods that run to completion, counted, in parallel, indexed, retried up to the back-off
limit.

Counts are stored in the status and, against counting twice, by pod uid in memory: unlike the real
controller it sets no finalizer on pods. `podFailurePolicy`, `successPolicy` and per-index back-off
limits are ignored.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.controlplane.jobs import COMPLETION_INDEX, give_index, missing_pods
from scheduler.controlplane.objects import controller_of
from scheduler.controlplane.replicasets import removal_rank
from scheduler.controlplane.templates import pod_maker
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers.events import WARNING, record
from scheduler.sandbox.controllers.ownership import (
    enqueue_self,
    is_deleted,
    reference_to,
    sorted_dependents,
)
from scheduler.sandbox.controllers.pods import condition_of, create_pod, phase, ready_since
from scheduler.sandbox.controllers.workloads import jobgroups
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import JOBS, PODS
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

_BATCH: Final = 50
_FIRST_PAUSE_S: Final = 10.0
_LAST_PAUSE_S: Final = 600.0
_NAME: Final = "job-controller"


class _Tally(msgspec.Struct, eq=False):
    """The results of a job's pods: uids already counted, indexes done, time of the last failure."""

    counted: set[str] = set()
    gone: set[str] = set()
    done: set[int] = set()
    failed_at: float = 0.0


class Jobs:
    """The controller of Jobs."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        self._tallies: dict[str, _Tally] = {}

    def interests(self) -> list[Interest]:
        """Jobs and pods."""
        return [(JOBS, enqueue_self(self.work_queue)), (PODS, self._observe_pod)]

    def act(self, key: str, now: float) -> None:
        """Count ended pods, end the job or create missing pods, write the status."""
        stored = self._store.collection(JOBS).items.get(key)
        if stored is None:
            return
        job = stored.obj
        if _ended(job) is not None:
            self._expire(stored, now)
            return
        tally = self._tallies.setdefault(stored.uid, _Tally())
        pods = sorted_dependents(self._store, job, PODS)
        status = dict(job.get("status") or {})
        if not job["spec"].get("suspend"):
            status.setdefault("startTime", self._store.now())
        self._count(job, pods, tally, status, now)
        active = [pod for pod in pods if not is_deleted(pod.obj) and phase(pod.obj) in _ACTIVE]
        verdict = _verdict(job, status, active, now)
        refusal = None
        if verdict is not None or job["spec"].get("suspend"):
            self._delete(active, tally)
            if verdict is not None:
                status["conditions"] = _end(verdict, status.get("conditions") or [], now)
                if verdict[0] == "Complete":
                    status["completionTime"] = self._store.now()
        elif not is_deleted(job):
            refusal = self._fill(key, job, pods, active, tally, status, now)
        self._set_suspended(job, status, now)
        self._write(stored, status)
        self._watch_deadline(key, job, status)
        if verdict is not None:
            self.work_queue.add(key)
        if refusal is not None:
            raise refusal

    def _observe_pod(self, change: StoreChange) -> None:
        owner = controller_of(change.stored.obj)
        if owner is None or owner["kind"] != JOBS.kind:
            return
        if change.type == DELETED:
            tally = self._tallies.get(owner["uid"])
            if tally is not None and change.stored.uid not in tally.counted:
                tally.gone.add(change.stored.uid)
        self.work_queue.add(f"{change.stored.namespace}/{owner['name']}")

    @staticmethod
    def _count(job: Object, pods: list[Stored], tally: _Tally, status: Object, now: float) -> None:
        """Add pods that ended since the last time to the counts of the status."""
        is_indexed = job["spec"].get("completionMode") == "Indexed"
        for pod in pods:
            if phase(pod.obj) not in ("Succeeded", "Failed") or pod.uid in tally.counted:
                continue
            tally.counted.add(pod.uid)
            if phase(pod.obj) == "Failed":
                status["failed"] = status.get("failed", 0) + 1
                tally.failed_at = now
            elif is_indexed:
                tally.done.add(_index_of(pod.obj))
            else:
                status["succeeded"] = status.get("succeeded", 0) + 1
        # A pod deleted before its end counts as failed, as an evicted pod of a real Job does.
        for uid in tally.gone - tally.counted:
            tally.counted.add(uid)
            status["failed"] = status.get("failed", 0) + 1
        tally.gone.clear()
        if is_indexed and tally.done:
            status["completedIndexes"] = written_indexes(tally.done)
            status["succeeded"] = len(tally.done)

    def _fill(
        self,
        key: str,
        job: Object,
        pods: list[Stored],
        active: list[Stored],
        tally: _Tally,
        status: Object,
        now: float,
    ) -> StatusError | None:
        """Create pods up to the parallelism, or remove the least useful ones of the surplus."""
        spec = job["spec"]
        # Also without pods to create: waiting pods may be enough for a smaller gang.
        group = jobgroups.group_of(self._store, job)
        missing = missing_pods(spec, status.get("succeeded", 0), len(active))
        if missing < 0:
            surplus = sorted(active, key=lambda pod: removal_rank(pod.obj, on_node=1))
            self._delete(surplus[:-missing], tally)
            return None
        if spec.get("podReplacementPolicy") == "Failed":
            missing -= sum(1 for pod in pods if is_deleted(pod.obj) and phase(pod.obj) in _ACTIVE)
        if missing <= 0:
            return None
        pause_s = _pause_s(status.get("failed", 0)) if tally.failed_at else 0.0
        if now < tally.failed_at + pause_s:
            self.work_queue.add_at(key, tally.failed_at + pause_s)
            return None
        if missing > _BATCH:
            self.work_queue.again(key)
        return self._create(job, group, min(missing, _BATCH), active, tally)

    def _create(
        self, job: Object, group: str, count: int, active: list[Stored], tally: _Tally
    ) -> StatusError | None:
        meta, spec = job["metadata"], job["spec"]
        make = pod_maker(spec["template"], reference_to(JOBS, job))
        is_indexed = spec.get("completionMode") == "Indexed"
        taken = tally.done | {_index_of(pod.obj) for pod in active} if is_indexed else set()
        free = iter(number for number in range(spec.get("completions") or 0) if number not in taken)
        for _ in range(count):
            pod = make()
            pod["metadata"]["generateName"] = meta["name"] + "-"
            if group:
                pod["spec"]["schedulingGroup"] = {"podGroupName": group}
            if is_indexed:
                number = next(free, None)
                if number is None:
                    return None
                give_index(pod, meta["name"], number)
            refusal = create_pod(self._store, job, _NAME, pod)
            if refusal is not None:
                return refusal
        return None

    def _delete(self, pods: list[Stored], tally: _Tally) -> None:
        for pod in pods:
            # Pods that the controller deletes itself have not failed.
            tally.counted.add(pod.uid)
            self._store.delete(PODS, pod.namespace, pod.name, Deletion(uid=pod.uid))

    @staticmethod
    def _set_suspended(job: Object, status: Object, now: float) -> None:
        conditions = list(status.get("conditions") or ())
        existing = next((found for found in conditions if found["type"] == "Suspended"), None)
        suspended = "True" if job["spec"].get("suspend") else "False"
        if (existing or {"status": "False"})["status"] == suspended:
            return
        words = (
            ("Job suspended", "JobSuspended")
            if suspended == "True"
            else ("Job resumed", "JobResumed")
        )
        fresh = _condition("Suspended", words[1], words[0], now) | {"status": suspended}
        status["conditions"] = [found for found in conditions if found is not existing] + [fresh]
        if suspended == "True":
            status.pop("startTime", None)

    def _watch_deadline(self, key: str, job: Object, status: Object) -> None:
        deadline_s = job["spec"].get("activeDeadlineSeconds")
        started = parse_rfc3339(status.get("startTime"))
        if deadline_s is not None and started is not None:
            self.work_queue.add_at(key, started + deadline_s)

    def _write(self, stored: Stored, status: Object) -> None:
        """Write the current counts of the pods."""
        live = sorted_dependents(self._store, stored.obj, PODS)
        active = [pod for pod in live if not is_deleted(pod.obj) and phase(pod.obj) in _ACTIVE]
        counts = {
            "active": len(active),
            "ready": sum(1 for pod in active if ready_since(pod.obj) is not None),
            "terminating": sum(1 for pod in live if is_deleted(pod.obj)),
        }
        status.update(counts)
        if not counts["active"]:
            del status["active"]
        status["uncountedTerminatedPods"] = {}
        current = self._store.get(JOBS, stored.namespace, stored.name).obj
        self._store.update(JOBS, {**current, "status": status}, subresource="status")
        ended = next((c for c in status.get("conditions") or () if c["type"] in _FINAL), None)
        if ended is not None:
            reason = "Completed" if ended["type"] == "Complete" else ended["reason"]
            kind = "Normal" if ended["type"] == "Complete" else WARNING
            text = ended.get("message") or "Job completed"
            record(self._store, current, _NAME, reason, text, kind)

    def _expire(self, stored: Stored, now: float) -> None:
        """Delete a finished job when its ttlSecondsAfterFinished is over."""
        ttl_s = stored.obj["spec"].get("ttlSecondsAfterFinished")
        condition = _ended(stored.obj)
        self._tallies.pop(stored.uid, None)
        if ttl_s is None or condition is None or is_deleted(stored.obj):
            return
        ended = parse_rfc3339(condition.get("lastTransitionTime")) or now
        if now < ended + ttl_s:
            self.work_queue.add_at(stored.key, ended + ttl_s)
            return
        options = Deletion(uid=stored.uid, propagation="Foreground")
        self._store.delete(JOBS, stored.namespace, stored.name, options)


_ACTIVE: Final = ("Pending", "Running", "Unknown")
_FINAL: Final = ("Complete", "Failed")


def _ended(job: Object) -> Object | None:
    found = condition_of(job, *_FINAL)
    return found if found is not None and found["status"] == "True" else None


def _verdict(
    job: Object, status: Object, active: list[Stored], now: float
) -> tuple[str, str, str] | None:
    """Return condition, reason and message of a finished job; None for an active one."""
    spec = job["spec"]
    limit = spec.get("backoffLimit", 6)
    if status.get("failed", 0) > limit or _restarts(spec, active) > limit:
        text = "Job has reached the specified backoff limit"
        return "Failed", "BackoffLimitExceeded", text
    deadline_s = spec.get("activeDeadlineSeconds")
    started = parse_rfc3339(status.get("startTime"))
    if deadline_s is not None and started is not None and now >= started + deadline_s:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    completions = spec.get("completions")
    succeeded = status.get("succeeded", 0)
    # Without completions it is a work queue: one success and no active pod.
    done = succeeded >= completions if completions is not None else succeeded and not active
    if done:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def _restarts(spec: Object, active: list[Stored]) -> int:
    """Return how often containers of running pods restarted, where that counts as a failure."""
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return 0
    return sum(
        container.get("restartCount", 0)
        for pod in active
        for container in (pod.obj.get("status") or {}).get("containerStatuses") or ()
    )


def _end(verdict: tuple[str, str, str], existing: list[Object], now: float) -> list[Object]:
    kind, reason, message = verdict
    first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    kept = [found for found in existing if found["type"] not in (first, kind)]
    return [*kept, *(_condition(each, reason, message, now) for each in (first, kind))]


def _condition(kind: str, reason: str, message: str, now: float) -> Object:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": rfc3339(now),
        "lastTransitionTime": rfc3339(now),
        "reason": reason,
        "message": message,
    }


def _pause_s(failures: int) -> float:
    return float(min(_FIRST_PAUSE_S * 2 ** max(0, min(failures, 10) - 1), _LAST_PAUSE_S))


def _index_of(pod: Object) -> int:
    """Return the completion index of a pod, -1 when it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else -1


def written_indexes(numbers: Iterable[int]) -> str:
    """Return completion indexes as a status shows them: `0,2-5`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
