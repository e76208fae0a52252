"""Kinds that Kubernetes itself has and that have no say in where a pod goes.

A manifest brings Services and ConfigMaps along with its pods; they are passed over with a notice. Any
other kind that nobody reads is refused by `snapshot`, as it might make pods or rules for them.
"""

from typing import Final

_NO_BEARING: Final[dict[str, frozenset[str]]] = {
    "": frozenset(
        {
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "PodTemplate",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        }
    ),
    "apps": frozenset(["ControllerRevision"]),
    "autoscaling": frozenset(["HorizontalPodAutoscaler"]),
    # It makes Jobs when their time comes, none of them now.
    "batch": frozenset(["CronJob"]),
    "scheduling.k8s.io": frozenset(["Workload"]),
}
# Groups none of whose kinds says anything about where pods go.
_GROUPS: Final = frozenset(
    {
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "gateway.networking.k8s.io",
        "metrics.k8s.io",
        "monitoring.coreos.com",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
    }
)


def has_no_bearing(group: str, kind: str) -> bool:
    """Whether objects of a kind are known to leave every placement as it is."""
    return group in _GROUPS or kind in _NO_BEARING.get(group, ())
