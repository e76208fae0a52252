"""NodeResourcesFit: nodes must have free capacity for the pod's requests; score by utilization."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import ClassVar

import msgspec
import numpy as np

from scheduler.framework import (
    Args,
    BoolColumn,
    Change,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    PerPod,
    PerSpec,
    Plugin,
    Pod,
    Reason,
    Rejected,
)
from scheduler.objects.names import qualified_name_problem
from scheduler.plugins.allocation import ResourceSpec, ScoringStrategy, Strategy, build_strategy
from scheduler.plugins.deviceclasses import DEVICE_CLASS, class_backed
from scheduler.state.resources import (
    ASSUMED_REQUESTS,
    CPU,
    EPHEMERAL,
    MEMORY,
    PODS,
    Amounts,
    amounts,
    counted,
    is_counted,
    is_extended,
    pod_requests,
)

REASON_PODS = "Too many pods"
LARGEST_PRIORITY = 2**31 - 1
SMALLEST_PRIORITY = -(2**31)
UNBOUNDED = 2**63 - 1
_ALWAYS_COUNTED = (CPU, MEMORY, EPHEMERAL)

Cells = Callable[[int], int]
# (resource, amount) for each resource that the pod requests, in the order of the reasons.
Wanted = tuple[tuple[str, int], ...]
# (resource, amount) for each resource of the strategy that counts for the pod.
Scored = tuple[tuple[ResourceSpec, int], ...]


class NodeResourcesFitArgs(Args):
    """The extended resources that the filter ignores, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = msgspec.field(default_factory=ScoringStrategy)

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the values that kube-scheduler rejects when it builds the plugin."""
        for index, name in enumerate(self.ignored_resources):
            yield from _name_faults(f"ignoredResources[{index}]", name)
        for index, group in enumerate(self.ignored_resource_groups):
            field = f"ignoredResourceGroups[{index}]"
            if "/" in group:
                yield field, f"Invalid value: \"{group}\": resource group name can't contain '/'"
            yield from _name_faults(field, group)
        for name, message in self.scoring_strategy.faults():
            yield f"scoringStrategy.{name}", message


class NodeResourcesFit(Plugin[NodeResourcesFitArgs]):
    """Reject nodes without free capacity for the pod's effective requests, or for one more pod."""

    reads = ("node.allocatable", "pod.deleted", "pod.requests", "self.requests")
    local = True
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
    }

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._wanted = PerSpec(self._wants)
        self._scored = PerSpec(self._scored_amounts)
        self._wants_of = PerPod(self._wants)
        self._strategies: dict[tuple[ResourceSpec, ...], Strategy] = {}
        self._classes = handle.objects(DEVICE_CLASS)
        # For the pod deleted last: the change, the free amounts of its node, the lowest priority
        # there. Capacity freed later is another change.
        self._left: tuple[Change, Amounts | None, Amounts, int] | None = None
        self.key_follows = (self._classes,)

    def key(self, pod: Pod) -> tuple[Wanted, Scored, tuple[str, ...]]:
        """Return the pod's filter and score amounts, and the resources that device classes
        serve.
        """
        wanted = self._wants(pod)
        return wanted, self._scored_amounts(pod), self._devices(wanted)

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Wanted:
        """Return the pod's request of each resource."""
        return self._wanted.of(cycle)

    def filter(self, _cycle: Cycle, nodes: Nodes, wanted: Wanted) -> Rejected | None:
        """Reject nodes without enough free capacity; final where a request exceeds allocatable."""
        devices = self._devices(wanted)
        lacking = _lacking(wanted, devices, nodes)
        short = reduce(or_, lacking)
        if not np.count_nonzero(short):
            return None
        texts = (REASON_PODS, *(f"Insufficient {resource}" for resource, _ in wanted))
        reasons = tuple(
            Reason(rows, text)
            for rows, text in zip(lacking, texts, strict=True)
            if np.count_nonzero(rows)
        )
        return Rejected(short, _final(wanted, devices, nodes), reasons)

    def pre_score(self, cycle: Cycle, *_: object) -> Scored:
        """Return the pod's contribution to each resource of the strategy."""
        return self._scored.of(cycle)

    def score(self, cycle: Cycle, nodes: Nodes, _scored: object) -> IntColumn:
        """Return 0..100 by the strategy."""
        scored = self._scored.of(cycle)
        if not scored:
            return nodes.constant(0)
        occupied = np.array([_occupied(nodes, spec.name) for spec, _ in scored], dtype=np.int64)
        used = occupied + np.array([[amount] for _, amount in scored], dtype=np.int64)
        offered = nodes.offers([spec.name for spec, _ in scored])
        return self._strategy(scored).column(offered, used)

    def score_cells(self, cycle: Cycle, nodes: Nodes, _scored: object) -> Cells:
        """Return the scores of single rows."""
        scored = self._scored.of(cycle)
        if not scored:
            return lambda _row: 0
        cell = self._strategy(scored).cell
        columns = [
            (nodes.allocatable(spec.name).item, _occupied(nodes, spec.name).item, amount)
            for spec, amount in scored
        ]
        return lambda row: cell(
            [(o(row), occupied(row) + amount) for o, occupied, amount in columns]
        )

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the pod may fit now: capacity was freed, or a node grew or appeared."""
        if change.kind == "Node":
            old = None if change.old is None else amounts(change.old.status.allocatable)
            return _grew(self._wants_of.of(pod), old, amounts(change.node.status.allocatable))
        before, after = change.before, change.after
        if change.verb == "delete" and before is not None:
            return self._takes_now(before.node, change, pod)
        if change.verb != "update" or before is None or after is None:
            return True  # a nomination ended, or the waiting pod itself requests less
        return before.node != after.node or any(
            before.requests.get(name, 0) > after.requests.get(name, 0)
            for name, _ in self._wants_of.of(pod)
        )

    def _takes_now(self, name: str, change: Change, pod: Pod) -> bool:
        """Return whether a pod's former node fits this pod now, or would after evictions.

        kube-scheduler wakes every pod that requests any of the freed resources, and so retries pods
        that fit nowhere whenever any pod ends.
        """
        wanted = self._wants_of.of(pod)
        free, offered, lowest = self._left_on(name, change)
        if free is None or (self._classes and self._devices(wanted)):
            return True
        there = offered if lowest < pod.priority else free
        return all(amount <= there.get(name, 0) for name, amount in ((PODS, 1), *wanted))

    def unbounded(self, nodes: Nodes, resources: Iterable[str]) -> dict[str, BoolColumn]:
        """Return the rows where the filter leaves a resource to an extender, or to
        DynamicResources.
        """
        names = tuple(resources)
        ignored = {name: nodes.exists for name in names if self._ignores(name)}
        devices = class_backed(self._classes, names)
        return {name: nodes.allocatable(name) <= 0 for name in devices} | ignored

    def needs(self, key: tuple[Wanted, Scored, tuple[str, ...]]) -> Wanted:
        """Return the requests of a pod with this key, including one pod slot."""
        return (PODS, 1), *key[0]

    def chances(
        self, change: Change, names: Iterable[str]
    ) -> list[tuple[int, Mapping[str, int]]] | None:
        """Return bounds on a node's free amounts for `hint`, or on allocatable ones for preemptors.

        Resources of device classes need not come from nodes.
        """
        if change.kind == "Node":
            return [(SMALLEST_PRIORITY, amounts(change.node.status.allocatable))]
        if change.verb != "delete" or change.before is None:
            return None
        free, offered, lowest = self._left_on(change.before.node, change)
        if free is None:
            return None
        anywhere = dict.fromkeys(self._devices((name, 0) for name in names), UNBOUNDED)
        return [
            (SMALLEST_PRIORITY, {**free, **anywhere}),
            (lowest + 1, {**offered, **anywhere}),
        ]

    def _left_on(self, name: str, change: Change) -> tuple[Amounts | None, Amounts, int]:
        """Return a node's free amounts (None if unknown), its allocatable ones, and its lowest
        priority.
        """
        if self._left is None or self._left[0] is not change:
            self._left = (change, *self._left_now(name))
        return self._left[1:]

    def _left_now(self, name: str) -> tuple[Amounts | None, Amounts, int]:
        node = self.handle.node(name)
        if node is None:
            return None, {}, 0
        placed = self.handle.pods.on(name).values()
        offered = amounts(node.status.allocatable)
        free = dict(offered)
        free[PODS] = free.get(PODS, 0) - len(placed)
        for one in placed:
            for resource, amount in one.requests.items():
                free[resource] = free.get(resource, 0) - amount
        return free, offered, min((one.pod.priority for one in placed), default=LARGEST_PRIORITY)

    def _wants(self, pod: Pod) -> Wanted:
        requests = counted(pod_requests(pod))
        named = [(name, requests[name]) for name in _ALWAYS_COUNTED if name in requests]
        others = [(n, a) for n, a in requests.items() if n not in _ALWAYS_COUNTED]
        return tuple((n, a) for n, a in (*named, *others) if not self._ignores(n))

    def _ignores(self, name: str) -> bool:
        if not is_extended(name):
            return False
        group = name.partition("/")[0]
        return name in self.args.ignored_resources or group in self.args.ignored_resource_groups

    def _scored_amounts(self, pod: Pod) -> Scored:
        # kube-scheduler: pod-level requests of the incoming pod are ignored here.
        adds = pod_requests(pod, skip_pod_level=True, non_missing=ASSUMED_REQUESTS)
        specs = self.args.scoring_strategy.counted
        return tuple(
            (spec, adds.get(spec.name, 0))
            for spec in specs
            if spec.name in _ALWAYS_COUNTED or (is_counted(spec.name) and adds.get(spec.name))
        )

    def _devices(self, wanted: Iterable[tuple[str, int]]) -> tuple[str, ...]:
        """Return the requested resources that device classes serve."""
        return class_backed(self._classes, [name for name, _ in wanted]) if self._classes else ()

    def _strategy(self, scored: Scored) -> Strategy:
        specs = tuple(spec for spec, _ in scored)
        strategy = self._strategies.get(specs)
        if strategy is None:
            strategy = self._strategies[specs] = build_strategy(self.args.scoring_strategy, specs)
        return strategy


def _lacking(wanted: Wanted, devices: Container[str], nodes: Nodes) -> list[BoolColumn]:
    """Return the rows without capacity for one more pod, and those without each amount.

    `devices` are left to DynamicResources where no node names them.
    """
    lacking = [nodes.allocatable(PODS) - nodes.requested(PODS) < 1]
    for name, amount in wanted:
        offered = nodes.allocatable(name)
        lacks = offered - nodes.requested(name) < amount
        lacking.append(lacks & (offered > 0) if name in devices else lacks)
    return lacking


def _final(wanted: Wanted, devices: Container[str], nodes: Nodes) -> BoolColumn:
    """Return the rows whose allocatable amounts are below the request, so that evictions cannot
    help.
    """
    final = np.zeros(nodes.size, dtype=np.bool_)
    for name, amount in wanted:
        offered = nodes.allocatable(name)
        final |= (offered < amount) & (offered > 0) if name in devices else offered < amount
    return final


def _occupied(nodes: Nodes, resource: str) -> IntColumn:
    """Return the amounts of a node's pods for scoring: cpu and memory with assumed requests."""
    return nodes.scored(resource) if resource in ASSUMED_REQUESTS else nodes.requested(resource)


def _grew(wanted: Wanted, old: Amounts | None, new: Mapping[str, int]) -> bool:
    """Return whether the pod fits the empty node, and the node is new or offers more of its
    requests.
    """
    needed = ((PODS, 1), *wanted)
    if any(amount > new.get(name, 0) for name, amount in needed):
        return False
    return old is None or any(new.get(name, 0) > old.get(name, 0) for name, _ in needed)


def _name_faults(field: str, name: str) -> Iterator[tuple[str, str]]:
    problem = qualified_name_problem(name)
    if problem:
        yield field, f'Invalid value: "{name}": {problem}'
