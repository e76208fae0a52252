"""`kind: Policy`, as kube-scheduler read it until 1.22 → a KubeSchedulerConfiguration of today.

Predicates became filters and priorities scores; the tables below name who took over what. A policy
ran only what it listed, and so does the profile that comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.base.errors import InputError
from scheduler.config.names import OLD_NAMES

Json = dict[str, Any]

ALWAYS: Final = ("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder")
PREDICATES: Final[Mapping[str, tuple[str, ...]]] = {
    "GeneralPredicates": ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "PodFitsHostResources": ("NodeResourcesFit",),
    "HostName": ("NodeName",),
    "PodFitsHost": ("NodeName",),
    "MatchNodeSelector": ("NodeAffinity",),
    "PodMatchNodeSelector": ("NodeAffinity",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": ("PodTopologySpread",),
}
PRIORITIES: Final = {
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "InterPodAffinityPriority": "InterPodAffinity",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "EvenPodsSpreadPriority": "PodTopologySpread",
}
GONE: Final = ("NodePreferAvoidPodsPriority", "EqualPriority")


def configuration_of(policy: Json, where: str) -> tuple[Json, list[str]]:
    """Return the configuration that does what a policy did, and what was changed."""
    changes = ["kind: Policy is a profile of KubeSchedulerConfiguration today"]
    filters: dict[str, None] = {}
    for name, _ in _entries(policy, "predicates", where):
        for plugin in PREDICATES.get(name, (OLD_NAMES.get(name, name),)):
            filters[plugin] = None
            if plugin != name:
                changes.append(f"predicate {name}: is done by the filter of {plugin}")
    scores: dict[str, int] = {}
    strategy = ""
    for name, weight in _entries(policy, "priorities", where):
        if name in GONE:
            changes.append(f"priority {name}: does not exist any more")
            continue
        plugin = PRIORITIES.get(name, OLD_NAMES.get(name, name))
        scores[plugin] = scores.get(plugin, 0) + weight
        if plugin != name:
            changes.append(f"priority {name}: is done by the score of {plugin}")
        if name in ("LeastRequestedPriority", "MostRequestedPriority"):
            strategy = "LeastAllocated" if name.startswith("Least") else "MostAllocated"
    every = [{"name": name} for name in dict.fromkeys((*ALWAYS, *filters, *scores))]
    profile: Json = {
        "schedulerName": "trellis",
        "plugins": {
            "multiPoint": {"enabled": every, "disabled": [{"name": "*"}]},
            "filter": {"enabled": [{"name": n} for n in filters], "disabled": [{"name": "*"}]},
            "score": {
                "enabled": [{"name": name, "weight": weight} for name, weight in scores.items()],
                "disabled": [{"name": "*"}],
            },
        },
    }
    changes.append("schedulerName: trellis; write the name that your pods ask for")
    if strategy:
        resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        scoring = {"type": strategy, "resources": resources}
        profile["pluginConfig"] = [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": scoring}}
        ]
    found = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return found, changes


def _entries(policy: Json, key: str, where: str) -> Iterable[tuple[str, int]]:
    listed = policy.get(key) or []
    if not isinstance(listed, list):
        raise InputError(f"{key}: expected a list", where=where)
    for at, entry in enumerate(listed):
        name = entry.get("name") if isinstance(entry, dict) else None
        weight = entry.get("weight", 1) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise InputError(f"{key}[{at}].name is missing", where=where)
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 < weight <= 100:
            raise InputError(f"{key}[{at}].weight: {weight} is not between 1 and 100", where=where)
        yield name, weight
