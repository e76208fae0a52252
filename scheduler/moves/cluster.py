"""A snapshot and a goal → `Problem`: units, destinations by the profile's filters, rules, amounts.

Also keeps what converts the solution back: the pods behind the indexes, and why other pods stay.
Raises InputError for an invalid goal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError, ObjectError
from scheduler.framework.groups import title
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.sources import kueue
from scheduler.groups.sources import registry as sources
from scheduler.groups.topology.tree import PRESETS
from scheduler.moves import optouts
from scheduler.moves.eligible import Eligibility, MoveRules, age_s, is_bound_to_node, is_leaving
from scheduler.moves.facts import ClusterFacts, loads
from scheduler.moves.goals import CapacityGoal, FitGoal, FreeGoal, LoadGoal, MoveGoal
from scheduler.moves.pending import with_nominated
from scheduler.moves.reach import Destinations, touches_filters
from scheduler.moves.rules import HOSTNAME, Levels, PodRules
from scheduler.moves.solver.problem import (
    Amounts,
    Claim,
    Cool,
    Fit,
    Free,
    Goal,
    Limit,
    Node,
    Problem,
    Repair,
    Role,
    Unit,
)
from scheduler.moves.solver.problem import Pod as MovablePod
from scheduler.objects.pod import Pod
from scheduler.simulate.stage import AnswerOptions, Setup, StagedEngine, staged, take_apart
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.resources import PODS, counted, pod_requests

RESTART_WHOLE = (
    ("jobset.sigs.k8s.io/jobset-name", ""),
    ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
)
AFFINITY = "InterPodAffinity"


class ClusterProblem(msgspec.Struct, frozen=True):
    """A problem with the objects behind its numbers; `excluded` are (pod, reason) of pods that
    stay.
    """

    problem: Problem
    pods: tuple[Pod, ...]
    waiting: tuple[Pod, ...]
    roles: tuple[tuple[Pod, ...], ...]
    excluded: tuple[tuple[str, str], ...]
    level_names: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    units: tuple[int, ...]  # by resource, the amount that one unit of the problem stands for


class ProblemBuilder:
    """Builds one problem; the engines of the snapshot exist until the builder is deleted."""

    def __init__(
        self,
        snapshot: Snapshot,
        facts: ClusterFacts,
        setup: Setup,
        options: AnswerOptions,
        rules: MoveRules,
        waiting: Sequence[Pod] = (),
    ) -> None:
        self.snapshot, self.facts, self.setup = snapshot, facts, setup
        self.options, self._waiting = options, waiting
        self._alone = with_nominated(replace(snapshot, given=frozenset()), waiting)
        self._stage = staged(self._alone, setup, options)
        self.now = self._stage.now
        profiles = frozenset(self._stage.engine.profiles)
        self.rules = rules
        self.eligibility = Eligibility(snapshot, facts, profiles, rules, self.now)
        self._nodes = snapshot.nodes
        self._rows = {node.metadata.name: at for at, node in enumerate(self._nodes)}
        self._levels = Levels(self._nodes)
        self._limits: list[Limit] = []

    def build(self, goal: MoveGoal, most_moves: int | None = None) -> ClusterProblem:
        """Return the problem that a goal poses in this cluster."""
        waiting = self._waiting
        destinations = Destinations(self._stage.engine, self.now, self._rows)
        units, excluded = self._units(waiting, goal)
        pods = [pod for unit in units for pod in unit]
        rules = PodRules([*pods, *waiting], self._levels)
        if rules.is_too_large:
            raise InputError("the movable pods have too many different affinity terms for a plan")
        moving = {pod.metadata.uid for pod in pods}
        staying = [
            (self._rows[pod.spec.node_name], pod)
            for pod in self._alone.bound
            if pod.metadata.uid not in moving and pod.spec.node_name in self._rows
        ]
        amounts = _Scale(self._stage, self._nodes, [*pods, *waiting])
        destination_sets: dict[frozenset[int], int] = {}
        usable = frozenset(at for at, node in enumerate(self._nodes) if not is_leaving(node))
        load, headroom = loads(self.snapshot, goal) if isinstance(goal, LoadGoal) else ({}, {})
        movable = tuple(
            MovablePod(
                pod.key,
                self._rows[pod.spec.node_name],
                amounts.of(pod),
                destination_sets.setdefault(destinations.of(pod) & usable, len(destination_sets)),
                rules.tags(pod),
                load.get(pod.key, 0),
            )
            for pod in pods
        )
        records = tuple(self._records(units))
        pinned = {node for node, pod in staying if not is_bound_to_node(pod)}
        # A node that a MovePlan reserves is about to run a pod.
        reserved = self._stage.engine.nominations.nodes()
        pinned |= {self._rows[name] for name in reserved if name in self._rows}
        nodes = tuple(
            Node(node.metadata.name, free, at in pinned, headroom.get(node.metadata.name, 0))
            for at, (node, free) in enumerate(zip(self._nodes, amounts.free(), strict=True))
        )
        roles: list[tuple[Pod, ...]] = []
        aim = self._aim(goal, waiting, amounts, rules, destination_sets, roles, destinations, pods)
        if most_moves is not None:
            everything = frozenset(range(len(records)))
            self._limits.append(Limit("the moves of one plan", everything, most_moves))
        problem = Problem(
            amounts.resources,
            nodes,
            movable,
            records,
            tuple(destination_sets),
            aim,
            (),
            tuple(self._limits),
            rules.conflicts(),
            rules.anchors(staying),
        )
        problem = problem._replace(levels=tuple(self._levels.domains))
        take_apart(self._stage)
        return ClusterProblem(
            problem,
            tuple(pods),
            tuple(waiting),
            tuple(roles),
            tuple(excluded),
            tuple(self._levels.names),
            tuple(self._levels.numbers),
            amounts.units,
        )

    # Units

    def _units(
        self, waiting: Sequence[Pod], goal: MoveGoal
    ) -> tuple[list[list[Pod]], list[tuple[str, str]]]:
        """Return the movable units, and why the other pods stay."""
        highest = max((pod.priority for pod in waiting), default=None)
        limited = isinstance(goal, FitGoal) and "any-priority" not in self.rules.allowed
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        excluded: list[tuple[str, str]] = []
        stay: dict[str, str] = {}
        for pod in self.snapshot.bound:
            if pod.is_finished:
                continue
            reason = self.eligibility.why_immovable(pod)
            if not reason and limited and highest is not None and pod.priority > highest:
                reason = "its priority is above that of the waiting pods"
            key = self._unit_of(pod)
            if reason:
                excluded.append((pod.key, reason))
                if key:
                    stay.setdefault(key, reason)
            else:
                found[key or f"pod {pod.metadata.uid}"].append(pod)
        units = []
        for key, pods in found.items():
            why = self._why_whole_stays(key, pods, stay)
            if why:
                excluded += [(pod.key, why) for pod in pods]
            else:
                units.append(pods)
        return units, excluded

    def _unit_of(self, pod: Pod) -> str:
        """Return the key of the pods that restart together with a pod; empty for a single pod."""
        key = sources.group_of(pod)
        if key:
            return f"group {key}"
        for label, part in RESTART_WHOLE:
            name = pod.metadata.labels.get(label)
            if name:
                index = pod.metadata.labels.get(part, "")
                return f"set {pod.metadata.namespace}/{name}/{index}"
        return ""

    def _why_whole_stays(self, key: str, pods: list[Pod], stay: dict[str, str]) -> str:
        """Return why none of the pods of a unit moves; empty if they may."""
        if key in stay:
            return f"a pod that restarts with it stays: {stay[key]}"
        if key.startswith("group "):
            spec = self._spec(key.removeprefix("group "), pods)
            if spec is None:
                return "its group is not described"
            if _has_topology(spec):
                return "its group has topology rules"
        return self.eligibility.over_budget(pods)

    def _spec(self, key: str, pods: Sequence[Pod]) -> GroupSpec | None:
        if key.startswith(kueue.PREFIX):
            try:
                return kueue.read(pods[0])
            except ObjectError:
                return None
        described = sources.in_order(
            (kind, obj)
            for kind, obj in self.snapshot.objects
            if kind in sources.BY_KIND and sources.BY_KIND[kind].key(obj) == key
        )
        spec = sources.read(*described[0]) if described else None
        return spec if isinstance(spec, GroupSpec) else None

    def _records(self, units: list[list[Pod]]) -> Iterator[Unit]:
        first = 0
        for pods in units:
            numbers = tuple(range(first, first + len(pods)))
            first += len(pods)
            name = pods[0].key if len(pods) == 1 else self._unit_of(pods[0]).partition(" ")[2]
            lost = sum(int(age_s(pod, self.now) or 0) for pod in pods)
            # A pod deletion cost is a preference among replicas: it counts like as many seconds.
            cost = sum(optouts.deletion_cost(self.facts.pod(pod.key).annotations) for pod in pods)
            yield Unit(title(name), numbers, max(pod.priority for pod in pods), max(0, lost + cost))

    # Goals

    def _aim(
        self,
        goal: MoveGoal,
        waiting: Sequence[Pod],
        amounts: _Scale,
        rules: PodRules,
        destination_sets: dict[frozenset[int], int],
        roles: list[tuple[Pod, ...]],
        destinations: Destinations,
        movable: Sequence[Pod],
    ) -> Goal:
        if isinstance(goal, FreeGoal):
            return self._free(goal)
        if isinstance(goal, LoadGoal):
            return Cool()
        if isinstance(goal, FitGoal | CapacityGoal):
            claim = self._claim(goal, waiting, amounts, rules, destination_sets, roles, movable)
            return Fit((claim,))
        clauses = (
            frozenset({at}) for at, pod in enumerate(movable) if not destinations.accepts(pod)
        )
        return Repair(tuple(clauses))

    def _free(self, goal: FreeGoal) -> Free:
        wanted = dict(goal.selector)
        able = [
            at
            for at, node in enumerate(self._nodes)
            if all(node.metadata.labels.get(key) == value for key, value in wanted.items())
            and not optouts.stays(self.facts.node(node.metadata.name))
            and not is_leaving(node)
        ]
        if not goal.label or goal.label == HOSTNAME:
            return Free(goal.number, -1, tuple(able))
        level = self._levels.of(self._label(goal.label))
        domains = self._levels.domains[level]
        whole = {
            domain
            for domain in set(domains) - {-1}
            if all(at in able for at, own in enumerate(domains) if own == domain)
        }
        if not whole:
            raise InputError(f"no domain of the node label {goal.label} has only matching nodes")
        return Free(goal.number, level, tuple(sorted(whole)))

    def _claim(
        self,
        goal: FitGoal | CapacityGoal,
        waiting: Sequence[Pod],
        amounts: _Scale,
        rules: PodRules,
        destination_sets: dict[frozenset[int], int],
        roles: list[tuple[Pod, ...]],
        movable: Sequence[Pod],
    ) -> Claim:
        """Return the waiting pods as roles; their nodes are judged as if all movable pods had
        left.
        """
        profiles = {one.scheduler_name for one in self.setup.loaded.profiles}
        for pod in waiting:
            if pod.spec.scheduler_name not in profiles:
                message = f'no profile is called "{pod.spec.scheduler_name}"'
                raise InputError(message, where=f"Pod {pod.key}")
        gone = {pod.metadata.uid for pod in movable}
        emptied = replace(
            self._alone,
            bound=tuple(pod for pod in self._alone.bound if pod.metadata.uid not in gone),
        )
        stage = staged(emptied, self.setup, self.options)
        destinations = Destinations(stage.engine, self.now, self._rows)
        grouped: defaultdict[tuple[Any, ...], list[Pod]] = defaultdict(list)
        for pod in waiting:
            without = (AFFINITY,) if touches_filters(pod) else ()
            nodes = destinations.of_new(pod, without)
            grouped[amounts.of(pod), nodes, rules.tags(pod)].append(pod)
        records = []
        for (request, nodes, tags), pods in grouped.items():
            roles.append(tuple(pods))
            number = destination_sets.setdefault(nodes, len(destination_sets))
            records.append(Role(request, len(pods), number, tags))
        take_apart(stage)
        copies = goal.number if isinstance(goal, CapacityGoal) else 1
        return Claim(goal.key, tuple(records), self._group_level(waiting), copies)

    def _group_level(self, waiting: Sequence[Pod]) -> int | None:
        """Return the finest level at which all members must share one domain; None without such a
        rule.
        """
        key = sources.group_of(waiting[0]) if waiting else ""
        spec = self._spec(key, waiting) if key else None
        if spec is None:
            return None
        labels = [spec.key_label, spec.labels.required if spec.labels else ""]
        labels += [
            name
            for name, rule in spec.constraints.items()
            if rule.type == "pack" and (rule.hard or rule.partitions == 1)
        ]
        carried = {label for node in self._nodes for label in node.metadata.labels}
        found = [label for name in labels if name and (label := self._label(name)) in carried]
        # The finest level counts: a domain of it is inside one domain of each coarser level.
        numbers = [self._levels.of(label) for label in found]
        return max(numbers, key=lambda at: len(self._levels.names[at]), default=None)

    def _label(self, name: str) -> str:
        """Return the node label of a level: its own name, or the first known one that nodes
        carry.
        """
        carried = {label for node in self._nodes for label in node.metadata.labels}
        if name in carried:
            return name
        return next((one for one in PRESETS.get(name, ()) if one in carried), name)


class _Scale:
    """Amounts of pods and nodes in common units, so that the numbers of the model stay small."""

    def __init__(self, stage: StagedEngine, nodes: Sequence[Any], pods: Iterable[Pod]) -> None:
        self._table, self._nodes = stage.engine.cluster.table, nodes
        self._nominations = stage.engine.nominations
        self._requests = {pod.metadata.uid: _requests(pod) for pod in pods}
        found: defaultdict[str, int] = defaultdict(int)
        for requests in self._requests.values():
            for name, amount in requests.items():
                if amount:
                    found[name] = gcd(found[name], amount)
        self.resources = tuple(sorted(found))
        self._units = found
        self.units = tuple(found[name] for name in self.resources)

    def of(self, pod: Pod) -> Amounts:
        """Return the request of a pod."""
        requests = self._requests[pod.metadata.uid]
        return tuple(requests.get(name, 0) // self._units[name] for name in self.resources)

    def free(self) -> Iterator[Amounts]:
        """Yield the free amounts of each node: what MovePlans reserve there is not free."""
        columns = [
            self._table.allocatable(name) - self._table.requested(name) for name in self.resources
        ]
        for node in self._nodes:
            name = node.metadata.name
            row = self._table.rows[name]
            reserved = Counter[str]()
            for placeholder in self._nominations.on(name).values():
                reserved.update(_requests(placeholder))
            yield tuple(
                (int(column[row]) - reserved[resource]) // unit
                for resource, column, unit in zip(self.resources, columns, self.units, strict=True)
            )


def _requests(pod: Pod) -> dict[str, int]:
    return {**counted(pod_requests(pod, use_status=bool(pod.spec.node_name))), PODS: 1}


def _has_topology(spec: GroupSpec) -> bool:
    """Return whether a group has rules for where its members are placed together."""
    return bool(
        spec.constraints
        or spec.key_label
        or spec.labels
        or spec.tiers
        or spec.tree
        or spec.by_network
        or (spec.classes is not None)
    )
