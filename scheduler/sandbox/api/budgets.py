"""Evictions: deletions that a PodDisruptionBudget may reject.

The eviction subresource (`subresources.py`) calls `evict`. A controller writes the allowed
disruptions into the budget's status; an eviction uses one, as in kube-apiserver, and answers 429
when none is left.
"""

from typing import Final

import msgspec

from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.status import (
    Cause,
    Object,
    StatusError,
    bad_request,
    failure,
    too_many_requests,
)
from scheduler.sandbox.api.writing import ApiAnswer
from scheduler.sandbox.kinds.kinds import PODDISRUPTIONBUDGETS, PODS
from scheduler.sandbox.kinds.objectchecks import selects
from scheduler.sandbox.store.store import Deletion, ObjectStore

_encode = msgspec.json.Encoder().encode
_EVICTED: Final = _encode(
    {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
)
_FREE_PHASES: Final = frozenset({"Succeeded", "Failed", "Pending"})


def evict(store: ObjectStore, call: ResourceRequest, eviction: Object) -> ApiAnswer:
    """Handle POST of an Eviction: delete the pod when its budget allows it; 201 or 429."""
    name = (eviction.get("metadata") or {}).get("name")
    if name and name != call.name:
        raise bad_request("name in URL does not match name in Eviction object")
    old = store.get(PODS, call.namespace, call.name)
    given = eviction.get("deleteOptions") or {}
    preconditions = given.get("preconditions") or {}
    options = Deletion(
        grace_period_s=given.get("gracePeriodSeconds"),
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=given.get("propagationPolicy") or "",
        dry_run=call.dry_run or bool(given.get("dryRun")),
    )
    pod = old.obj
    phase = (pod.get("status") or {}).get("phase")
    if phase not in _FREE_PHASES and "deletionTimestamp" not in pod["metadata"]:
        _take_disruption(store, pod, dry_run=options.dry_run)
    if not options.dry_run:
        _mark_target(store, call)
    store.delete(PODS, call.namespace, call.name, options)
    return ApiAnswer(201, _EVICTED)


def _take_disruption(store: ObjectStore, pod: Object, *, dry_run: bool) -> None:
    meta = pod["metadata"]
    found = [
        stored
        for stored in store.list(PODDISRUPTIONBUDGETS, meta["namespace"])
        if _covers(stored.obj, meta.get("labels") or {})
    ]
    if not found:
        return
    if len(found) > 1:
        raise failure(
            500,
            "",
            "This pod has more than one PodDisruptionBudget, which the eviction "
            "subresource does not support.",
        )
    budget = found[0].obj
    status = dict(budget.get("status") or {})
    if _is_unready(pod) and _lets_unready_go(budget, status):
        return
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.",
            10,
            Cause(
                "DisruptionBudget",
                "",
                f"The disruption budget {budget['metadata']['name']} is still being processed by "
                "the server.",
            ),
        )
    allowed = status.get("disruptionsAllowed", 0)
    if allowed <= 0:
        raise _refused(budget, status)
    status["disruptionsAllowed"] = allowed - 1
    disrupted = {**(status.get("disruptedPods") or {}), meta["name"]: store.now()}
    status["disruptedPods"] = disrupted
    status["conditions"] = [*_others(status, "DisruptionAllowed"), _allowed(budget, status, store)]
    if not dry_run:
        store.update(PODDISRUPTIONBUDGETS, {**budget, "status": status}, subresource="status")


def _others(status: Object, type_: str) -> list[Object]:
    return [current for current in status.get("conditions") or () if current.get("type") != type_]


def _allowed(budget: Object, status: Object, store: ObjectStore) -> Object:
    enough = status["disruptionsAllowed"] > 0
    return {
        "type": "DisruptionAllowed",
        "status": "True" if enough else "False",
        "observedGeneration": status.get("observedGeneration", budget["metadata"]["generation"]),
        "lastTransitionTime": store.now(),
        "reason": "SufficientPods" if enough else "InsufficientPods",
        "message": "",
    }


def _refused(budget: Object, status: Object) -> StatusError:
    text = (
        f"The disruption budget {budget['metadata']['name']} needs "
        f"{status.get('desiredHealthy', 0)} "
        f"healthy pods and has {status.get('currentHealthy', 0)} currently"
    )
    return too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        0,
        Cause("DisruptionBudget", "", text),
    )


def _covers(budget: Object, labels: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selects(selector, labels, empty=True)


def _is_unready(pod: Object) -> bool:
    return not any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in (pod.get("status") or {}).get("conditions") or ()
    )


def _lets_unready_go(budget: Object, status: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy", 0)
    return bool(status.get("currentHealthy", 0) >= desired > 0)


def _mark_target(store: ObjectStore, call: ResourceRequest) -> None:
    """Add the condition DisruptionTarget to an evicted pod, as kube-apiserver does."""
    old = store.get(PODS, call.namespace, call.name)
    status = dict(old.obj.get("status") or {})
    condition: Object = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": store.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [*_others(status, "DisruptionTarget"), condition]
    store.update(PODS, {**old.obj, "status": status}, subresource="status")
