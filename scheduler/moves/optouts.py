"""Annotations that keep a pod or a node in place, by value as their owners define them.

Values are read as the owner reads them: Karpenter ignores an invalid duration, here it protects. A
preference not to be evicted counts as a rule, because an optimisation is no reason to ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.base.text import go_seconds

OWN = "trellis.dev/moves"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
SAFE_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
DESCHEDULER = "descheduler.alpha.kubernetes.io/evict"
KUEUE_TOPOLOGY = (
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-unconstrained-topology",
)
MOST_COST = str(2**31 - 1)

# Annotation → the values that protect; an empty tuple: any value.
PROTECTING: Mapping[str, tuple[str, ...]] = {
    SAFE_TO_EVICT: ("false",),
    "karpenter.sh/do-not-evict": ("true",),
    "karpenter.sh/do-not-consolidate": ("true",),
    # The descheduler ignores the value; users write "false" to keep a pod.
    DESCHEDULER: ("false",),
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": (),
    "descheduler.alpha.kubernetes.io/request-evict-only": (),
    "descheduler.alpha.kubernetes.io/eviction-in-progress": (),
    "scheduling.koordinator.sh/eviction-cost": (MOST_COST,),
    "scheduling.koordinator.sh/disable-preemptible": ("true",),
    "quota.scheduling.koordinator.sh/preemptible": ("false",),
    "koordinator.sh/eviction-enabled": ("false",),
    "volcano.sh/preemptable": ("false",),
    "volcano.sh/jdb-min-available": (),
    "volcano.sh/jdb-max-unavailable": (),
    "kai.scheduler/preemptibility": ("non-preemptible",),
    **dict.fromkeys(KUEUE_TOPOLOGY, ()),
}
# Annotations whose value is a minimum run time.
COOLING = ("volcano.sh/cooldown-time",)
REMOVAL_TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
)


def protection(
    annotations: Mapping[str, str], labels: Mapping[str, str], age_s: float | None
) -> str:
    """Return the annotation or label that keeps a pod in place, as `key=value`; '' for none.

    `age_s` is the time since the pod started, None if it is unknown: then a minimum run time
    protects.
    """
    for source in (annotations, labels):
        for key, values in PROTECTING.items():
            value = source.get(key)
            if value is not None and (not values or value.strip().lower() in values):
                return f"{key}={value}"
    own = annotations.get(OWN)
    if own is not None and own != "always" and (own == "never" or _is_young(own, age_s)):
        return f"{OWN}={own}"
    disrupt = annotations.get(DO_NOT_DISRUPT)
    if (
        disrupt is not None
        and disrupt != "false"
        and (disrupt == "true" or _is_young(disrupt, age_s))
    ):
        return f"{DO_NOT_DISRUPT}={disrupt}"
    for key in COOLING:
        value = annotations.get(key)
        if value is not None and _is_young(value, age_s):
            return f"{key}={value}"
    return ""


def node_protection(annotations: Mapping[str, str]) -> str:
    """Return the annotation of a node that keeps its pods in place, as `key=value`; '' for none."""
    value = annotations.get(DO_NOT_DISRUPT)
    return f"{DO_NOT_DISRUPT}={value}" if value == "true" else ""


def stays(annotations: Mapping[str, str]) -> bool:
    """Return whether the Cluster Autoscaler may not remove a node: then no plan empties it."""
    return annotations.get(SCALE_DOWN_DISABLED) == "true"


def lifts_local(annotations: Mapping[str, str], volumes: frozenset[str]) -> bool:
    """Return whether annotations permit the loss of these local volumes."""
    if annotations.get(SAFE_TO_EVICT) == "true":
        return True
    if annotations.get(DESCHEDULER, "false") != "false":
        return True
    listed = {name.strip() for name in annotations.get(SAFE_VOLUMES, "").split(",")}
    return volumes <= listed


def deletion_cost(annotations: Mapping[str, str]) -> int:
    """Return the pod deletion cost; 0 if there is none or it is invalid."""
    try:
        return int(annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def _is_young(text: str, age_s: float | None) -> bool:
    """Return whether a pod has run for less than a duration; an invalid duration protects."""
    least = go_seconds(text)
    return least is None or age_s is None or age_s < least
