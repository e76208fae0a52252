"""StatefulSet → pods with stable names, and the claims of their volumes."""

from typing import Final

from scheduler.controlplane.objects import Object, labels_of
from scheduler.controlplane.templates import CONTROLLER_REVISION, pod_maker

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"


def ordinals(spec: Object) -> range:
    """Return the ordinals of a StatefulSet's pods."""
    first = (spec.get("ordinals") or {}).get("start", 0)
    return range(first, first + spec.get("replicas", 1))


def ordinal_of(pod_name: str) -> int:
    """Return the ordinal in a pod's name, -1 without one."""
    text = pod_name.rpartition("-")[2]
    return int(text) if text.isdecimal() else -1


def partition(spec: Object) -> int:
    """Return the ordinal below which a rolling update does not change pods."""
    strategy = spec.get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition", 0))


def stateful_pod(
    owner: Object, template: Object, ordinal: int, revision: str, reference: Object
) -> Object:
    """Return the pod of an ordinal; `revision` is the name of the template's ControllerRevision."""
    meta, spec = owner["metadata"], owner["spec"]
    name = f"{meta['name']}-{ordinal}"
    pod = pod_maker(template, reference)()
    pod["metadata"]["name"] = name
    pod["metadata"]["labels"] = {
        **labels_of(pod),
        POD_NAME: name,
        POD_INDEX: str(ordinal),
        CONTROLLER_REVISION: revision,
    }
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    _mount(pod["spec"], spec, name)
    return pod


def _mount(pod_spec: Object, spec: Object, pod_name: str) -> None:
    """Put the volumes of the claim templates first; they replace others of their name."""
    names = [one["metadata"]["name"] for one in spec.get("volumeClaimTemplates") or ()]
    volumes: list[Object] = [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod_name}"}}
        for name in names
    ]
    volumes += [one for one in pod_spec.get("volumes") or () if one["name"] not in names]
    if volumes:
        pod_spec["volumes"] = volumes


def volume_claims(owner: Object, ordinal: int) -> list[Object]:
    """Return the PersistentVolumeClaims of an ordinal."""
    meta, spec = owner["metadata"], owner["spec"]
    found = []
    for template in spec.get("volumeClaimTemplates") or ():
        own = template["metadata"]
        labels = {**labels_of(template), **((spec.get("selector") or {}).get("matchLabels") or {})}
        name = f"{own['name']}-{meta['name']}-{ordinal}"
        found.append(
            {"metadata": {**own, "name": name, "labels": labels}, "spec": dict(template["spec"])}
        )
    return found
