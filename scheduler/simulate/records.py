"""The result records: `Simulation` and its parts; their JSON is a public contract.

Plain data without behaviour; field order is the order in the JSON.
"""

from enum import StrEnum
from typing import Any

import msgspec

from scheduler.framework.groups import GroupReport
from scheduler.simulate.verdicts import NodeVerdict

API_VERSION = "trellis.dev/v1alpha1"


class Result(StrEnum):
    """The result of a pod."""

    SCHEDULED = "Scheduled"
    UNSCHEDULABLE = "Unschedulable"
    GATED = "Gated"
    WAITING = "Waiting"
    ERROR = "Error"


class PodName(msgspec.Struct, frozen=True):
    """A pod by name."""

    namespace: str
    name: str


class ClaimResult(msgspec.Struct, frozen=True):
    """The allocation of a pod's claim, as in the claim's status."""

    name: str
    allocation: Any


class PodResult(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that was to be placed; `message` is that of its PodScheduled condition.

    `nodes` is omitted unless details were requested, `claims` unless the pod uses any and is
    placed; `extended_resource_claim_status` is what is written to the pod's status. `scores` are
    the weighted ones of the chosen node by plugin, omitted unless requested; `woken_by` are the
    changes, as texts, that requeue a rejected pod, omitted likewise. `group` is `namespace/name` of
    the pod's group, omitted for a pod on its own.
    """

    namespace: str
    name: str
    profile: str
    result: Result
    node: str | None = None
    reason: str = ""
    message: str = ""
    nominated_node: str | None = None
    victims: tuple[PodName, ...] = ()
    nodes: tuple[NodeVerdict, ...] | msgspec.UnsetType = msgspec.UNSET
    claims: tuple[ClaimResult, ...] | msgspec.UnsetType = msgspec.UNSET
    extended_resource_claim_status: Any = msgspec.UNSET
    scores: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    woken_by: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    group: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A simulation in numbers."""

    scheduled: int
    unschedulable: int
    network_cost: int = 0


class Simulation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer of `simulate`: pods in the order of their first attempts."""

    api_version: str = API_VERSION
    kind: str = "Simulation"
    queue_order: tuple[str, ...]
    pods: tuple[PodResult, ...]
    groups: tuple[GroupReport, ...] = ()
    summary: Summary

    @property
    def fits(self) -> bool:
        """Return whether every pod was placed."""
        return all(pod.result is Result.SCHEDULED for pod in self.pods)

    @property
    def is_proven(self) -> bool:
        """Return whether every placed group is proven optimal."""
        return all(group.optimal for group in self.groups if group.objective)


class LastVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """The result of the last attempt of a pod, as the daemon returns it.

    `rejected` counts nodes by plugin and reason; `scores` are those of the chosen node. `nodes` is
    the verdict on each node, best first, None where it is not stored.
    """

    namespace: str
    name: str
    uid: str
    at: str
    profile: str
    node: str
    message: str
    nominated_node: str | None
    victims: tuple[PodName, ...]
    attempts: int
    feasible_nodes: int
    all_nodes: int
    rejected: dict[str, dict[str, int]]
    scores: dict[str, dict[str, int]]
    nodes: tuple[NodeVerdict, ...] | None = None
