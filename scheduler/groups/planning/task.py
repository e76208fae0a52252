"""`GroupTask`: the input of one attempt to place a group, built once and passed through it."""

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.framework.calls import CallResult, SolverCall
from scheduler.framework.groups import (
    GroupPlan,
    Outcome,
    PlanningContext,
    UndecidedStatus,
    title,
)
from scheduler.framework.handle import Handle
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.status import Code, Status
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.description import quorum
from scheduler.groups.description.deadlines import Deadline
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning import between, planning
from scheduler.groups.planning.roles.roles import RoleMembers
from scheduler.groups.planning.shapes import GroupShape
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.solver.questions import Solution
from scheduler.groups.sources import registry as sources
from scheduler.groups.topology.placement import in_order
from scheduler.groups.topology.tree import Topology
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed, PodIndex
from scheduler.state.resources import Amounts

# The nodes of members and the victims, or why they are unknown; None if evictions do not help.
Offer: TypeAlias = tuple[dict[str, str], tuple[Placed, ...]] | Status | None
# JobSet's other way of exclusive placement: nodes are labelled beforehand, and all pods made at
# once.
PREPARED = "alpha.jobset.sigs.k8s.io/namespaced-job"
Steps: TypeAlias = Generator[SolverCall, CallResult, Outcome]


def is_refusal(plan: Outcome) -> TypeGuard[Status]:
    """Return whether an outcome places no member."""
    return isinstance(plan, Status) and plan.is_rejected


def undecided(text: str, retry_at: float = 0.0) -> UndecidedStatus:
    """Return a rejection without a proof of infeasibility."""
    return UndecidedStatus(Code.UNSCHEDULABLE, (text,), retry_at=retry_at)


def unanswered(name: str) -> UndecidedStatus:
    """Return the error that the solver gave no answer; no change of the cluster would help."""
    return UndecidedStatus(Code.ERROR, (f"the group {name} waits: no answer came from the solver",))


class GroupTask(msgspec.Struct, frozen=True):
    """The input of one attempt: the group, its tree, the members to place and the bound ones.

    Nodes with one of the labels in `forbidden`, or in one of the conditions `forbidden_conditions`,
    take no member. `described` is the group by its object, `spec` by its present rules: at the
    `deadline` a hard rule becomes a preference. A group of groups has `shapes`, which have the
    members of `roles`. With `wants_all` all members must be placed. `needs` is the group with the
    minimum that it still needs, without finished members; `spec` needs fewer if lost members of a
    group that was complete may return one by one.
    """

    key: str
    spec: GroupSpec
    tree: Topology
    context: PlanningContext
    requests: Mapping[str, Amounts]
    bound: Sequence[Placed]
    roles: list[RoleMembers]
    forbidden: tuple[str, ...] = ()
    forbidden_conditions: frozenset[str] = frozenset()
    described: GroupSpec | None = None
    deadline: Deadline | None = None
    shapes: tuple[GroupShape, ...] = ()
    wants_all: bool = False
    needs: GroupSpec | None = None

    def allowed(self, slots: IntColumn) -> IntColumn:
        """Return how many members each row takes, 0 on forbidden rows.

        Nodes are added and removed while the solver works, so forbidden rows are computed anew each
        time.
        """
        for label in self.forbidden:
            slots = np.where(self.context.nodes.label_ids(label) >= 0, 0, slots)
        if self.forbidden_conditions:
            avoided = self.context.nodes.in_condition(self.forbidden_conditions)
            slots = np.where(avoided, 0, slots)
        return slots

    @property
    def name(self) -> str:
        """Return the group's name in messages."""
        return title(self.key)

    @property
    def is_heterogeneous(self) -> bool:
        """Return whether the members are of several roles or subgroups."""
        return len(self.roles) > 1 or self.spec.classes is not None or bool(self.shapes)

    @property
    def is_short(self) -> bool:
        """Return whether members were lost while the group waited for its turn."""
        there = len(self.bound) + len(self.context.members)
        return self.spec.tree is None and there < self.spec.size

    @property
    def missing(self) -> int:
        """Return how many members the minimum still lacks."""
        return max(0, self.spec.size - len(self.bound))

    @property
    def least(self) -> int:
        """Return the minimum number of members to place; 0 means all.

        For a group of groups it is 1: its subgroups have their own minimums.
        """
        if self.shapes:
            return 1
        return max(1, self.missing) if self.spec.is_minimum and not self.wants_all else 0

    @property
    def needed(self) -> Sequence[Pod]:
        """Return the members for which other pods may be evicted: those up to the minimum."""
        members = self.context.members
        return in_order(members)[: self.least] if self.least else members

    def copy(self) -> "GroupTask":
        """Return the task with copies of its roles: rejections learnt for the copy stay in it."""
        roles = [msgspec.structs.replace(one) for one in self.roles]
        return msgspec.structs.replace(self, roles=roles)

    def to_minimum(self) -> "GroupTask":
        """Return the task that places the group's minimum in one step."""
        if self.needs is None:
            return self
        needed = self.needs
        spec = msgspec.structs.replace(
            self.spec,
            size=needed.size,
            is_minimum=needed.is_minimum,
            classes=needed.classes,
            tree=needed.tree,
            needs=needed.needs,
        )
        return msgspec.structs.replace(self, spec=spec)

    def left_open(self, what: str) -> UndecidedStatus:
        """Return a rejection without a proof; without bound members it clears the group's
        nominations.
        """
        text = f"the group {self.name} {what}"
        return UndecidedStatus(Code.UNSCHEDULABLE, (text,), gives_up=not self.bound)

    def still_refused(
        self, refused: frozenset[str], plan: Outcome, handle: Handle
    ) -> frozenset[str]:
        """Return the members that waited for capacity before the plan and still do after it."""
        if isinstance(plan, GroupPlan) and not plan.victims:
            refused = refused.difference(plan.nodes)
        waiting = handle.group_members(self.key, self.context.members[0])
        return refused.intersection(pod.metadata.uid for pod in waiting)

    def plan(self, nodes: Mapping[str, str], stages: Iterable[SolvedStage]) -> GroupPlan:
        """Return the plan that places these members, with the status of the others."""
        is_proven = all(stage.proven for stage in stages if stage.measure == "leftOut")
        others = len(self.context.members) - len(nodes)
        found = "there is no free capacity" if is_proven else "no free capacity was found in time"
        lacks = self._lacks_groups(nodes)
        needed = self.needs or self.spec
        is_short = needed.tree is None and len(self.bound) + len(nodes) < needed.size
        so_far = "lacks groups" if lacks else "lacks members" if is_short else "has its minimum"
        text = f"the group {self.name} {so_far}; {found} for {others} more of it"
        # The next attempt may evict pods for the members that the group still needs.
        return GroupPlan(
            nodes,
            message=text if others else "",
            hold_s=self.spec.hold_s,
            is_proven=is_proven and not (lacks or is_short),
        )

    def eviction_plan(
        self, nodes: Mapping[str, str], victims: tuple[Placed, ...], disruption: Disruption
    ) -> GroupPlan | None:
        """Return the plan that evicts these pods; None without victims: capacity is then not the
        cause.
        """
        if not victims:
            return None
        text = f"the group {self.name} waits for {len(victims)} pods of lower priority to leave"
        return GroupPlan(nodes, victims, text, disruption=disruption)

    def _lacks_groups(self, nodes: Mapping[str, str]) -> bool:
        """Return whether a tree lacks required groups, given the members placed so far."""
        tree = (self.needs or self.spec).tree
        if tree is None:
            return False
        placed = [pod for pod in self.context.members if pod.metadata.uid in nodes]
        placed += [one.pod for one in self.bound]
        return not quorum.is_in(tree, Counter(map(sources.group_of, placed)))


def leaving(handle: Handle, uids: Iterable[str]) -> Iterator[str]:
    """Yield the pods on nodes that are terminating, or whose eviction was requested and not
    refused.
    """
    evicted, placed = handle.evicted(), handle.pods
    for uid in uids:
        one = placed.get(uid)
        if one is not None and (uid in evicted or one.pod.is_terminating):
            yield uid


def staying(handle: Handle, bound: Iterable[Placed]) -> list[Placed]:
    """Return the pods whose eviction is not confirmed."""
    return [one for one in bound if not handle.is_leaving(one.pod.metadata.uid)]


def beside(
    handle: Handle, placed: Iterable[Placed], uids: Collection[str] = ()
) -> Iterator[Placed]:
    """Yield the members on nodes that stay, except those with these uids."""
    for one in placed:
        uid = one.pod.metadata.uid
        if uid not in uids and not one.pod.is_terminating and not handle.is_leaving(uid):
            yield one


def incomplete(spec: GroupSpec, present: Sequence[Pod] = ()) -> str:
    """Return the message that a group lacks members, and why some are never created.

    The message has no number of members, because each arrival would change the condition of all
    members that wait.
    """
    text = f"the group {spec.key} is not complete: it needs {spec.size} members"
    for pod in present[:1]:
        own, by = pod.metadata.annotations, ""
        if own.exclusive_job and PREPARED not in (pod.spec.node_selector or ()):
            by = "JobSet by the annotation alpha.jobset.sigs.k8s.io/exclusive-topology"
        elif own.exclusive_group:
            by = "LeaderWorkerSet by the annotation leaderworkerset.sigs.k8s.io/exclusive-topology"
        if by:
            text += (
                f"; {by} makes the others only when the first has a node, so that a gang "
                "of them never "
                "starts: take it away, and give the group a rule or a topology key instead"
            )
    return text


def awaits_capacity(context: PlanningContext, handle: Handle) -> bool:
    """Return whether a pod is terminating, or being evicted, on a node that a member is nominated
    to.
    """
    nominated = {pod.status.nominated_node_name for pod in context.members} - {""}
    on_them = [placed for node in sorted(nominated) for placed in handle.pods.on(node).values()]
    # Another preemptor may be active on the node: its nominated pods are counted already, its
    # terminating victims are not.
    evicted = handle.evicted() if on_them else ()
    return any(one.pod.is_terminating or one.pod.metadata.uid in evicted for one in on_them)


def solution_of(answer: CallResult) -> Solution | None:
    """Return the solver's answer, None without one."""
    if answer.code != 200:
        return None
    if isinstance(answer.body, Solution):
        return answer.body
    return msgspec.convert(answer.body, Solution, str_keys=True)


def limits_of(args: ClusterTopologyPlacementGroupArgs, limit_s: float) -> SolveLimits:
    """Return the solver's limits for a question that may take `limit_s` seconds."""
    return SolveLimits(stage_s=limit_s, total_s=limit_s, workers=max(1, args.solver_workers))


def with_rules(
    found: planning.NodeProblem,
    task: GroupTask,
    pods: PodIndex,
    shared_domain: IntColumn | None = None,
) -> planning.NodeProblem:
    """Return the problem with the rules that the members' own specs have about one another."""
    pod, nodes = task.context.members[0], task.context.nodes
    there = set(found.names)
    fixed_here = [one for one in task.bound if one.node in there]
    domains = between.members(pod, nodes, found.rows, pods, fixed_here)
    domains += between.spread(pod, nodes, found.rows, pods, fixed_here)
    if shared_domain is not None:
        domains += between.within(shared_domain, found.rows)
    instance = msgspec.structs.replace(found.instance, domains=domains)
    return msgspec.structs.replace(found, instance=instance)
