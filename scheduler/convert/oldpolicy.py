"""`kind: Policy` of kube-scheduler until 1.22 → a current KubeSchedulerConfiguration.

Predicates became filters and priorities scores; the tables below have the successors. A policy ran
the predicates it listed and those that kube-scheduler always ran; an omitted list meant the default
ones. So does the resulting profile.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from scheduler.base.errors import InputError
from scheduler.config.names import OLD_NAMES
from scheduler.objects.network import USER_DEFINED

Json = dict[str, Any]

ALWAYS: Final = ("SchedulingGates", "PrioritySort", "DefaultPreemption", "DefaultBinder")
# Predicates that kube-scheduler ran under any policy, listed or not.
MANDATORY: Final = {
    "CheckNodeUnschedulable": "NodeUnschedulable",
    "PodToleratesNodeTaints": "TaintToleration",
}
USUAL_FILTERS: Final = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
)
USUAL_SCORES: Final = {
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 1,
    "NodeAffinity": 1,
    "TaintToleration": 1,
    "ImageLocality": 1,
}
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
NETWORK: Final = ("NetworkMinCost", "NetworkOverhead")
_READ: Final = ("kind", "apiVersion", "metadata", "predicates", "priorities")
_WEIGHT: Final = "hardPodAffinitySymmetricWeight"


class TableReference(NamedTuple):
    """The table of a NetworkTopology that the network plugins read; `is_given`: it exists."""

    namespace: str = "default"
    name: str = "nt-default"
    weights: str = USER_DEFINED
    is_given: bool = False


def configuration_of(policy: Json, where: str, costs: TableReference) -> tuple[Json, list[str]]:
    """Return the configuration equivalent to a policy, and the changes."""
    changes = ["kind: Policy is a profile of KubeSchedulerConfiguration today"]
    filters = _filters(policy, where, changes)
    scores, strategy = _scores(policy, where, changes)
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
    args = _args(policy, where, strategy, changes)
    for name in NETWORK:
        if name in scores or name in filters:
            args[name] = _network_args(name, costs, changes)
    if args:
        profile["pluginConfig"] = [{"name": name, "args": own} for name, own in args.items()]
    changes += [
        f"{key}: left out; write what it said into the configuration by hand"
        for key in sorted(set(policy) - {*_READ, _WEIGHT})
    ]
    found = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return found, changes


def _filters(policy: Json, where: str, changes: list[str]) -> list[str]:
    """Return the filters for the predicates that ran: those listed, and those that always ran."""
    if policy.get("predicates") is None:
        changes.append("predicates: none are listed, which stood for kube-scheduler's usual ones")
        return list(USUAL_FILTERS)
    listed: dict[str, None] = {}
    for name, _ in _entries(policy, "predicates", where):
        for plugin in PREDICATES.get(name, (OLD_NAMES.get(name, name),)):
            listed[plugin] = None
            if plugin != name:
                changes.append(f"predicate {name}: is done by the filter of {plugin}")
    for name, plugin in MANDATORY.items():
        if plugin not in listed:
            text = f"predicate {name}: ran under every policy, so the filter of {plugin} does"
            changes.append(text)
    return list(dict.fromkeys((*MANDATORY.values(), *listed)))


def _scores(policy: Json, where: str, changes: list[str]) -> tuple[dict[str, int], str]:
    """Return the weight of each score, and the policy's strategy for NodeResourcesFit."""
    if policy.get("priorities") is None:
        changes.append("priorities: none are listed, which stood for kube-scheduler's usual ones")
        return dict(USUAL_SCORES), ""
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
    return scores, strategy


def _args(policy: Json, where: str, strategy: str, changes: list[str]) -> dict[str, Json]:
    """Return the arguments that plugins need besides the network's."""
    found: dict[str, Json] = {}
    if strategy:
        resources = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
        scoring = {"type": strategy, "resources": resources}
        found["NodeResourcesFit"] = {"scoringStrategy": scoring}
    weight = policy.get(_WEIGHT)
    if weight is not None:
        if not isinstance(weight, int) or isinstance(weight, bool) or not 0 <= weight <= 100:
            raise InputError(f"{_WEIGHT}: {weight} is not between 0 and 100", where=where)
        found["InterPodAffinity"] = {"hardPodAffinityWeight": weight}
        changes.append(f"{_WEIGHT}: is hardPodAffinityWeight of InterPodAffinity today")
    return found


def _network_args(plugin: str, costs: TableReference, changes: list[str]) -> Json:
    """Name the NetworkTopology that a plugin reads, with a notice to create a missing one."""
    which = (
        f'{plugin} reads the table {costs.weights} of the NetworkTopology "{costs.name}" '
        f'in namespace "{costs.namespace}"'
    )
    changes.append(
        which
        if costs.is_given
        else f"{which}: create it, or name yours in pluginConfig; "
        "without it all nodes score the same"
    )
    return {
        "namespaces": [costs.namespace],
        "networkTopologyName": costs.name,
        "weightsName": costs.weights,
    }


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
