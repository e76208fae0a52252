"""NodeResourcesFit: nodes must have room for what the pod requests; score by how much is given out."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import ClassVar

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.framework.args import Args
from scheduler.framework.cycle import Cycle
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.pershape import PerSpec
from scheduler.framework.plugin import Plugin
from scheduler.framework.rowcache import Cell, Columns, RowCache
from scheduler.framework.rowrule import CellRule, RowRule
from scheduler.framework.status import Reason, Rejected
from scheduler.objects.names import qualified_name_problem
from scheduler.objects.pod import Pod
from scheduler.plugins.allocation import ResourceSpec, ScoringStrategy, Strategy, build_strategy
from scheduler.plugins.deviceclasses import DEVICE_CLASS, class_backed
from scheduler.state.change import Change
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
_ALWAYS_COUNTED = (CPU, MEMORY, EPHEMERAL)

# (resource, amount) for each resource that the pod wants, in the order of the reasons.
Wanted = tuple[tuple[str, int], ...]
# (resource, amount) for each resource of the strategy that counts for the pod.
Scored = tuple[tuple[ResourceSpec, int], ...]


class NodeResourcesFitArgs(Args):
    """Which extended resources the filter leaves alone, and how nodes are scored."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = msgspec.field(default_factory=ScoringStrategy)

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield what kube-scheduler refuses when it builds the plugin."""
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
    """Reject nodes without room for the pod's effective requests, or for one more pod."""

    reads = ("node.allocatable", "pod.deleted", "pod.requests", "self.requests")
    local = True
    by_row = True
    on_the_spot = ("score",)
    by_shape = ("pre_filter", "pre_score")
    by_spec = True
    bounded = True
    unread: ClassVar[Mapping[str, str]] = {
        "pre_filter": "error reading {} from cycleState: not found"
    }

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._wanted = PerSpec(self._wants)
        self._room = RowCache(_room, _room_cells)
        self._scored = PerSpec(self._scored_amounts)
        self._scores = RowCache(self._score_columns, self._score_cells)
        self._strategies: dict[tuple[ResourceSpec, ...], Strategy] = {}

    def pre_filter(self, cycle: Cycle, _nodes: Nodes) -> Wanted:
        """Return what the pod wants of each resource."""
        return self._wanted.of(cycle)

    def filter(self, _cycle: Cycle, nodes: Nodes, wanted: Wanted) -> Rejected | None:
        """Reject nodes that lack room; final where a request exceeds all that a node offers."""
        short, final, *lacking = self._room.columns(wanted, nodes)
        if not np.count_nonzero(short):
            return None
        devices = class_backed(self.handle.objects(DEVICE_CLASS), (name for name, _ in wanted))
        if devices:
            short, final, *lacking = _without_devices(wanted, devices, nodes)
        texts = (REASON_PODS, *(f"Insufficient {resource}" for resource, _ in wanted))
        reasons = tuple(
            Reason(rows.copy(), text)
            for rows, text in zip(lacking, texts, strict=True)
            if np.count_nonzero(rows)
        )
        return Rejected(short.copy(), final.copy(), reasons)

    def filter_rule(self, cycle: Cycle) -> RowRule | None:
        """Return what the pod wants: pods that want the same amounts are alike.

        Extended resources are left out: what device classes say of them may change.
        """
        wanted = self._wanted.of(cycle)
        if any(is_extended(name) for name, _ in wanted):
            return None

        def cells(nodes: Nodes) -> CellRule:
            room = _room_cells(wanted, nodes)
            return lambda row: not room(row)[0]

        return RowRule(wanted, cells)

    def pre_score(self, cycle: Cycle, *_: object) -> Scored:
        """Return what the pod adds to each resource of the strategy."""
        return self._scored.of(cycle)

    def score(self, cycle: Cycle, nodes: Nodes, _scored: object) -> IntColumn:
        """Return 0..100 by the strategy."""
        return self._scores.lend(self._scored.of(cycle), nodes)

    def score_rule(self, cycle: Cycle) -> RowRule:
        """Return what the pod adds: pods that add the same amounts are alike."""
        scored = self._scored.of(cycle)
        return RowRule(scored, lambda nodes: self._score_cell(scored, nodes))

    def hint(self, change: Change, pod: Pod) -> bool:
        """Whether the pod may find room now: room was given back, or a node grew or appeared."""
        if change.kind == "Node":
            old = None if change.old is None else amounts(change.old.status.allocatable)
            return _grew(self._wants(pod), old, amounts(change.node.status.allocatable))
        before, after = change.before, change.after
        if change.verb != "update" or before is None or after is None:
            return True  # a pod went away, or the waiting pod itself asks for less
        return before.node != after.node or any(
            before.requests.get(name, 0) > after.requests.get(name, 0)
            for name, _ in self._wants(pod)
        )

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
        # kube-scheduler: pod-level requests of the incoming pod are not seen here.
        adds = pod_requests(pod, skip_pod_level=True, non_missing=ASSUMED_REQUESTS)
        specs = self.args.scoring_strategy.counted
        return tuple(
            (spec, adds.get(spec.name, 0))
            for spec in specs
            if spec.name in _ALWAYS_COUNTED or (is_counted(spec.name) and adds.get(spec.name))
        )

    def _score_columns(self, scored: Scored, nodes: Nodes) -> Columns:
        if not scored:
            return (np.zeros(nodes.size, dtype=np.int64),)
        held = np.array([_held(nodes, spec.name) for spec, _ in scored], dtype=np.int64)
        used = held + np.array([[amount] for _, amount in scored], dtype=np.int64)
        offered = nodes.offers([spec.name for spec, _ in scored])
        return (self._strategy(scored).column(offered, used),)

    def _score_cells(self, scored: Scored, nodes: Nodes) -> Cell:
        cell = self._score_cell(scored, nodes)
        return lambda row: (cell(row),)

    def _score_cell(self, scored: Scored, nodes: Nodes) -> CellRule:
        """Return what `_score_columns` says of one row."""
        cell = self._strategy(scored).cell
        columns = [
            (nodes.allocatable(spec.name).item, _held(nodes, spec.name).item, amount)
            for spec, amount in scored
        ]
        return lambda row: cell([(o(row), held(row) + amount) for o, held, amount in columns])

    def _strategy(self, scored: Scored) -> Strategy:
        specs = tuple(spec for spec, _ in scored)
        strategy = self._strategies.get(specs)
        if strategy is None:
            strategy = self._strategies[specs] = build_strategy(self.args.scoring_strategy, specs)
        return strategy


def _room(wanted: Wanted, nodes: Nodes) -> Columns:
    """Return the rows without room, those where that is final, and those of each reason."""
    short = nodes.allocatable(PODS) - nodes.requested(PODS) < 1
    final = np.zeros(nodes.size, dtype=np.bool_)
    lacking = [short]
    for name, amount in wanted:
        offered = nodes.allocatable(name)
        lacks = offered - nodes.requested(name) < amount
        lacking.append(lacks)
        short = short | lacks
        final |= offered < amount
    # Of a pod that wants nothing both would be one column, which is to be written to twice.
    return short if wanted else short.copy(), final, *lacking


def _without_devices(wanted: Wanted, devices: Container[str], nodes: Nodes) -> Columns:
    """Return what `_room` does, but leave `devices` to DynamicResources where no node names them."""
    _, _, pods, *lacking = _room(wanted, nodes)
    final = np.zeros_like(pods)
    for place, (name, amount) in enumerate(wanted):
        offered = nodes.allocatable(name)
        if name in devices:
            lacking[place] &= offered > 0
        final |= lacking[place] & (amount > offered)
    return np.any([pods, *lacking], axis=0), final, pods, *lacking


def _room_cells(wanted: Wanted, nodes: Nodes) -> Cell:
    """Return what `_room` says of one row."""
    pods_offered, pods_held = nodes.allocatable(PODS).item, nodes.requested(PODS).item
    columns = [
        (nodes.allocatable(name).item, nodes.requested(name).item, amount)
        for name, amount in wanted
    ]

    def cell(row: int) -> tuple[bool, ...]:
        lacking = [pods_offered(row) - pods_held(row) < 1]
        final = False
        for offered, held, amount in columns:
            offer = offered(row)
            lacking.append(amount > offer - held(row))
            final = final or amount > offer
        return True in lacking, final, *lacking

    return cell


def _held(nodes: Nodes, resource: str) -> IntColumn:
    """Return what a node's pods count for in scoring: cpu and memory with assumed amounts."""
    return nodes.scored(resource) if resource in ASSUMED_REQUESTS else nodes.requested(resource)


def _grew(wanted: Wanted, old: Amounts | None, new: Mapping[str, int]) -> bool:
    """Whether the pod fits the empty node, and the node is new or offers more of what it wants."""
    needed = ((PODS, 1), *wanted)
    if any(amount > new.get(name, 0) for name, amount in needed):
        return False
    return old is None or any(new.get(name, 0) > old.get(name, 0) for name, _ in needed)


def _name_faults(field: str, name: str) -> Iterator[tuple[str, str]]:
    problem = qualified_name_problem(name)
    if problem:
        yield field, f'Invalid value: "{name}": {problem}'
