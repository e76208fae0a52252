"""Exclusive topology of JobSet and LeaderWorkerSet: the pod fields that their controllers write.

Called by `workloads` for the pods that it creates. In a cluster only the first pod of a Job or a
group gets the rules; the others are created when it has a node, with a node selector for its unit.
Here all pods are created at once, so all get the rules: each Job or group has one unit of the label
for itself.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from scheduler.base.errors import ObjectError

Plain: TypeAlias = dict[str, Any]

_JOBSET: Final = "alpha.jobset.sigs.k8s.io"
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
_LWS: Final = "leaderworkerset.sigs.k8s.io"
GROUP_KEY: Final = f"{_LWS}/group-key"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def key_of(*names: str) -> str:
    """Return the label value for these names: the hexadecimal SHA-1 of their path."""
    return hashlib.sha1("/".join(names).encode(), usedforsecurity=False).hexdigest()


def in_job(made: Plain, job: str, annotations: Mapping[str, str]) -> None:
    """Write the annotations' rules of a JobSet's Job into one of its pods."""
    meta = made["metadata"]
    meta["labels"][JOB_KEY] = key_of(meta["namespace"], job)
    topology = annotations.get(f"{_JOBSET}/exclusive-topology")
    if not topology:
        return
    if f"{_JOBSET}/node-selector" not in annotations:
        _hold_apart(made, JOB_KEY, topology, everywhere=True)
        return
    # The nodes were labelled for each Job in advance, and tainted against other pods.
    spec = made["spec"]
    selector = {f"{_JOBSET}/namespaced-job": f"{meta['namespace']}_{job}"}
    spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **selector}
    taint = {"key": f"{_JOBSET}/no-schedule", "operator": "Exists", "effect": "NoSchedule"}
    spec["tolerations"] = [*(spec.get("tolerations") or []), taint]


def in_group(
    made: Plain, leader: str, worker: int, size: int, inner: Plain, annotations: Mapping[str, str]
) -> None:
    """Write the rules of a LeaderWorkerSet's group, and of a subgroup, into one of its pods.

    `inner` is the set's leaderWorkerTemplate; the leader has the number 0 among `size` pods.
    """
    meta = made["metadata"]
    meta["labels"][GROUP_KEY] = key_of(meta["namespace"], leader)
    if topology := annotations.get(f"{_LWS}/exclusive-topology"):
        _hold_apart(made, GROUP_KEY, topology, everywhere=False)
    policy = inner.get("subGroupPolicy") or {}
    each = policy.get("subGroupSize") if isinstance(policy, dict) else None
    if not isinstance(each, int) or each < 1:
        return
    if not worker and policy.get("subGroupPolicyType") == "LeaderExcluded":
        return
    # A leader beyond full subgroups belongs to the first of them.
    number = max(0, worker - 1) // each if (size - 1) % each == 0 else worker // each
    label = f"{_LWS}/subgroup-key"
    meta["labels"] |= {f"{_LWS}/subgroup-index": str(number), label: key_of(leader, str(number))}
    if topology := annotations.get(f"{_LWS}/subgroup-exclusive-topology"):
        _hold_apart(made, label, topology, everywhere=False)


def group_annotations(spec: Plain, annotations: Mapping[str, str]) -> dict[str, str]:
    """Return a LeaderWorkerSet's annotations, with those that its groupPlacementPolicy implies."""
    policy = spec.get("groupPlacementPolicy") or {}
    if isinstance(policy, dict) and policy.get("type") == "Exclusive" and policy.get("topologyKey"):
        return {f"{_LWS}/exclusive-topology": str(policy["topologyKey"]), **annotations}
    return dict(annotations)


def _hold_apart(made: Plain, label: str, topology: str, *, everywhere: bool) -> None:
    """Require one unit of a topology for pods with the same value of a label, without pods of
    others.

    `everywhere` counts pods of all namespaces.
    """
    own = made["metadata"]["labels"][label]
    where: Plain = {"topologyKey": topology, **({"namespaceSelector": {}} if everywhere else {})}
    same = {"key": label, "operator": "In", "values": [own]}
    other = [{"key": label, "operator": "Exists"}, same | {"operator": "NotIn"}]
    affinity = _within(made["spec"], "affinity", "spec")
    for name, expressions in (("podAffinity", [same]), ("podAntiAffinity", other)):
        part = _within(affinity, name, "spec.affinity")
        term = {"labelSelector": {"matchExpressions": expressions}, **where}
        part[_REQUIRED] = [*(part.get(_REQUIRED) or []), term]


def _within(of: Plain, name: str, where: str) -> Plain:
    """Return a part of an object, created if it is missing; ObjectError for another type."""
    part = of.get(name) or {}
    if not isinstance(part, dict):
        raise ObjectError(f"{where}.{name}: expected an object")
    of[name] = part
    return part
