"""A Deployment's status: counts over its ReplicaSets, and the conditions of `kubectl rollout
status`.

Pure functions; `deployment.py` writes the results.
"""

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.controlplane import rollout
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.pods import condition_of

_NO_DEADLINE = 2**31 - 1


def status_of(
    owner: Object, sets: list[Object], new: Object | None, now: float
) -> tuple[Object, float | None]:
    """Return the status at `now`, and when a progress deadline will be over (None: never)."""
    old = owner.get("status") or {}
    spec = owner["spec"]
    available = _sum(sets, "availableReplicas")
    wanted_in_all = sum(found["spec"].get("replicas", 1) for found in sets)
    status: Object = {
        "observedGeneration": owner["metadata"].get("generation", 1),
        "replicas": _sum(sets, "replicas"),
        "updatedReplicas": _sum([new], "replicas") if new else 0,
        "readyReplicas": _sum(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, wanted_in_all - available),
        "terminatingReplicas": _sum(sets, "terminatingReplicas"),
    }
    # kube-apiserver: counts of zero are left out of the object.
    status = {
        name: count
        for name, count in status.items()
        if count or name in ("observedGeneration", "terminatingReplicas")
    }
    if "collisionCount" in old:
        status["collisionCount"] = old["collisionCount"]
    current = {found["type"]: found for found in old.get("conditions") or ()}
    conditions = [_available(spec, available, current.get("Available"), now)]
    progress, due = _progress(owner, status, new, current.get("Progressing"), now)
    if progress is not None:
        conditions.append(progress)
    failure = _failure(sets, new)
    if failure is not None:
        conditions.append(failure)
    status["conditions"] = conditions
    return status, due


def is_complete(owner: Object) -> bool:
    """Return whether the status has every wanted pod new and available, and no old ones."""
    return _is_done(owner, owner.get("status") or {})


def _is_done(owner: Object, status: Object) -> bool:
    wanted = owner["spec"]["replicas"]
    counts = [status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")]
    observed = int(status.get("observedGeneration", 0))
    return counts == [wanted] * 3 and observed >= owner["metadata"].get("generation", 1)


def _available(spec: Object, available: int, old: Object | None, now: float) -> Object:
    _, unavailable = rollout.limits(spec)
    if available >= spec["replicas"] - unavailable:
        words = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        words = (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    return _condition("Available", words, old, now)


def _progress(
    owner: Object, status: Object, new: Object | None, old: Object | None, now: float
) -> tuple[Object | None, float | None]:
    """Return the Progressing condition, and when its deadline ends."""
    deadline_s = owner["spec"].get("progressDeadlineSeconds", 600)
    if deadline_s >= _NO_DEADLINE:
        return None, None
    if owner["spec"].get("paused"):
        words = ("Unknown", "DeploymentPaused", "Deployment is paused")
        return _condition("Progressing", words, old, now), None
    reason = (old or {}).get("reason", "")
    name = (new or owner)["metadata"]["name"]
    if _is_done(owner, status):
        words = (
            "True",
            "NewReplicaSetAvailable",
            f'ReplicaSet "{name}" has successfully progressed.',
        )
        return _condition("Progressing", words, old, now), None
    before = owner.get("status") or {}
    if old is None or reason in ("DeploymentPaused", "") or _restarts(old, before, status, name):
        words = ("True", "NewReplicaSetCreated", f'Created new replica set "{name}"')
        return _condition("Progressing", words, old, now), now + deadline_s
    if reason == "NewReplicaSetAvailable":
        # The rollout was complete: a scale or a lost pod does not begin another.
        return old, None
    if _moved(before, status):
        words = ("True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        fresh = _condition("Progressing", words, old, now)
        fresh["lastUpdateTime"] = rfc3339(now)
        return fresh, now + deadline_s
    since = parse_rfc3339(old.get("lastUpdateTime")) or now
    if now >= since + deadline_s:
        words = (
            "False",
            "ProgressDeadlineExceeded",
            f'ReplicaSet "{name}" has timed out progressing.',
        )
        return _condition("Progressing", words, old, now), None
    return old, since + deadline_s


def _restarts(old: Object, before: Object, status: Object, name: str) -> bool:
    """Return whether a finished (or failed) rollout was followed by a new template."""
    finished = old.get("reason") in ("NewReplicaSetAvailable", "ProgressDeadlineExceeded")
    return (
        finished
        and f'"{name}"' not in old.get("message", "")
        and status["observedGeneration"] >= before.get("observedGeneration", 0)
    )


def _moved(before: Object, status: Object) -> bool:
    def count(found: Object, name: str) -> int:
        return int(found.get(name, 0))

    def left(found: Object) -> int:
        return count(found, "replicas") - count(found, "updatedReplicas")

    return (
        count(status, "updatedReplicas") > count(before, "updatedReplicas")
        or left(status) < left(before)
        or count(status, "readyReplicas") > count(before, "readyReplicas")
        or count(status, "availableReplicas") > count(before, "availableReplicas")
    )


def _failure(sets: list[Object], new: Object | None) -> Object | None:
    for found in [new, *sets] if new else sets:
        condition = condition_of(found, "ReplicaFailure")
        if condition is not None:
            return {**condition, "lastUpdateTime": condition["lastTransitionTime"]}
    return None


def _condition(kind: str, words: tuple[str, str, str], old: Object | None, now: float) -> Object:
    status, reason, message = words
    if old and (old["status"], old.get("reason"), old.get("message")) == words:
        return dict(old)
    stamp = rfc3339(now)
    since = old["lastTransitionTime"] if old and old["status"] == status else stamp
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": stamp,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


def _sum(sets: list[Object], name: str) -> int:
    return sum((found.get("status") or {}).get(name, 0) for found in sets)
