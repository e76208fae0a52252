"""DynamicResources: place a pod where its device claims are usable, or can be allocated.

Allocated claims restrict the nodes; for the others a node must have devices that fit. The devices
found for the chosen node are reserved at reserve and written at pre-bind. Extended resources that a
DeviceClass serves become a claim of their own where a node does not offer them itself.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from itertools import count
from typing import ClassVar
from uuid import NAMESPACE_OID, uuid5

import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.framework.calls import ApiCall, BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.duration import seconds
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import EACH_POD, Plugin
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Rejected,
    Status,
    unresolvable,
    unschedulable,
)
from scheduler.framework.together import AssignedMember, MemberConflict, MemberDemand, RowCapacity
from scheduler.objects.claims import (
    AllocationResult,
    ClaimMeta,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.objects.devices import DeviceClass
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceclasses import DEVICE_CLASS
from scheduler.plugins.dynamicresources import hints, podclaims, writing
from scheduler.plugins.dynamicresources.allocation.requests import UnsupportedError
from scheduler.plugins.dynamicresources.allocation.results import allocation_of
from scheduler.plugins.dynamicresources.allocation.rules import rules_of
from scheduler.plugins.dynamicresources.allocation.search import (
    STEPS_PER_S,
    ChosenDevice,
    SearchError,
)
from scheduler.plugins.dynamicresources.allocation.slices import SLICE
from scheduler.plugins.dynamicresources.allocation.tainting import RULE
from scheduler.plugins.dynamicresources.args import DynamicResourcesArgs
from scheduler.plugins.dynamicresources.catalog import device_catalog
from scheduler.plugins.dynamicresources.extended import IN_MEMORY_NAME, class_of
from scheduler.plugins.dynamicresources.filtering import (
    NO_DEVICES,
    ClaimGroup,
    Filtering,
    groups_of,
)
from scheduler.plugins.dynamicresources.joint import Joint
from scheduler.plugins.dynamicresources.outcomes import ClaimKind, Outcomes
from scheduler.plugins.dynamicresources.prebind import PreBinding
from scheduler.plugins.dynamicresources.state import Agreed, Allocated, PodDevices
from scheduler.state.change import Change
from scheduler.state.resources import counted, pod_requests

NO_CLAIMS = "no new claims to deallocate"
NOT_REACHED = "not found"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
HOPELESS = "still not schedulable"
UNPREPARED = "pod has resource claims, and its profile disables the pre-filter that looks at them"


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Reject nodes without the pod's devices; allocate them before the pod is bound."""

    reads = (
        "node.allocatable",
        "node.labels",
        "pod.deleted",
        "self.claims",
        "self.requests",
        podclaims.CLAIM,
        SLICE,
        RULE,
        DEVICE_CLASS,
        *podclaims.GROUP_KINDS,
    )
    local = True
    normalize = "max"
    unread: ClassVar[Mapping[str, str]] = {"pre_filter": "not found"}

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._classes = handle.objects(DEVICE_CLASS)
        self._claims = podclaims.ClaimLookup(handle.objects)
        self._catalog = device_catalog(handle)
        limit_s = seconds(args.filter_timeout)
        self._outcomes = Outcomes(
            self._catalog,
            self._classes,
            int(limit_s * STEPS_PER_S) if limit_s else None,
            rules_of(handle),
        )
        timeout_s = seconds(args.binding_timeout)
        self._filtering = Filtering(self._catalog, self._outcomes, timeout_s)
        self._pre_binding = PreBinding(self._catalog, self._claims, handle, timeout_s)
        self._joint = Joint(
            self._catalog,
            self._outcomes,
            self._filtering,
            self._claims,
            self._wanted,
            self._grant,
        )
        self.key_follows = (self._classes,)
        self._serving = (-1, class_of({}))

    def key(self, pod: Pod) -> Hashable:
        """Return one key for all pods without devices, for which all nodes are equal.

        None would skip the score as well, and with it the 0 that kube-scheduler reports for such
        pods.
        """
        if pod.spec.resource_claims or self._served(counted(pod_requests(pod))):
            return EACH_POD
        return ()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Gate a pod until its claims exist."""
        if not pod.spec.resource_claims:
            return None
        try:
            for _ in self._claims.of(pod):
                pass
        except podclaims.NotReadyError as fault:
            if fault.missing:
                self.handle.missing(pod, self.name, podclaims.CLAIM, str(fault))
            return unresolvable(str(fault))
        return None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | PodDevices:
        """Return the pod's claims, Skip without any.

        Reject the pod if a claim is not available now.
        """
        pod = cycle.pod
        served = self._served(cycle.shape.requests)
        if not pod.spec.resource_claims and not served:
            return SKIP
        try:
            claims = tuple(self._claims.of(pod))
        except podclaims.NotReadyError as fault:
            return unresolvable(str(fault))
        leftover = self._catalog.extended_claim(pod.metadata.uid) if served else None
        devices = PodDevices(claims, served, leftover, nodes)
        if not claims and not served:
            return SKIP
        for claim in devices.unallocated:
            pending = self._catalog.pending(claim)
            if pending is not None and pod.metadata.uid not in pending.pods:
                text = f"resource claim {claim.key} is in the process of being allocated"
                return unresolvable(text)
            fault_text = self._fault(claim)
            if fault_text:
                return unresolvable(fault_text)
        return devices

    def filter(self, cycle: Cycle, nodes: Nodes, devices: PodDevices) -> Rejected | None:
        """Reject the nodes without devices for the pod, and those where its devices are not
        usable.
        """
        try:
            return self._filtering.rejected(cycle, nodes, devices)
        except UnsupportedError as fault:
            names = [claim.key for claim in devices.unallocated]
            raise ValueError(str(fault).format(claim=names[fault.claim])) from fault

    def post_filter(self, cycle: Cycle, _nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Deallocate a claim whose devices exclude all nodes and that no other pod uses."""
        if self.name not in failure.prefiltered_by:
            return PostFiltered(Status(Code.ERROR, (NOT_REACHED,)), text=NOT_REACHED)
        devices = failure.attempted.state(self.name)
        if not isinstance(devices, PodDevices):
            return self._helpless(NO_CLAIMS)
        blocking = [devices.claims[place] for place in sorted(devices.unavailable)]
        free = [
            claim
            for claim in blocking
            if len(claim.status.reserved_for) <= 1 and self._is_unused(claim, (cycle.pod,))
        ]
        if free:
            # kube-scheduler has no criterion for this choice either.
            one = free[cycle.random.randrange(len(free))]
            text, calls = DEALLOCATED, tuple[ApiCall, ...]((writing.deallocate_call(one),))
        elif devices.leftover is not None:
            text, calls = DELETED, writing.delete_calls(devices.leftover)
        else:
            return self._helpless(HOPELESS)
        return PostFiltered(unschedulable(text), text=text, calls=calls)

    def _helpless(self, text: str) -> PostFiltered:
        """Return the result for a pod for which no claim can be freed; 1.37 gives no reason."""
        if self._outcomes.rules.is_1_37:
            return PostFiltered(unschedulable())
        return PostFiltered(unschedulable(text), text=text)

    def score(self, cycle: Cycle, nodes: Nodes, devices: PodDevices | None) -> IntColumn:
        """Return the score of the alternatives that a node can provide; 0 without any."""
        if devices is None:
            return nodes.constant(0)
        return self._filtering.scores(cycle, nodes, devices)

    def score_cells(
        self, cycle: Cycle, nodes: Nodes, devices: PodDevices | None
    ) -> Callable[[int], int]:
        """Return the scores of single rows.

        By `key` they are cached for pods without devices only.
        """
        return self.score(cycle, nodes, devices).item

    def row_capacity(
        self, cycle: Cycle, nodes: Nodes, demand: MemberDemand, devices: PodDevices
    ) -> RowCapacity:
        """Return how many pods with such claims each row has devices for."""
        return self._joint.row_capacity(cycle, nodes, demand, devices)

    def assign_together(self, assigned: Sequence[AssignedMember]) -> MemberConflict | None:
        """Choose devices for all these pods of a group, each on its node."""
        return self._joint.assign_together(assigned)

    def release_allocations(self, members: Sequence[Pod]) -> tuple[ApiCall, ...]:
        """Deallocate claims from an earlier attempt of a group's pods if no other pod uses them.

        They would bind the group to nodes where it does not fit any more, and block the devices.
        """
        found: dict[str, ResourceClaim] = {}
        for pod in members:
            try:
                found.update((claim.key, claim) for claim in self._claims.of(pod))
            except podclaims.NotReadyError:
                continue
        return tuple(
            writing.deallocate_call(claim)
            for claim in found.values()
            if claim.status.allocation is not None
            and self._catalog.pending(claim) is None
            and self._is_unused(claim, members)
        )

    def reserve(self, cycle: Cycle, node: str, devices: PodDevices | None) -> Status | None:
        """Reserve devices for the pod's claims."""
        if devices is None:
            return self._unprepared(cycle.pod)
        try:
            return self._reserve(cycle, node, devices)
        except SearchError as fault:
            return Status(Code.ERROR, (str(fault),))

    def unreserve(
        self, cycle: Cycle, _node: str, devices: PodDevices | None
    ) -> tuple[ApiCall, ...] | None:
        """Release the reservation; return the calls that undo writes."""
        return None if devices is None else self._pre_binding.undo(cycle.pod, devices)

    def pre_bind(
        self, cycle: Cycle, node: str, devices: PodDevices | None
    ) -> Generator[BindStep, CallResult, Status]:
        """Write the allocations and wait until devices are ready."""
        if devices is None:
            refusal = self._unprepared(cycle.pod)
            return SUCCESS if refusal is None else Status(Code.ERROR, refusal.reasons)
        return (yield from self._pre_binding.steps(cycle, node, devices))

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the change may make devices available to the pod's claims, or a node to
        the pod.
        """
        return hints.helps(change, pod, self._claims)

    def _is_unused(self, claim: ResourceClaim, waiting: Sequence[Pod]) -> bool:
        """Return whether a claim is reserved only for these waiting pods, or for a group of
        them.
        """
        uids = {pod.metadata.uid for pod in waiting}
        others = [one for one in claim.status.reserved_for if one.uid not in uids]
        if not others:
            return True
        users = {self._claims.user(pod, claim).uid for pod in waiting}
        group = waiting[0].spec.scheduling_group
        return all(
            one.resource == podclaims.PODGROUPS and one.uid in users for one in others
        ) and not any(
            placed.pod.spec.scheduling_group == group
            and placed.pod.metadata.namespace == claim.metadata.namespace
            for placed in self.handle.pods
        )

    def _unprepared(self, pod: Pod) -> Status | None:
        """Return why a pod with claims fits nowhere if a profile disables the pre-filter."""
        if not pod.spec.resource_claims:
            return None
        try:
            needs_none = not any(True for _ in self._claims.of(pod))
        except podclaims.NotReadyError as fault:
            return unresolvable(str(fault))
        return None if needs_none else unresolvable(UNPREPARED)

    def _served(self, requests: Iterable[str]) -> dict[str, DeviceClass]:
        """Return those of some resources that device classes serve."""
        if not self._classes:
            return {}
        version, serving = self._serving
        if version != self._classes.version:
            serving = class_of(self._classes)
            self._serving = (self._classes.version, serving)
        return {name: serving[name] for name in requests if name in serving}

    def _fault(self, claim: ResourceClaim) -> str:
        """Return why a claim cannot be allocated anywhere, or ''."""
        for request in claim.spec.devices.requests:
            alternatives = request.first_available or (
                (request.exactly,) if request.exactly else ()
            )
            if not alternatives:
                return f"resource claim {claim.key}, request {request.name}: unknown request type"
            for requested in alternatives:
                path = (
                    f"{request.name}/{requested.name}" if request.first_available else request.name
                )
                if requested.device_class_name not in self._classes:
                    return (
                        f"request {path}: device class {requested.device_class_name} does not exist"
                    )
        return ""

    def _reserve(self, cycle: Cycle, node: str, devices: PodDevices) -> Status | None:
        """Search the devices again, on the chosen node alone, and reserve them."""
        agreed = devices.agreed
        if agreed is None or agreed.node != node:
            wanted = self._wanted(cycle, node, devices)
            if not wanted:
                return None
            kind = self._outcomes.kind_of([one.claim.spec for one in wanted])
            found = self._outcomes.search(kind, [one.claim.key for one in wanted], node)
            if found is None:
                return unresolvable(NO_DEVICES)
            for place, one in enumerate(wanted):
                one.allocation = self._grant(cycle, one.claim, kind, place, found[place], node)
            agreed = Agreed(node, tuple(wanted))
        for one in agreed.allocated:
            results = one.allocation.devices.results
            self._catalog.reserve(one.claim, cycle.pod.metadata.uid, results)
            devices.allocated.append(one)
        return None

    def _wanted(self, cycle: Cycle, node: str, devices: PodDevices) -> list[Allocated]:
        """Return the pod's claims to allocate on a node, still without devices."""
        group = self._group_of(cycle.pod, node, devices)
        if group is None:
            return []
        wanted = [Allocated(claim, AllocationResult()) for claim in devices.unallocated]
        if group.extended is not None:
            made = _to_be_made(cycle.pod, group.extended.spec)
            wanted.append(Allocated(made, AllocationResult(), group.extended))
        return wanted

    def _grant(
        self,
        cycle: Cycle,
        claim: ResourceClaim,
        kind: ClaimKind,
        place: int,
        chosen: Sequence[ChosenDevice],
        node: str,
    ) -> AllocationResult:
        """Return the allocation of the claim at `place` of its kind from its chosen devices."""
        return allocation_of(
            claim.spec, kind.plan.claims[place], chosen, node, self._classes,
            _share_ids(cycle, claim), is_1_37=self._outcomes.rules.is_1_37,
        )  # fmt: skip

    def _group_of(self, pod: Pod, node: str, devices: PodDevices) -> ClaimGroup | None:
        row = devices.nodes.row(node)
        if row is None:
            return None
        alone = devices.nodes.only(np.array([row], dtype=np.intp))
        return next(groups_of(pod, alone, devices), None)


def _share_ids(cycle: Cycle, claim: ResourceClaim) -> Callable[[], str]:
    """Return a function that returns ids of shares, unique across claims and attempts."""
    base = f"{podclaims.identity(claim)} {cycle.pod.metadata.uid} {cycle.now}"
    numbers = count()
    return lambda: str(uuid5(NAMESPACE_OID, f"{base} {next(numbers)}"))


def _to_be_made(pod: Pod, spec: ResourceClaimSpec) -> ResourceClaim:
    """Return a placeholder for a claim until it is created, with a unique name and uid."""
    meta = pod.metadata
    uid = f"{IN_MEMORY_NAME} {meta.uid}"
    return ResourceClaim(ClaimMeta(IN_MEMORY_NAME, meta.namespace, uid), spec)
