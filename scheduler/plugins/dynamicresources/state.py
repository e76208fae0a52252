"""What DynamicResources knows of one pod in one attempt: from pre-filter to pre-bind."""

import msgspec

from scheduler.framework.nodes import Nodes
from scheduler.objects.claims import AllocationResult, ResourceClaim
from scheduler.objects.devices import DeviceClass
from scheduler.plugins.dynamicresources.extended import ExtendedClaim


class Allocated(msgspec.Struct):
    """A claim that got devices in this attempt; `extended` is what it is made of if it is to be made."""

    claim: ResourceClaim
    allocation: AllocationResult
    extended: ExtendedClaim | None = None


class Agreed(msgspec.Struct, frozen=True):
    """What a pod gets on a node, chosen together with what others of its group get."""

    node: str
    allocated: tuple[Allocated, ...]


class PodDevices(msgspec.Struct, eq=False):
    """The claims of a pod, and what was decided about them.

    `claims` are those of its spec. `served` are its extended resources that device classes serve where
    nodes do not, `leftover` the claim for them that an earlier attempt made. `unavailable` are places
    of claims that some node was refused for; `agreed` is chosen beforehand for a pod of a group,
    `allocated` is decided at reserve, `written` are claims as
    pre-bind has written them (by the uid they were decided under), `doubtful` those of which nobody
    knows.
    """

    claims: tuple[ResourceClaim, ...]
    served: dict[str, DeviceClass]
    leftover: ResourceClaim | None
    nodes: Nodes
    unavailable: set[int] = set()
    agreed: Agreed | None = None
    allocated: list[Allocated] = []
    written: dict[str, ResourceClaim] = {}
    doubtful: set[str] = set()

    @property
    def unallocated(self) -> tuple[ResourceClaim, ...]:
        """Return the claims of the pod's spec that are still to be allocated."""
        return tuple(claim for claim in self.claims if claim.status.allocation is None)
