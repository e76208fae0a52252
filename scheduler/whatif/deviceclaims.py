"""The claim controller and the device drivers of a simulation.

In a cluster a controller makes the claims of pods from their templates, and drivers report when a
device is ready to be used. Here both happen at once: a pod that names a template has its claim before
it is queued, and every condition that an allocated device waits for comes true. Called by `stage`
before anything is scheduled, and by `Rest` after each write of a claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from scheduler.engine.effects import Watched
from scheduler.objects.claims import (
    MOST_RESERVED,
    POD_CLAIM_NAME,
    AllocatedDeviceStatus,
    ClaimMeta,
    ResourceClaim,
    ResourceClaimTemplate,
)
from scheduler.objects.meta import Condition, OwnerReference
from scheduler.objects.pod import Pod, PodResourceClaimStatus

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"


def claims_made(
    pods: Iterable[Pod], templates: Mapping[str, ResourceClaimTemplate]
) -> Iterator[tuple[Pod, tuple[ResourceClaim, ...]]]:
    """Yield each pod as its claims are made, with the claims that were not there."""
    for pod in pods:
        known = {one.name for one in pod.status.resource_claim_statuses}
        made: list[ResourceClaim] = []
        statuses = list(pod.status.resource_claim_statuses)
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_template_name
            template = templates.get(f"{pod.metadata.namespace}/{name}") if name else None
            if template is None or entry.name in known:
                continue
            claim = _from_template(pod, entry.name, template)
            made.append(claim)
            statuses.append(PodResourceClaimStatus(entry.name, claim.metadata.name))
        if made:
            status = replace(pod.status, resource_claim_statuses=tuple(statuses))
            pod = replace(pod, status=status)  # noqa: PLW2901 - the same pod, later
        yield pod, tuple(made)


def _from_template(pod: Pod, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
    meta, wanted = pod.metadata, template.spec.metadata
    name = f"{meta.name}-{entry}-made"
    owner = OwnerReference("v1", "Pod", meta.name, meta.uid, controller=True)
    return ResourceClaim(
        ClaimMeta(
            name=name,
            namespace=meta.namespace,
            uid=f"{CLAIM}/{meta.namespace}/{name}",
            resource_version="1",
            generate_name=f"{meta.name}-{entry}-",
            labels=wanted.labels,
            annotations=wanted.annotations | {POD_CLAIM_NAME: entry},
            owner_references=(owner,),
        ),
        template.spec.spec,
    )


def refusal(claim: ResourceClaim) -> str:
    """Return why the API server does not take a claim, an empty text if it does."""
    users = len(claim.status.reserved_for)
    if users <= MOST_RESERVED:
        return ""
    return (
        f'ResourceClaim.resource.k8s.io "{claim.metadata.name}" is invalid: status.reservedFor: '
        f"Too many: {users}: must have at most {MOST_RESERVED} items"
    )


def reported(claim: ResourceClaim) -> Watched | None:
    """Return what the drivers of a claim's devices report; None if nobody waits for them."""
    allocation = claim.status.allocation
    if allocation is None:
        return None
    known = {(one.driver, one.pool, one.device) for one in claim.status.devices}
    devices = [
        AllocatedDeviceStatus(
            one.driver,
            one.pool,
            one.device,
            one.share_id,
            tuple(Condition(name, "True", reason="Ready") for name in one.binding_conditions),
        )
        for one in allocation.devices.results
        if one.binding_conditions and (one.driver, one.pool, one.device) not in known
    ]
    if not devices:
        return None
    status = replace(claim.status, devices=(*claim.status.devices, *devices))
    version = claim.metadata.resource_version
    following = str(int(version) + 1) if version.isdecimal() else "1"
    meta = replace(claim.metadata, resource_version=following)
    return Watched(CLAIM, "MODIFIED", replace(claim, metadata=meta, status=status))
