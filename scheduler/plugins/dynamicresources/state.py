"""The state of DynamicResources for one pod in one attempt: from pre-filter to pre-bind."""

import msgspec

from scheduler.framework.nodes import Nodes
from scheduler.objects.claims import AllocationResult, ResourceClaim
from scheduler.objects.devices import DeviceClass
from scheduler.plugins.dynamicresources.extended import ExtendedClaim


class Allocated(msgspec.Struct):
    """A claim allocated in this attempt; `extended` is its template if it must be created."""

    claim: ResourceClaim
    allocation: AllocationResult
    extended: ExtendedClaim | None = None


class Agreed(msgspec.Struct, frozen=True):
    """A pod's devices on a node, chosen together with those of other members of its group."""

    node: str
    allocated: tuple[Allocated, ...]


class PodDevices(msgspec.Struct, eq=False):
    """The claims of a pod, and the decisions about them.

    `claims` are those of its spec. `served` are its extended resources that device classes serve
    where nodes do not, `leftover` the claim for them from an earlier attempt. `unavailable` are
    indexes of claims that excluded some node; `agreed` is chosen in advance for a pod of a group,
    `allocated` is decided at reserve, `written` are claims as pre-bind has written them (by the uid
    they were decided under), `doubtful` those with an unknown result.
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
        """Return the claims of the pod's spec that must still be allocated."""
        return tuple(claim for claim in self.claims if claim.status.allocation is None)
