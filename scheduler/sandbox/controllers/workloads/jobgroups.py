"""The PodGroup of a Job with `spec.scheduling` (Kubernetes 1.37).

As kube-controller-manager's Job controller with its gate WorkloadWithJob: a Workload with one
template, and a PodGroup created from it, which the Job's pods name. A gang without a number needs
all pods that run at a time; the number follows the Job. A Job without the field gets no group: it
would be a basic one without requirements.
"""

import hashlib

from scheduler.controlplane.jobs import group_spec
from scheduler.controlplane.objects import controller_of
from scheduler.sandbox.api.status import Object
from scheduler.sandbox.controllers.ownership import reference_to
from scheduler.sandbox.kinds.kinds import JOBS, POD_GROUPS_1_37, WORKLOADS
from scheduler.sandbox.store.store import ObjectStore


def group_of(store: ObjectStore, job: Object) -> str:
    """Return the name of a Job's PodGroup, created if it is missing.

    '' without `spec.scheduling`.
    """
    wanted = _wanted_spec(store, job)
    if wanted is None:
        return ""
    meta = job["metadata"]
    name = f"{meta['name']}-{hashlib.sha256(meta['uid'].encode()).hexdigest()[:8]}"
    known = store.find(POD_GROUPS_1_37, meta["namespace"], name)
    if known is None:
        _make(store, job, wanted, name)
    elif known.obj["spec"]["schedulingPolicy"] != wanted["schedulingPolicy"]:
        spec = known.obj["spec"] | {"schedulingPolicy": wanted["schedulingPolicy"]}
        store.update(POD_GROUPS_1_37, known.obj | {"spec": spec})
    return name


def _wanted_spec(store: ObjectStore, job: Object) -> Object | None:
    """Return the spec of the Job's group, None if there is none."""
    is_served = store.kinds.find(
        POD_GROUPS_1_37.group, POD_GROUPS_1_37.version, POD_GROUPS_1_37.plural
    )
    if not is_served or controller_of(job) is not None:
        return None
    return group_spec(job["spec"])


def _make(store: ObjectStore, job: Object, wanted: Object, name: str) -> None:
    meta = job["metadata"]
    template = f"{meta['name']}-pgt-0"
    head = {"namespace": meta["namespace"], "ownerReferences": [reference_to(JOBS, job)]}
    if store.find(WORKLOADS, meta["namespace"], name) is None:
        owner = {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": meta["name"]}
        spec = {"controllerRef": owner, "podGroupTemplates": [{"name": template, **wanted}]}
        workload = {"metadata": {**head, "name": name}, "spec": spec}
        store.create(WORKLOADS, workload, meta["namespace"], owned=True)
    reference = {"workloadName": name, "templateName": template}
    group = {"metadata": {**head, "name": name}, "spec": {"workloadRef": reference, **wanted}}
    store.create(POD_GROUPS_1_37, group, meta["namespace"], owned=True)
