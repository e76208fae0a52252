"""Claims that controllers create for pods: from templates and for generic ephemeral volumes."""

from collections.abc import Iterator
from typing import Final

from scheduler.controlplane.objects import Object, controller_reference, labels_of

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
_LONGEST_BASE: Final = 57


def ephemeral_volume_claims(pod: Object) -> Iterator[Object]:
    """Yield the PersistentVolumeClaims of a pod's generic ephemeral volumes."""
    meta = pod["metadata"]
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is None:
            continue
        own = template.get("metadata") or {}
        kept = {part: own[part] for part in ("labels", "annotations") if own.get(part)}
        yield {
            "metadata": {
                "name": f"{meta['name']}-{volume['name']}",
                "namespace": meta["namespace"],
                "ownerReferences": [controller_reference("v1", "Pod", pod)],
                **kept,
            },
            "spec": dict(template.get("spec") or {}),
        }


def claim_of_template(owner: Object, reference: Object, entry: str, template: Object) -> Object:
    """Return the ResourceClaim that `owner` gets from a ResourceClaimTemplate.

    `entry` names it in the pod.
    """
    spec = template["spec"]
    meta = spec.get("metadata") or {}
    kept = {name: part for name, part in reference.items() if name != "blockOwnerDeletion"}
    claim: Object = {
        "metadata": {
            "generateName": _name_base(owner["metadata"]["name"], entry),
            "ownerReferences": [kept],
            "annotations": {**(meta.get("annotations") or {}), POD_CLAIM_NAME: entry},
        },
        "spec": spec["spec"],
    }
    if labels := labels_of({"metadata": meta}):
        claim["metadata"]["labels"] = dict(labels)
    return claim


def _name_base(owner: str, entry: str) -> str:
    """Return the beginning of a claim's name; both parts are shortened in proportion."""
    base = f"{owner}-{entry}-"
    if len(base) <= _LONGEST_BASE:
        return base
    share = _LONGEST_BASE / len(base)
    return f"{owner[: int(len(owner) * share)]}-{entry[: int(len(entry) * share)]}"
