"""Pod templates: their hash, their pods, and whether two of them are the same revision."""

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler.controlplane.objects import Object, labels_of

POD_TEMPLATE_HASH: Final = "pod-template-hash"
CONTROLLER_REVISION: Final = "controller-revision-hash"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_encode = msgspec.json.Encoder(order="sorted").encode
_encode_quick = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def template_hash(template: Object, collisions: int = 0) -> str:
    """Return ten letters that identify a template.

    Kube-controller-manager hashes Go structs instead.
    """
    digest = hashlib.sha256(_encode(template) + str(collisions or "").encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])


def same_revision(template: Object, other: Object) -> bool:
    """Return whether two defaulted templates are equal apart from the label `pod-template-hash`."""
    return _without_hash(template) == _without_hash(other)


def _without_hash(template: Object) -> Object:
    labels = {key: text for key, text in labels_of(template).items() if key != POD_TEMPLATE_HASH}
    return {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}}


def pod_maker(template: Object, owner: Object) -> Callable[[], Object]:
    """Return a function that makes pods of a template; the pods share no mutable data.

    `owner` is their controller reference; the caller adds a name. Decoding the template's bytes is
    the fastest deep copy.
    """
    meta: dict[str, Any] = template.get("metadata") or {}
    kept = {name: meta[name] for name in ("labels", "annotations", "finalizers") if meta.get(name)}
    body = _encode_quick(
        {"metadata": {**kept, "ownerReferences": [owner]}, "spec": template["spec"]}
    )

    def make() -> Object:
        pod: Object = _decode(body)
        return pod

    return make


def copied(template: Object) -> Object:
    """Return a deep copy of a template."""
    found: Object = _decode(_encode_quick(template))
    return found


def with_labels(template: Object, labels: dict[str, str]) -> Object:
    """Return a template whose pods also have these labels."""
    meta = template.get("metadata") or {}
    return {**template, "metadata": {**meta, "labels": {**labels_of(template), **labels}}}
