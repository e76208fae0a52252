"""Device claims in the model API server: its answers, and the claim controller.

As in kube-apiserver: a patch applies only to the uid and the version it names, an allocation cannot
be replaced while it has consumers, a claim without an allocation has no consumers. As in
kube-controller-manager: a deleted pod is no consumer any more, and a claim that loses its last one
is deallocated.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.engine.effects import Answer, Call
from scheduler.objects.claims import FINALIZER, ResourceClaim, ResourceClaimStatus
from scheduler.plugins.dynamicresources.writing import MERGE, STRATEGIC, path_of
from tests.property.making import with_meta

if TYPE_CHECKING:
    from tests.property.model_api import ModelApi

CLAIM, SLICE, CLASS = "ResourceClaim", "ResourceSlice", "DeviceClass"
FREE = ResourceClaimStatus()
CLAIM_KINDS = (CLASS, SLICE, CLAIM)


def answer_claim(api: ModelApi, call: Call) -> Answer:
    """Read a claim, or change its metadata or status by a patch."""
    path = call.path.removesuffix("/status")
    namespace, _, name = path.split("/")[5:]
    claim: ResourceClaim | None = api.objects[CLAIM].get(f"{namespace}/{name}")
    if claim is None:
        return Answer(call.id, 404, "NotFound", f"resourceclaims {name} not found")
    if call.method == "PATCH":
        wanted = call.body["metadata"]
        if wanted["uid"] != claim.metadata.uid:
            return Answer(call.id, 409, "Conflict", "uid")
        if wanted.get("resourceVersion", claim.metadata.resource_version) != (
            claim.metadata.resource_version
        ):
            return Answer(call.id, 409, "Conflict", "the object has been modified")
        if path == call.path:
            changed = with_meta(claim, finalizers=tuple(wanted["finalizers"]))
        else:
            status = _patched(msgspec.to_builtins(claim.status), call)
            changed = msgspec.structs.replace(
                claim, status=msgspec.convert(status, type(claim.status))
            )
        reported = _invalid(claim, changed)
        if reported:
            return Answer(call.id, 422, "Invalid", reported)
        claim = api.put(CLAIM, changed) if changed != claim else claim
    return Answer(call.id, 200, body=msgspec.to_builtins(claim))


def _patched(status: dict[str, Any], call: Call) -> dict[str, Any]:
    if call.content_type == STRATEGIC:
        (gone,) = call.body["status"]["reservedFor"]
        assert gone["$patch"] == "delete"
        kept = [one for one in status.get("reservedFor", ()) if one["uid"] != gone["uid"]]
        return {**status, "reservedFor": kept}
    assert call.content_type == MERGE
    merged = {**status, **call.body["status"]}
    return {key: value for key, value in merged.items() if value is not None}


def _invalid(before: ResourceClaim, after: ResourceClaim) -> str:
    had, has = before.status.allocation, after.status.allocation
    if had is not None and has is not None and had != has:
        return "status.allocation: field is immutable"
    if has is None and after.status.reserved_for:
        return "status.reservedFor: may not be specified when allocated is not set"
    if has is not None and FINALIZER not in after.metadata.finalizers:
        return "metadata.finalizers: an allocated claim is to be protected"
    return ""


def control(api: ModelApi) -> None:
    """Run the claim controller once: remove deleted consumers, deallocate claims without any."""
    there = {pod.metadata.uid for pod in api.pods.values()}
    for key, claim in list(api.objects[CLAIM].items()):
        is_leaving = claim.metadata.deletion_timestamp is not None
        users = tuple(one for one in claim.status.reserved_for if one.uid in there)
        lost = len(claim.status.reserved_for) - len(users)
        after = claim
        if not users and (lost or is_leaving):
            after = with_meta(msgspec.structs.replace(claim, status=FREE), finalizers=())
        elif lost:
            status = msgspec.structs.replace(claim.status, reserved_for=users)
            after = msgspec.structs.replace(claim, status=status)
        if is_leaving and not users:
            api.remove(CLAIM, key)
        elif after != claim:
            api.put(CLAIM, after)


def given_twice(api: ModelApi) -> list[str]:
    """Return the devices that several claims have at once.

    Claims that a dead process wrote late do not count: only the lease's time keeps the two apart.
    """
    taken = Counter(
        f"{one.driver}/{one.pool}/{one.device}"
        for claim in api.objects[CLAIM].values()
        if claim.status.allocation is not None and path_of(claim) not in api.disturbed
        for one in claim.status.allocation.devices.results
    )
    return sorted(device for device, times in taken.items() if times > 1)
