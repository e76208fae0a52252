"""DynamicResources: pods that need devices to be allocated are held, with the reason.

Allocating devices is not supported. A pod with resource claims is never bound without them, and an
extended resource that a node would only give through a DeviceClass does not count as there. What the
plugin adds to messages is what kube-scheduler adds, so that they read the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import ClassVar

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.args import Args
from scheduler.framework.calls import BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.duration import Duration, canonical, seconds
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Rejected,
    Status,
    reject,
    unresolvable,
    unschedulable,
)
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceclasses import DEVICE_CLASS, class_backed
from scheduler.state.change import Change
from scheduler.state.resources import amounts, counted, pod_requests

NO_CLAIMS = "no new claims to deallocate"
NOT_REACHED = "not found"


class DynamicResourcesArgs(Args):
    """Time limits of the allocation, which does not take place here; read so that files load."""

    filter_timeout: Duration = "10s"
    binding_timeout: Duration = "10m0s"

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield what kube-scheduler refuses."""
        if seconds(self.filter_timeout) < 0:
            shown = canonical(self.filter_timeout)
            yield "filterTimeout", f'Invalid value: "{shown}": must be zero or positive'
        if seconds(self.binding_timeout) < 1:
            shown = canonical(self.binding_timeout)
            yield "bindingTimeout", f'Invalid value: "{shown}": must be at least 1 second'


class DynamicResources(Plugin[DynamicResourcesArgs]):
    """Reject pods with resource claims, and nodes that give a resource only through a DeviceClass."""

    reads = ("node.allocatable", "self.requests", DEVICE_CLASS)
    local = True
    unread: ClassVar[Mapping[str, str]] = {"pre_filter": "not found"}

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._classes = handle.objects(DEVICE_CLASS)

    def pre_enqueue(self, _pod: Pod) -> Status | None:
        """Let every pod in: kube-scheduler waits silently for claims, here the pod is told at once."""
        return None

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Status | tuple[str, ...]:
        """Return the requested resources that device classes stand for, Skip without any."""
        refusal = _refusal(cycle.pod)
        if refusal is not None:
            return refusal
        return class_backed(self._classes, cycle.shape.requests) or SKIP

    def filter(self, _cycle: Cycle, nodes: Nodes, resources: tuple[str, ...]) -> Rejected | None:
        """Reject the nodes that do not offer one of the resources by themselves."""
        rejected = [
            reject(lacking, _unsupported(name), final=True)
            for name in resources
            if (lacking := _lacking(nodes, name)).any()
        ]
        return reduce(or_, rejected) if rejected else None

    def post_filter(self, _cycle: Cycle, _nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Say that there is nothing to deallocate, in kube-scheduler's words.

        kube-scheduler: without the state of its pre-filter this is an error, and ends post-filter.
        """
        if self.name not in failure.prefiltered_by:
            return PostFiltered(Status(Code.ERROR, (NOT_REACHED,)), text=NOT_REACHED)
        return PostFiltered(unschedulable(NO_CLAIMS), text=NO_CLAIMS)

    def score(self, _cycle: Cycle, nodes: Nodes, _resources: tuple[str, ...] | None) -> IntColumn:
        """Return 0: only the choice between alternative devices would score."""
        return nodes.constant(0)

    def reserve(self, cycle: Cycle, _node: str, _resources: object) -> Status | None:
        """Reject a pod with claims that came here because a profile disables the pre-filter."""
        return _refusal(cycle.pod)

    def unreserve(self, _cycle: Cycle, _node: str, _resources: object) -> None:
        """Nothing was reserved."""

    def pre_bind(
        self, cycle: Cycle, _node: str, _resources: object
    ) -> Generator[BindStep, CallResult, Status]:
        """Refuse to bind a pod with claims, whatever a profile disables."""
        yield from ()
        refusal = _refusal(cycle.pod)
        return SUCCESS if refusal is None else Status(Code.ERROR, refusal.reasons)

    def hint(self, change: Change, pod: Pod) -> bool:
        """Whether a node offers by itself what device classes stand for, or a class went away."""
        if pod.spec.resource_claims:
            return False
        if change.kind == "Pod":
            return True  # the pod itself asks for less
        requests = counted(pod_requests(pod))
        if change.kind == DEVICE_CLASS:
            old = change.old.resources if change.old is not None else ()
            new = change.new.resources if change.new is not None else ()
            return any(name in requests for name in set(old) - set(new))
        names = class_backed(self._classes, requests)
        before: Node | None = change.old
        return _offers(change.node, names) and (before is None or not _offers(before, names))


def _refusal(pod: Pod) -> Status | None:
    """Return why a pod with resource claims is held, None for any other."""
    if not pod.spec.resource_claims:
        return None
    names = " ".join(claim.name for claim in pod.spec.resource_claims)
    return unresolvable(f"pod uses resource claims, which are not supported yet: [{names}]")


def _unsupported(resource: str) -> str:
    return (
        f"node(s) offer {resource} only by dynamic resource allocation, which is not supported yet"
    )


def _lacking(nodes: Nodes, resource: str) -> BoolColumn:
    lacking: BoolColumn = nodes.allocatable(resource) <= 0
    return lacking & nodes.exists


def _offers(node: Node, resources: tuple[str, ...]) -> bool:
    offered = amounts(node.status.allocatable)
    return all(offered.get(name, 0) > 0 for name in resources)
