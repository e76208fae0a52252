"""The claim controller and the device drivers of a simulation.

In a cluster a controller creates the claims of pods from their templates, and drivers report when a
device is ready. Here both happen at once: a pod, or a PodGroup, that names a template has its claim
before it is queued, and every condition of an allocated device becomes true. Called by `stage`
before scheduling, and by `Rest` after each write of a claim.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

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
from scheduler.objects.groups.podgroup import (
    PodResourceClaim,
    PodResourceClaimStatus,
    WorkloadGroup,
)
from scheduler.objects.meta import Condition, OwnerReference
from scheduler.objects.pod import Pod

CLAIM, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"


Owner = TypeVar("Owner", Pod, WorkloadGroup)


def claims_made(
    pods: Iterable[Pod],
    templates: Mapping[str, ResourceClaimTemplate],
    groups: Mapping[str, WorkloadGroup],
) -> Iterator[tuple[Pod, tuple[ResourceClaim, ...]]]:
    """Yield each pod with its claims created, and the new claims.

    Entries of its group (by `namespace/name`) use the group's claims.
    """
    for pod in pods:
        named = pod.spec.scheduling_group
        key = f"{pod.metadata.namespace}/{named.pod_group_name}" if named else ""
        group = groups.get(key)
        entries = pod.spec.resource_claims
        if group is not None:
            entries = tuple(one for one in entries if one not in group.spec.resource_claims)
        yield _made(pod, entries, "v1", "Pod", templates)


def group_claims_made(
    groups: Iterable[WorkloadGroup],
    api_version: str,
    templates: Mapping[str, ResourceClaimTemplate],
) -> Iterator[tuple[WorkloadGroup, tuple[ResourceClaim, ...]]]:
    """Yield each PodGroup with its claims created, and the new claims."""
    for group in groups:
        yield _made(group, group.spec.resource_claims, api_version, "PodGroup", templates)


def _made(
    owner: Owner,
    entries: Iterable[PodResourceClaim],
    api_version: str,
    kind: str,
    templates: Mapping[str, ResourceClaimTemplate],
) -> tuple[Owner, tuple[ResourceClaim, ...]]:
    meta = owner.metadata
    statuses = list(owner.status.resource_claim_statuses)
    known = {one.name for one in statuses}
    made: list[ResourceClaim] = []
    for entry in entries:
        name = entry.resource_claim_template_name
        template = templates.get(f"{meta.namespace}/{name}") if name else None
        if template is None or entry.name in known:
            continue
        reference = OwnerReference(api_version, kind, meta.name, meta.uid, controller=True)
        claim = _from_template(meta.namespace, reference, entry.name, template)
        made.append(claim)
        statuses.append(PodResourceClaimStatus(entry.name, claim.metadata.name))
    if not made:
        return owner, ()
    # The status of a pod and that of a group both have the field; replace keeps all others.
    status: Any = replace(owner.status, resource_claim_statuses=tuple(statuses))
    return replace(owner, status=status), tuple(made)


def _from_template(
    namespace: str, owner: OwnerReference, entry: str, template: ResourceClaimTemplate
) -> ResourceClaim:
    wanted = template.spec.metadata
    name = f"{owner.name}-{entry}-made"
    return ResourceClaim(
        ClaimMeta(
            name=name,
            namespace=namespace,
            uid=f"{CLAIM}/{namespace}/{name}",
            resource_version="1",
            generate_name=f"{owner.name}-{entry}-",
            labels=wanted.labels,
            annotations=wanted.annotations | {POD_CLAIM_NAME: entry},
            owner_references=(owner,),
        ),
        template.spec.spec,
    )


def refusal(claim: ResourceClaim) -> str:
    """Return why the API server rejects a claim, or ''."""
    users = len(claim.status.reserved_for)
    if users <= MOST_RESERVED:
        return ""
    return (
        f'ResourceClaim.resource.k8s.io "{claim.metadata.name}" is invalid: status.reservedFor: '
        f"Too many: {users}: must have at most {MOST_RESERVED} items"
    )


def reported(claim: ResourceClaim) -> Watched | None:
    """Return the report of the drivers of a claim's devices; None if no condition is awaited."""
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
