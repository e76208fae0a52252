"""The pods of a workload in a snapshot: by controller reference, or adopted by its selector.

A pod of another controller never counts, whatever its labels are.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.objects.meta import LabelSelector, OwnerReference
from scheduler.objects.pod import Pod, ResourceRequirements
from scheduler.objects.quantity import resource_amount
from scheduler.objects.selectors import selector_matches

Plain = dict[str, Any]
_REPLICA_SET: Final = "ReplicaSet"
# Controllers and admission add tolerations of these taints.
_ADDED: Final = "node.kubernetes.io/"


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the reference to a pod's controller, or None."""
    return next((one for one in pod.metadata.owner_references if one.controller), None)


class OwnedPods:
    """The unfinished pods of a snapshot by controller.

    `names` are all names in use, by namespace.
    """

    def __init__(self, pods: Iterable[Pod]) -> None:
        self._owned: dict[tuple[str, str, str], list[Pod]] = {}
        self._orphans: dict[str, list[Pod]] = {}
        self.names: dict[str, set[str]] = {}
        for pod in pods:
            namespace = pod.metadata.namespace
            self.names.setdefault(namespace, set()).add(pod.metadata.name)
            owner = controller_of(pod)
            if owner is None:
                self._orphans.setdefault(namespace, []).append(pod)
            else:
                self._owned.setdefault((owner.kind, namespace, owner.name), []).append(pod)

    def of(self, kind: str, owner: Plain) -> list[Pod]:
        """Return the pods that `owner` controls.

        A manifest without a uid owns the pods of its name.
        """
        meta = owner["metadata"]
        found = self._owned.get((kind, meta["namespace"], meta["name"]), ())
        uid = meta.get("uid")
        return [pod for pod in found if not uid or _owner_uid(pod) in ("", uid)]

    def adoptable(self, namespace: str, selector: Any) -> list[Pod]:
        """Return the pods without a controller that a selector matches."""
        orphans = self._orphans.get(namespace)
        if not orphans:
            return []
        wanted = as_selector(selector)
        return [pod for pod in orphans if selector_matches(wanted, pod.metadata.labels)]

    def sets_of(self, namespace: str, deployment: str, hash_label: str) -> dict[str, list[Pod]]:
        """Return the pods of ReplicaSets that a Deployment's name and their hash name, by set."""
        found = {}
        for (kind, there, name), pods in self._owned.items():
            if kind != _REPLICA_SET or there != namespace:
                continue
            label = pods[0].metadata.labels.get(hash_label)
            if label and name == f"{deployment}-{label}":
                found[name] = pods
        return found


def _owner_uid(pod: Pod) -> str:
    owner = controller_of(pod)
    return owner.uid if owner is not None else ""


def as_selector(selector: Any) -> LabelSelector:
    """Return a label selector; ObjectError for another type."""
    try:
        return msgspec.convert(selector, LabelSelector)
    except msgspec.ValidationError as error:
        raise ObjectError(f"spec.selector: {error}") from error


def same_template(made: Pod, known: Pod) -> bool:
    """Return whether a pod was created from the template of `made`, by the fields for scheduling.

    Selectors are left out: the values of `matchLabelKeys` in them differ between revisions.
    """
    own = {one for one in made.spec.tolerations if not one.key.startswith(_ADDED)}
    return own <= set(known.spec.tolerations) and _compared(made) == _compared(known)


def _compared(pod: Pod) -> tuple[Any, ...]:
    spec = pod.spec
    return (
        [(one.name, one.image, _amounts(one.resources), one.ports) for one in spec.containers],
        [(one.name, one.image, _amounts(one.resources)) for one in spec.init_containers],
        _amounts(spec.resources or ResourceRequirements()),
        spec.node_selector or {},
        [(one.topology_key, one.max_skew) for one in spec.topology_spread_constraints],
        (spec.host_network, spec.scheduler_name, spec.priority),
        spec.resource_claims,
    )


def _amounts(resources: ResourceRequirements) -> list[dict[str, int]]:
    """Return requests and limits as numbers: an API server normalizes their spelling."""
    return [
        {name: resource_amount(name, amount) for name, amount in part.items()}
        for part in (resources.requests, resources.limits)
    ]
