"""Pods and claims as far as scheduling reads them, without the values that are made at random."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_amount
from scheduler.objects.storage import PersistentVolumeClaim

_AMOUNTS = ("requests", "limits", "overhead")
# Labels whose values are hashes or uids.
_RANDOM = (
    "pod-template-hash",
    "controller-revision-hash",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
)
_JOB_NAMES = ("job-name", "batch.kubernetes.io/job-name")


def pods_text(pods: Iterable[Pod]) -> list[str]:
    """Return pods as sorted texts that are equal if scheduling reads the same."""
    return sorted(json.dumps(_pod(pod), sort_keys=True) for pod in pods)


def claims_text(claims: Iterable[PersistentVolumeClaim], pods: Iterable[Pod]) -> list[str]:
    """Return claims as sorted texts, like `pods_text`; names of pods in them are replaced."""
    names = sorted((pod.metadata.name for pod in pods), key=len, reverse=True)
    return sorted(json.dumps(_claim(claim, names), sort_keys=True) for claim in claims)


def _pod(pod: Pod) -> Any:
    labels = dict(pod.metadata.labels)
    hidden = {labels[name]: f"<{name}>" for name in reversed(_RANDOM) if name in labels}
    labels |= {name: "<job>" for name in _JOB_NAMES if name in labels}
    spec = msgspec.json.decode(msgspec.json.encode(pod.spec))
    spec.pop("nodeName", None)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    # Volumes without a source that scheduling reads are left out, such as the service account's
    # token.
    spec["volumes"] = [one for one in spec.get("volumes") or () if len(one) > 1]
    spec["tolerations"] = sorted(spec.get("tolerations") or (), key=json.dumps)
    owners = [[one.kind, one.controller] for one in pod.metadata.owner_references]
    plain = {"labels": labels, "spec": spec, "owners": owners}
    return _hidden(_numbers(plain), hidden)


def _numbers(value: Any) -> Any:
    """Return plain data with amounts as numbers."""
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, inner in value.items():
        if name in _AMOUNTS and isinstance(inner, dict):
            found[name] = {one: resource_amount(one, amount) for one, amount in inner.items()}
        else:
            found[name] = _numbers(inner)
    return found


def _hidden(value: Any, hidden: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_hidden(one, hidden) for one in value]
    if isinstance(value, dict):
        return {name: _hidden(one, hidden) for name, one in value.items()}
    return hidden.get(value, value) if isinstance(value, str) else value


def _claim(claim: PersistentVolumeClaim, names: list[str]) -> Any:
    name = claim.metadata.name
    for pod in names:
        name = name.replace(pod, "<pod>")
    spec = claim.spec
    asked = {one: resource_amount(one, amount) for one, amount in spec.resources.requests.items()}
    owners = [one.kind for one in claim.metadata.owner_references]
    return [name, spec.storage_class_name, spec.access_modes, asked, spec.volume_mode, owners]
