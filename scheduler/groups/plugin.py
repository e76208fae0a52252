"""ClusterTopologyPlacementGroup: the plugin that gates, plans and reports groups.

Its name and its extension points are Sakkara's, so existing configurations load. Only pre-enqueue
and `plan_group` act: the whole group is decided in one step, so the other points decide nothing
about single members.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.base.arrays import IntColumn
from scheduler.base.errors import ObjectError
from scheduler.base.sweep import Sweep
from scheduler.engine.groups import EngineParts, GroupScheduler
from scheduler.framework import groups
from scheduler.framework.cycle import Cycle
from scheduler.framework.handle import Handle
from scheduler.framework.hypothetical.disruption import (
    DisruptionMode,
    DisruptionUnit,
    DisruptionUnits,
)
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import EACH_POD
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.cycle.groups import Groups
from scheduler.groups.description import past, quorum
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.description.history import GroupHistory
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec
from scheduler.groups.hints import CLAIM, NETWORK, Hints
from scheduler.groups.plan import Planner
from scheduler.groups.planning.task import Steps, beside, incomplete, leaving, staying
from scheduler.groups.sources import registry as sources
from scheduler.groups.status.records import RecordStore
from scheduler.groups.status.statuswriter import GroupStatusWriter
from scheduler.groups.topology import hypernodes, kueuelevels, trees
from scheduler.groups.topology.placement import oldest
from scheduler.groups.topology.tree import Topology
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceattributes import SLICE
from scheduler.plugins.groupsort import GroupSort, Key, QueuedMember
from scheduler.state.change import Change
from scheduler.state.podindex import Placed


class _Answer:
    """The PreEnqueue result of a group, for these members and this state of placed pods."""

    __slots__ = ("members", "uids", "version", "wanted")

    def __init__(
        self, members: Sequence[Pod], version: int, wanted: tuple[str, ...] | Status
    ) -> None:
        self.members = members
        self.version = version
        self.wanted = wanted
        self.uids = frozenset() if isinstance(wanted, Status) else frozenset(wanted)


class GroupFacts(NamedTuple):
    """The facts that explain a group: its specification, its tree (None: never planned), its
    objects by kind.
    """

    spec: GroupSpec
    tree: Topology | None
    objects: tuple[tuple[str, Any], ...]


class ClusterTopologyPlacementGroup(GroupSort[ClusterTopologyPlacementGroupArgs]):
    """Place groups of pods in a tree of racks and nodes, all members or none."""

    reads = (
        "node",
        "node.labels",
        "node.taints",
        "node.allocatable",
        "pod.deleted",
        "pod.requests",
        "waiting.deleted",
        "self.labels",
        *sources.KINDS,
        *trees.KINDS,
        CLAIM,
        NETWORK,
        SLICE,
        "DeviceClass",
    )

    def __init__(self, args: ClusterTopologyPlacementGroupArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._members = handle.tracker(GroupMembers)
        self._described = Descriptions(handle, self._members)
        self._trees = trees.Trees(
            handle, args.topology_config_map_name_space, args.topology_labels, args.topology
        )
        self._history = GroupHistory(handle, self._members)
        self._records = RecordStore(self._members.uid_of, self._pods_of)
        self._answers: dict[str, _Answer] = {}
        self._sweep = Sweep()
        self._planner = Planner(
            args,
            handle,
            self._members,
            self._described,
            self._history,
            self._trees,
            self._records,
        )
        self._hints = Hints(
            handle, self._members, self._described, self._records, self._planner.evictor
        )
        self._writer = GroupStatusWriter(
            self._members, self._records, self._described.spec_of, self._history
        )

    # The queue

    def urgency(self, queued: QueuedMember) -> Key:
        """Return a pod's contribution to its group's key: its priority, at most the group's.

        If the API server has admitted the group's priority, it is that one.
        """
        own, qos, since = super().urgency(queued)
        key = self._members.group_of(queued.pod)
        spec = self._described.spec_of(key) if key else None
        return own if spec is None else -spec.effective_priority(-own), qos, since

    def group_priority(self, key: str, pods: Sequence[Pod]) -> int:
        """Return the priority that these members, and the bound ones, will have as one unit."""
        spec, bound = self._described.spec_of(key), self._members.bound(key)
        lowest = min((*(pod.priority for pod in pods), *(one.pod.priority for one in bound)))
        return lowest if spec is None else spec.effective_priority(lowest)

    def group_may_evict(self, key: str, pods: Sequence[Pod]) -> bool:
        """Return whether pods may be evicted for these waiting members, by the group's objects."""
        spec = self._described.spec_of(key)
        if spec is None:
            return True
        tried = {pod.metadata.uid for pod in pods}  # assumed to verify that all of them fit
        bound = list(beside(self.handle, self._members.placed(key), tried))
        _, needed = self._history.current_spec(key, spec, bound, pods)
        return self._planner.evictor.may_ever_evict(needed, pods, bound)

    def resorted_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return the members of a group whose description changed."""
        keys = sources.described_by(change.kind, change.old, change.new)
        if not keys:
            return None
        roots = {self._members.root(key) for key in keys}
        return lambda pod: sources.group_of(pod) in keys or self._members.group_of(pod) in roots

    def regrouped_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return the pods of an application whose membership in a gang changed."""
        key = sources.began_or_ended(change.kind, change.old, change.new)
        return (lambda pod: sources.group_of(pod) == key) if key else None

    def key(self, pod: Pod) -> Hashable:
        """Return one key for all pods without a group: the plugin does not distinguish them."""
        return EACH_POD if self._members.group_of(pod) else ()

    # At the gate

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a member until its group can be decided."""
        key = self._members.group_of(pod)
        if not key:
            return None
        claims = self._members.dispute(pod)
        if claims:
            return unresolvable(f"several groups claim the pod: {claims}")
        members = self.handle.group_members(key, pod)
        known, record = self._answers.get(key), self._records.get(key)
        # Usually all members are checked one after the other: the verdict on one holds for the
        # next.
        is_known = known is not None and known.members is members
        if (
            known is None
            or not is_known
            or known.version != self._members.version
            or (
                # no version number covers whether they have left
                record is not None and record.victims
            )
        ):
            if known is None:
                self._forget_gone()
            wanted = self.group_wanted(key, members)
            known = self._answers[key] = _Answer(members, self._members.version, wanted)
        if isinstance(known.wanted, Status):
            return known.wanted
        if pod.metadata.uid in known.uids:
            return None
        return unschedulable(f"the group {groups.title(key)} has all its members")

    def _forget_gone(self) -> None:
        """Drop the records of groups that have neither a pod nor an object any more."""
        self._sweep.clear(self._answers, self.has_group)
        self._records.sweep(self.has_group)

    def _pods_of(self, key: str) -> Iterator[str]:
        """Yield the uids of a group's members, waiting and placed."""
        yield from self.handle.group_waiting(key)
        yield from (one.pod.metadata.uid for one in self._members.placed(key))

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether a change can help this member's group."""
        return self._hints.hint(change, pod)

    def hinted(self, change: Change) -> Collection[str] | None:
        """Return the uids of the only members whose hint can succeed; None if all must run."""
        return self._hints.hinted(change)

    def group_lacks(self, key: str) -> bool | None:
        """Return whether no plan can succeed now: all nodes together have capacity for too few
        members. None if amounts cannot decide.
        """
        return self._hints.lacks(key)

    def group_of(self, pod: Pod) -> str:
        """Return the key of the pod's group, or an empty text."""
        return self._members.group_of(pod)

    def names_group(self, pod: Pod) -> bool:
        """Return whether the pod names a group of any source."""
        return sources.names_group(pod)

    def group_wanted(self, key: str, pods: Sequence[Pod]) -> tuple[str, ...] | Status:
        """Return the members to plan now, or why the group has to wait."""
        name = groups.title(key)
        if not self.args.schedule_groups:
            profile = pods[0].spec.scheduler_name
            text = f"the group {name} waits: the profile {profile} disables {self.name}"
            self._records.hold(key, text)
            return unresolvable(text)
        try:
            spec = self._described.group(key)
        except ObjectError as error:
            self._records.hold(key, error.message)
            return unresolvable(f"the group {name} is on hold: {error.message}")
        if spec is None:
            return unresolvable(self._described.missing(key))
        bound = staying(self.handle, self._members.bound(key))
        current, _ = self._history.current_spec(key, spec, bound, pods)
        missing = current.size - len(bound)
        # At most the minimum in its object, for a group of fixed size.
        free = LARGEST_GROUP if spec.is_minimum else spec.size - len(bound)
        if spec.tree is not None:
            missing = 0  # the members of each group are counted below
        if len(pods) < missing:
            # Members arrive one by one: checking all of them each time takes a second for 1,200.
            return unschedulable(incomplete(spec, pods))
        try:
            self._described.check(key, pods)
        except ObjectError as error:
            self._records.hold(key, error.message)
            return unresolvable(f"the group {name} is on hold: {error.message}")
        known = self.handle.pods.get
        waiting = [pod for pod in pods if known(pod.metadata.uid) is None]
        if any(self.handle.is_preempting(pod.metadata.uid) for pod in waiting):
            return unschedulable(f"the group {name} waits for evictions")
        record = self._records.get(key)
        if record is not None and any(leaving(self.handle, record.awaited)):
            return unschedulable(f"the group {name} waits for evicted pods to leave")
        if any(placed.assumed for placed in bound):
            return unschedulable(f"the group {name} waits until others of it are bound")
        if missing <= 0 and current.is_minimum and waiting:
            missing = 1
        if missing <= 0 or free <= 0:
            return unschedulable(f"the group {name} has all its {spec.size} members")
        able = [pod for pod in waiting if not pod.is_terminating and not self._members.dispute(pod)]
        if current.tree is not None:
            return quorum.wanted(current, current.tree, able, bound)
        if len(able) < missing:
            return unschedulable(incomplete(spec, pods))
        taken = able
        if len(able) > free:
            taken = oldest(able)[:free]  # and not the first that arrived: lists are ordered by name
        return tuple(pod.metadata.uid for pod in taken[:LARGEST_GROUP])

    def groups_partially_bound(self) -> list[str]:
        """Return the groups that are bound in part and, by their objects, were never whole."""
        known = self._members.keys()
        return [key for key in known if self._is_partially_bound(key)]

    def _is_partially_bound(self, key: str) -> bool:
        bound = self._members.bound(key)
        if not 0 < len(bound) < self._described.size_of(key):
            return False
        pods = (*(one.pod for one in bound), *self._members.finished(key))
        return not past.was_whole(pods, self._members.described_by(key))

    def group_short(
        self, key: str, uid: str, unbound: Collection[str], displaced: Iterable[str]
    ) -> str:
        """Return why a group must not begin: it needs more members by now than have a place, or
        its objects were edited and cannot be read.
        """
        member = self.handle.pods.get(uid)
        if member is None:
            return ""
        own = sources.group_of(member.pod)
        if next(beside(self.handle, self._members.placed(own), unbound), None) is not None:
            return ""  # it has begun, and so have all groups around it
        try:
            spec = self._described.group(key)
        except ObjectError as error:
            return f"the group {groups.title(key)} must not begin: {error.message}"
        if spec is None:
            return ""
        placed = self._members.placed(key)
        bound_now = list(beside(self.handle, placed, unbound))
        there = list(beside(self.handle, placed, set(displaced)))
        spec, _ = self._history.current_spec(key, spec, bound_now, [one.pod for one in there])
        short = quorum.short(spec, own, there, bound_now)
        if short or spec.tree is None:
            return short
        conflict = quorum.conflicting_domains(spec.tree, own, there, self._labels_of)
        return f"the group {groups.title(key)} must not begin there: {conflict}" if conflict else ""

    def _labels_of(self, name: str) -> Mapping[str, str]:
        node = self.handle.node(name)
        return {} if node is None else node.metadata.labels

    # The plan

    def group_scheduler(self, parts: EngineParts) -> GroupScheduler:
        """Return the scheduler of the groups of all profiles."""
        return Groups(parts)

    def plan_group(self, key: str, context: groups.PlanningContext) -> Steps:
        """Decide the nodes of all members and the victims, or why the group has to wait."""
        self._hints.planned(key)
        return self._planner.plan(key, context)

    # Afterwards

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the groups that changed after a mark, as units of disruption."""
        mark, keys, is_all = self._members.changed_since(since)
        return DisruptionUnits(mark, {key: self._unit(key) for key in keys}, is_all)

    def _unit(self, key: str) -> DisruptionUnit:
        """Return a group as a unit of disruption, by its description."""
        members = tuple(self._members.bound(key))
        is_whole, priority = self._described.unit_of(key, members)
        is_of_pods = not key.startswith(groups.COMPOSITE_PREFIX)
        # Of a tree the groups of pods are units, or the topmost groups that go whole.
        is_one = (is_whole or is_of_pods) and self._described.unit_above(key) == key
        if not members or not is_one:
            return DisruptionUnit(key, DisruptionMode.SINGLE, 0, ())
        surplus = self._described.beyond_need(key, len(members))
        return DisruptionUnit(
            key,
            DisruptionMode.ALL if is_whole else DisruptionMode.SINGLE,
            priority,
            members,
            surplus,
        )

    def group_changed(self) -> set[str]:
        """Return the groups whose members or description changed since the previous call."""
        changed = self._members.changed
        if changed:
            self._members.changed = set()
        return changed

    def group_reported(
        self, key: str, stage: groups.GroupStage, now: float
    ) -> Sequence[groups.GroupWrite]:
        """Record the group's stage; return the writes and events for it."""
        if stage is groups.GroupStage.CHANGED:
            if self._members.root(key) != key:
                return []  # it has become part of another group, and is reported with that one
            return self._writer.checked(key, self._described.size_of(key), now)
        effects = self._writer.writes(key, stage, now)
        reporter = self._records.of(
            key
        ).reporter  # None before the first plan, which reads the tree
        return [*effects, *self._trees.events(reporter)] if reporter else effects

    def group_evicted(
        self, victims: Sequence[Placed], whom: str, group: str, reporter: str
    ) -> Sequence[groups.GroupEvent]:
        """Record the groups that are evicted or shrink, and return their events."""
        return self._writer.evicted(victims, whom, group, reporter, self.handle.evicted())

    def group_spared(self, victims: Sequence[Placed]) -> None:
        """Report again that groups are bound whose eviction has failed."""
        self._writer.spared(victims)

    def group_left(self, key: str) -> Sequence[Placed]:
        """Return the members marked for eviction of an atomic group that is partially bound."""
        bound = self._members.bound(key)
        if not 0 < len(bound) < self._described.whole_size_of(key):
            return ()
        if not self._described.unit_of(key, bound)[0]:
            return ()
        return [one for one in bound if past.is_marked(one.pod)]

    def has_group(self, key: str) -> bool:
        """Return whether there is an object or a pod of the group."""
        return self._members.knows(key) or self.handle.waiting_member(key) is not None

    def group_is_missing(self, key: str) -> bool:
        """Return whether neither an object nor its pods describe the group."""
        return not self._described.size_of(key) and not any(self._members.described_by(key))

    def group_presence(self, key: str) -> tuple[int, int]:
        """Return how many members are on nodes or have finished, and the minimum (0: not
        described).
        """
        return self._writer.present(key), self._described.size_of(key)

    def group_statuses(self) -> Mapping[str, int]:
        """Return how many groups that are described or have placed members have each status."""
        keys = self._members.keys()
        return Counter(self._writer.status(key, self._described.size_of(key)) for key in keys)

    def group_facts(self, key: str) -> GroupFacts | None:
        """Return the description of a group and the tree of its last plan; None for an unknown
        group.
        """
        spec, record = self._described.spec_of(key), self._records.get(key)
        tree = None if record is None else record.tree
        if spec is None:
            return None
        if tree is not None:
            spec = kueuelevels.resolved(hypernodes.resolved(spec, tree), tree)
        return GroupFacts(spec, tree, tuple(self._members.described_by(key)))

    def group_reports(self) -> Sequence[groups.GroupReport]:
        """Return the reports of all groups that are described or were tried."""
        keys = dict.fromkeys(map(self._members.root, (*self._members.keys(), *self._records)))
        return [self._writer.report(key, self._described.size_of(key)) for key in keys]

    # Points that old configurations enable: a group is decided in one step, before them.

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Leave single pods to the other post-filter plugins."""
        del cycle, nodes, failure
        return PostFiltered(unschedulable())

    def pre_score(self, cycle: Cycle, nodes: Nodes) -> Status:
        """Skip scoring: groups are scored as a whole."""
        del cycle, nodes
        return SKIP

    def score(self, cycle: Cycle, nodes: Nodes, state: Any = None) -> IntColumn:
        """Score all nodes 0."""
        del cycle, state
        return nodes.constant(0)

    def reserve(self, cycle: Cycle, node: str) -> None:
        """Do nothing: the tracker counts members."""

    def permit(self, cycle: Cycle, node: str) -> None:
        """Do nothing: the engine keeps members waiting until all are there."""

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Do nothing: the engine reports when the whole group is bound."""
