"""The status that a kubelet of Kubernetes 1.36 writes for a pod, built from the pod and its
lifecycle stage.

Pure functions, called once per write by `kubelet.py`. Conditions keep the time of their last
transition, and conditions of others (PodScheduled, DisruptionTarget, readiness gates) stay as they
are.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from scheduler.base.clock import rfc3339
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.nodes.podlifecycle import LifeStage

_Row: TypeAlias = tuple[str, bool, str, str]

_OWN: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_WELL: Final[tuple[_Row, ...]] = tuple((kind, True, "", "") for kind in _OWN)


def status_of(
    pod: Object,
    stage: LifeStage,
    *,
    started: str,
    now: str,
    host_ip: str,
    pod_ip: str,
    exit_code: int = 0,
) -> Object:
    """Return the whole new status; `started` and `now` are RFC 3339."""
    old = pod.get("status") or {}
    status: Object = {
        **old,
        "phase": _PHASES[stage.step],
        "conditions": _conditions(pod, old, stage, now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": started,
    }
    generation = pod["metadata"].get("generation")
    if generation is not None:
        status["observedGeneration"] = generation
    if stage.step != "waiting":
        status["podIP"] = pod_ip
        status["podIPs"] = [{"ip": pod_ip}]
    spec, uid = pod["spec"], pod["metadata"]["uid"]
    state = _container_state(stage, exit_code)
    restarted = _last_state(stage, exit_code)
    status["containerStatuses"] = [
        _container(container, uid, number, state, restarted, stage)
        for number, container in enumerate(spec["containers"])
    ]
    if spec.get("initContainers"):
        status["initContainerStatuses"] = _init_statuses(spec["initContainers"], uid, stage)
    if spec.get("resources"):
        status["resources"] = spec["resources"]
        if spec["resources"].get("requests"):
            status["allocatedResources"] = spec["resources"]["requests"]
    return status


_PHASES: Final = {
    "waiting": "Pending",
    "running": "Running",
    "succeeded": "Succeeded",
    "failed": "Failed",
}


@lru_cache(maxsize=256)
def _stamp_of(second: int) -> str:
    return rfc3339(second)


def stamp(now: float) -> str:
    """Return the moment as RFC 3339; thousands of pods share the same second."""
    return _stamp_of(int(now))


def without_readiness(pod: Object, now: str) -> Object:
    """Return the status of a pod whose node is lost: Ready is False, all else unchanged."""
    status = pod.get("status") or {}
    conditions = [
        {**condition, "status": "False", "lastTransitionTime": now, "reason": "NodeNotReady"}
        if condition["type"] == "Ready" and condition["status"] == "True"
        else condition
        for condition in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions} if conditions else status


def _conditions(pod: Object, old: Object, stage: LifeStage, now: str) -> list[Object]:
    current: dict[str, Object] = {
        condition["type"]: condition for condition in old.get("conditions") or ()
    }
    rows = (
        _WELL
        if stage.ready and not pod["spec"].get("readinessGates")
        else _rows(pod, stage, current)
    )
    generation = pod["metadata"].get("generation")
    found = [_condition(current.get(row[0]), row, now, generation) for row in rows]
    found += [condition for kind, condition in current.items() if kind not in _OWN]
    return found


def _rows(pod: Object, stage: LifeStage, current: dict[str, Object]) -> tuple[_Row, ...]:
    ended = stage.step in ("succeeded", "failed")
    reason = {"succeeded": "PodCompleted", "failed": "PodFailed"}.get(stage.step, "")
    well = stage.ready and not ended
    message = ""
    if not well and not ended:
        names = " ".join(container["name"] for container in pod["spec"]["containers"])
        reason, message = "ContainersNotReady", f"containers with unready status: [{names}]"
    waits = stage.step == "waiting" and bool(pod["spec"].get("initContainers"))
    why_init = "ContainersNotInitialized" if waits else ""
    if stage.step == "succeeded":
        why_init = reason
    missing = _missing_gates(pod["spec"], current) if well else ""
    ready: _Row = ("Ready", well, reason, message)
    if missing:
        ready = ("Ready", False, "ReadinessGatesNotReady", missing)
    return (
        ("PodReadyToStartContainers", stage.step == "running", "", ""),
        ("Initialized", not waits, why_init, ""),
        ready,
        ("ContainersReady", well, reason, message),
    )


def _missing_gates(spec: Object, current: dict[str, Object]) -> str:
    gates = spec.get("readinessGates")
    if not gates:
        return ""
    texts = []
    for gate in gates:
        kind = gate["conditionType"]
        found = current.get(kind)
        if found is None:
            texts.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found["status"] != "True":
            texts.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {found["status"]}'
            )
    return texts[0] if len(texts) == 1 else (f"[{', '.join(texts)}]" if texts else "")


def _condition(old: Object | None, row: _Row, now: str, generation: int | None) -> Object:
    kind, holds, reason, message = row
    status = "True" if holds else "False"
    since = old["lastTransitionTime"] if old and old["status"] == status else now
    condition: Object = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    if generation is not None:
        condition["observedGeneration"] = generation
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _container_state(stage: LifeStage, exit_code: int) -> Object:
    if stage.step == "running":
        return {"running": {"startedAt": stamp(stage.since)}}
    if stage.step == "waiting":
        return {"waiting": {"reason": "ContainerCreating"}}
    return _terminated(stage.began, stage.since, exit_code)


def _last_state(stage: LifeStage, exit_code: int) -> Object:
    if not stage.restarts:
        return {}
    return _terminated(stage.began, stage.since, exit_code)


def _terminated(began: float, finished: float, exit_code: int) -> Object:
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": rfc3339(began),
            "finishedAt": rfc3339(finished),
        }
    }


def _container(
    container: Object, uid: str, number: int, state: Object, last: Object, stage: LifeStage
) -> Object:
    running = stage.step == "running"
    image = container.get("image", "")
    status: Object = {
        "name": container["name"],
        "state": state,
        "lastState": last,
        "ready": running and stage.ready,
        "restartCount": stage.restarts,
        "image": image,
        "imageID": "",
        "started": running,
    }
    if stage.step == "waiting":
        return status
    status["containerID"] = _container_id(uid, number, stage.restarts)
    status["imageID"] = f"sandbox://{image}"
    if running:
        _add_resources(status, container)
    return status


def _add_resources(status: Object, container: Object) -> None:
    resources: Any = container.get("resources")
    status["resources"] = resources or {}
    requests = resources.get("requests") if resources else None
    if requests:
        status["allocatedResources"] = requests


def _container_id(uid: str, number: int, restarts: int) -> str:
    return f"containerd://{uid.replace('-', '')}{number:016x}{restarts:016x}"


def _init_statuses(containers: Sequence[Object], uid: str, stage: LifeStage) -> list[Object]:
    found = []
    for number, container in enumerate(containers):
        is_sidecar = container.get("restartPolicy") == "Always"
        runs = stage.step == "running" and is_sidecar
        image = container.get("image", "")
        status: Object = {
            "name": container["name"],
            "state": _init_state(stage, is_sidecar=is_sidecar),
            "lastState": {},
            "ready": runs or (stage.step != "waiting" and not is_sidecar),
            "restartCount": 0,
            "image": image,
            "imageID": "",
            "started": runs,
        }
        if stage.step != "waiting":
            status["containerID"] = _container_id(uid, 1000 + number, 0)
            status["imageID"] = f"sandbox://{image}"
            if runs:
                _add_resources(status, container)
        found.append(status)
    return found


def _init_state(stage: LifeStage, *, is_sidecar: bool) -> Object:
    if stage.step == "waiting":
        return {"waiting": {"reason": "PodInitializing"}}
    if not is_sidecar:
        return _terminated(stage.began, stage.began, 0)
    if stage.step == "running":
        return {"running": {"startedAt": stamp(stage.began)}}
    return _terminated(stage.began, stage.since, 0)
