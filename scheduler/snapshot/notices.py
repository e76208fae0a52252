"""Messages of `snapshot` about objects that were read and have no effect.

A manifest has Services and ConfigMaps beside its pods; these kinds of Kubernetes' own do not affect
scheduling and are skipped with a notice. `snapshot` rejects any other unknown kind, as it might
make pods or rules for them. Sentences name a few objects at most.
"""

from collections.abc import Collection, Mapping
from typing import Final

from scheduler.objects.node import Node
from scheduler.objects.pod import Pod

_NO_BEARING: Final[dict[str, frozenset[str]]] = {
    "": frozenset(
        {
            "ConfigMap",
            "Endpoints",
            "Event",
            "PodTemplate",
            "Secret",
            "Service",
            "ServiceAccount",
        }
    ),
    "apps": frozenset(["ControllerRevision"]),
    "autoscaling": frozenset(["HorizontalPodAutoscaler"]),
    "scheduling.k8s.io": frozenset(["Workload"]),
}
# Groups without any kind that affects scheduling.
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
        "rbac.authorization.k8s.io",
    }
)


def has_no_bearing(group: str, kind: str) -> bool:
    """Return whether objects of a kind are known to have no effect on scheduling."""
    return group in _GROUPS or kind in _NO_BEARING.get(group, ())


def astray(bound: list[Pod], nodes: list[Node]) -> list[str]:
    """Return the names of pods whose node is not in the snapshot."""
    known = {node.metadata.name for node in nodes}
    return [
        f"{pod.key} (node {pod.spec.node_name})" for pod in bound if pod.spec.node_name not in known
    ]


def notices(
    passed_over: Mapping[str, int],
    leaving: list[str],
    astray: list[str],
    unknown_runtimes: Collection[str] = (),
) -> tuple[str, ...]:
    """Return a sentence for each reason why objects have no effect."""
    found = []
    if passed_over:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(passed_over.items()))
        found.append(f"without bearing on where pods go: {kinds}")
    if leaving:
        found.append(f"not to be placed, as they are being deleted: {_some(leaving)}")
    if astray:
        found.append(
            f"on nodes that are not in the snapshot, so they count nowhere: {_some(astray)}"
        )
    if unknown_runtimes:
        found.append(
            "of a RuntimeClass that is not known here, so its overhead and nodes do not count: "
            f"{_some(sorted(unknown_runtimes))}"
        )
    return tuple(found)


def _some(names: list[str]) -> str:
    rest = len(names) - 10
    return ", ".join(names[:10]) + (f" and {rest} more" if rest > 0 else "")
