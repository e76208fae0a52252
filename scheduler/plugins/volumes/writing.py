"""The writes of VolumeBinding before a pod is bound, and the wait for their results.

Generators that a plugin's `pre_bind` delegates to; the engine sends their requests. A write reads
the whole object and updates it with the version of the decision, so the API server refuses it after
a concurrent change. The volume controller and provisioners do the rest, which the watch shows.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any

import msgspec

from scheduler.framework import ApiCall, BindStep, CallResult, Node, Nodes, WaitUntil
from scheduler.objects.pod import NodeSelector
from scheduler.objects.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    with_annotation,
)
from scheduler.plugins.nodeselection import any_of
from scheduler.plugins.volumes.catalog import VolumeCatalog
from scheduler.plugins.volumes.claims import CLAIM, VOLUME, is_bound, is_reserved_for
from scheduler.plugins.volumes.handles import Objects

MOST_NAMED = 3
READS = (CLAIM, VOLUME, "node.labels", "node.deleted", "pod.deleted", "CSINode")

Affinity = Callable[[PersistentVolume, str], NodeSelector | None]


class VolumeBindingError(Exception):
    """The reason why volumes cannot be bound; the pod is retried."""


class ClaimStep(msgspec.Struct):
    """A claim to bind to the assumed `volume`, or to provision (None).

    `version` is that of the object to be written, `is_due` states that a write is needed.
    """

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    version: str
    is_due: bool


def bind_step(
    catalog: VolumeCatalog, volume: PersistentVolume, claim: PersistentVolumeClaim
) -> ClaimStep:
    """Assume that a volume is bound to a claim."""
    ref = volume.spec.claim_ref
    version = volume.metadata.resource_version
    if ref is not None and is_reserved_for(volume, claim) and ref.uid:
        return ClaimStep(claim, volume, version, is_due=False)
    meta = claim.metadata
    owner = ObjectReference(CLAIM, meta.namespace, meta.name, meta.uid)
    bound = msgspec.structs.replace(
        volume,
        metadata=volume.metadata
        if is_reserved_for(volume, claim)
        else with_annotation(volume, BOUND_BY_CONTROLLER, "yes"),
        spec=msgspec.structs.replace(volume.spec, claim_ref=owner),
    )
    catalog.assume_volume(volume, bound)
    return ClaimStep(claim, bound, version, is_due=True)


def make_step(catalog: VolumeCatalog, claim: PersistentVolumeClaim, node: str) -> ClaimStep:
    """Assume that a claim's volume is made for a node."""
    version = claim.metadata.resource_version
    if claim.metadata.annotations.get(SELECTED_NODE) == node:
        return ClaimStep(claim, None, version, is_due=False)
    sent = msgspec.structs.replace(claim, metadata=with_annotation(claim, SELECTED_NODE, node))
    catalog.assume_claim(claim, sent)
    return ClaimStep(sent, None, version, is_due=True)


def undo(catalog: VolumeCatalog, steps: list[ClaimStep]) -> None:
    """Undo assumptions that are not written; the watch reports those that are."""
    for step in steps:
        if not step.is_due:
            continue
        if step.volume is not None:
            catalog.forget_volume(step.volume)
        else:
            catalog.forget_claim(step.claim)


def write(steps: list[ClaimStep]) -> Generator[BindStep, CallResult, None]:
    """Write the planned bindings, volumes first; BindingError with the API server's message."""
    for step in sorted(steps, key=_is_made):
        if not step.is_due:
            continue
        if step.volume is not None:
            path = f"/api/v1/persistentvolumes/{step.volume.metadata.name}"
            fields = _bound_to(step.volume, step.claim)
        else:
            meta = step.claim.metadata
            path = f"/api/v1/namespaces/{meta.namespace}/persistentvolumeclaims/{meta.name}"
            fields = {"annotations": {SELECTED_NODE: meta.annotations[SELECTED_NODE]}}
        yield from _replace(path, step.version, fields)
        step.is_due = False


def wait(progress: "Progress", timeout_s: float) -> Generator[BindStep, CallResult, None]:
    """Wait until all claims of a pod are bound; VolumeBindingError states why one cannot be."""
    try:
        answer = yield WaitUntil(progress.is_done, READS, timeout_s, progress.what)
    except VolumeBindingError as error:
        raise VolumeBindingError(f"binding volumes: {error}") from error
    if not answer.ok:
        raise VolumeBindingError(f"binding volumes: {answer.message}")


class Progress:
    """Whether the volumes of one pod are bound; checked after each change.

    While the catalog has an assumption for the pod's claims, by it or by another pod, the watch has
    not shown the write.
    """

    def __init__(
        self,
        steps: list[ClaimStep],
        node: str,
        nodes: Nodes,
        objects: Objects,
        catalog: VolumeCatalog,
        affinity: Affinity,
    ) -> None:
        self._steps = sorted(steps, key=_is_made)
        self._node = node
        self._nodes = nodes
        self._objects = objects
        self._catalog = catalog
        self._affinity = affinity
        self._seen: list[Any] = []

    @property
    def what(self) -> str:
        """Return the awaited claims, at most the first few."""
        names = [step.claim.key for step in self._steps]
        rest = len(names) - MOST_NAMED
        named = ", ".join(names[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
        return f"PersistentVolumeClaim {named} {'is' if len(names) == 1 else 'are'} bound"

    def is_done(self) -> bool:
        """Return whether all claims are bound; BindingError when they will not be."""
        row = self._nodes.row(self._node)
        node = self._nodes.node(row) if row is not None else None
        seen: list[Any] = [node, self._objects("CSINode").get(self._node)]
        for step in self._steps:
            claim = self._catalog.claim(step.claim.key)
            name = step.volume.metadata.name if step.volume is not None else ""
            volume = self._catalog.volume(name or (claim.spec.volume_name if claim else ""))
            seen += (claim, volume)
        # Called for every change of any claim: most changes concern other pods.
        if len(seen) == len(self._seen) and all(map(_is, seen, self._seen)):
            return False
        self._seen = seen
        if node is None:
            name = self._node
            raise VolumeBindingError(f'failed to get node "{name}": node "{name}" not found')
        return all(
            self._is_made(step, node) if step.volume is None else self._is_bound(step, node)
            for step in self._steps
        )

    def _is_bound(self, step: ClaimStep, node: Node) -> bool:
        """Return whether a claim and the volume that was chosen for it are bound."""
        name = step.volume.metadata.name if step.volume is not None else ""
        volume: PersistentVolume | None = self._objects(VOLUME).get(name)
        if volume is None:
            raise VolumeBindingError(
                f'failed to check binding: persistentvolumes "{name}" not found'
            )
        claim = self._claim(step, "failed to check binding")
        if self._catalog.volume(name) is not volume:
            return False
        self._check_affinity(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise VolumeBindingError(f'ClaimRef got reset for pv "{name}"')
        return is_bound(claim)

    def _is_made(self, step: ClaimStep, node: Node) -> bool:
        """Return whether the volume of a claim has been made and bound."""
        claim = self._claim(step, "failed to check provisioning pvc")
        if self._catalog.claim(claim.key) is not claim:
            return False
        annotations, name = claim.metadata.annotations, claim.metadata.name
        if not annotations:
            raise VolumeBindingError(f'selectedNode annotation reset for PVC "{name}"')
        if annotations.get(SELECTED_NODE) != self._node:
            raise VolumeBindingError(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._objects(VOLUME).get(claim.spec.volume_name)
            if volume is None:
                return False  # the watch of volumes is behind that of claims
            self._check_affinity(volume, node)
        return is_bound(claim)

    def _claim(self, step: ClaimStep, doing: str) -> PersistentVolumeClaim:
        claim: PersistentVolumeClaim | None = self._objects(CLAIM).get(step.claim.key)
        if claim is None:
            raise VolumeBindingError(
                f'{doing}: persistentvolumeclaims "{step.claim.key}" not found'
            )
        return claim

    def _check_affinity(self, volume: PersistentVolume, node: Node) -> None:
        terms = any_of(self._affinity(volume, self._node))
        if terms is not None and not terms.matches(node):
            text = f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{self._node}"'
            raise VolumeBindingError(f"{text}: no matching NodeSelectorTerms")


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> dict[str, Any]:
    """Return the fields of a volume that name its claim, as Kubernetes' binder writes them."""
    meta = claim.metadata
    owner = {
        "kind": CLAIM,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "apiVersion": "v1",
        "resourceVersion": meta.resource_version,
    }
    marks = {
        key: value
        for key, value in volume.metadata.annotations.items()
        if key == BOUND_BY_CONTROLLER
    }
    return {"annotations": marks, "claimRef": owner}


def _replace(
    path: str, version: str, fields: Mapping[str, Any]
) -> Generator[BindStep, CallResult, None]:
    """Put an object back with these fields, if it is still at `version`."""
    body = _content((yield ApiCall("GET", path)))
    metadata = dict(body.get("metadata") or {})
    metadata["annotations"] = (metadata.get("annotations") or {}) | fields["annotations"]
    if version:
        metadata["resourceVersion"] = version
    body = body | {"metadata": metadata}
    if "claimRef" in fields:
        body["spec"] = (body.get("spec") or {}) | {"claimRef": fields["claimRef"]}
    _content((yield ApiCall("PUT", path, body)))


def _content(answer: CallResult) -> dict[str, Any]:
    if not answer.ok:
        raise VolumeBindingError(answer.message or answer.reason or "no answer")
    return answer.body if isinstance(answer.body, dict) else {}


def _is_made(step: ClaimStep) -> bool:
    """Return whether the step's volume is made for it; volumes that exist come first."""
    return step.volume is None


def _is(one: Any, other: Any) -> bool:
    return one is other
