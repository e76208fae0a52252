"""`GroupContext`: the live nodes as one group sees them while it is planned.

Runs the filters of the members' profile: where a member fits, how many of them a node takes, and
whether a whole assignment is feasible. Members are assumed in `Cluster`, so every tracker follows,
and removed at once unless the plan is carried out. Created for each attempt of a group; between two
solves it keeps no result.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.base.errors import PluginError
from scheduler.engine.attempt.attempt import Attempts
from scheduler.engine.attempt.cycle import Attempt, filter_rows
from scheduler.engine.decision import fit_message
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.groups import AssignmentRejection, Fits
from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.hypothetical.elsewhere import Elsewhere
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import SUCCESS, Code, Rejection, Status
from scheduler.framework.together import AreaPaths, AssignedMember, MemberDemand, RowCapacity
from scheduler.groups.cycle import capacity
from scheduler.groups.cycle.steps import GroupSteps
from scheduler.objects.pod import Pod, PodSpec
from scheduler.state.facts import POD_ADDED
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS
from scheduler.state.shapes import Shape

NO_NODE_FOR_OTHERS = "no node takes another member"


class _FilterResults(msgspec.Struct, frozen=True):
    """The filters' results for all rows, and that of pre-filter."""

    passed: BoolColumn
    rejected: list[Rejection]
    status: Status

    def why(self, row: int) -> str:
        """Return why a row was refused."""
        for one in self.rejected:
            if one.rows[row]:
                return ", ".join(one.rejected.texts(row))
        return self.status.message or NO_NODE_FOR_OTHERS


class GroupContext:
    """A `PlanningContext` on the live table; `attempts` are those of the members assumed so far."""

    def __init__(self, attempts: Attempts, steps: GroupSteps, members: Sequence[QueuedPod]) -> None:
        self._prepare = attempts.prepare
        self._profile = attempts.profile(members[0].profile)
        self._cluster = attempts.cluster
        self._follow = steps.intake.follow
        self._nominations = steps.nominations
        self._outbox = steps.outbox
        self._queued = tuple(members)
        self.attempts: dict[str, Attempt] = {}
        # The plugins whose rules about other pods the members have to keep, by name.
        self.pod_rules: dict[str, None] = {}
        self._of_each_shape: dict[int, Pod] | None = None
        self._assumed: dict[str, None] = {}
        self._keeps_nominations = False
        # Nodes that MovePlans reserve for members, by uid, while their nominations are away.
        self._destinations: dict[str, str] = {}
        self._now_s = steps.observation.now_s
        # When the first search for victims began, on the stopwatch.
        self.sought_since_s: float | None = None

    @property
    def now(self) -> float:
        """Return the time in seconds."""
        return self._outbox.now

    @property
    def members(self) -> tuple[Pod, ...]:
        """Return the members that are to be placed."""
        return tuple(queued.pod for queued in self._queued)

    @property
    def priority(self) -> int:
        """Return the priority with which the members compete for nodes."""
        return self._nominations.priority_among(self.members)

    @property
    def has_lower(self) -> bool:
        """Return whether any pod on a node has a lower priority than the group."""
        return self._cluster.pods.any_below(self.priority)

    @property
    def nodes(self) -> Nodes:
        """Return the live nodes."""
        return Nodes(self._cluster.table, self._cluster.pods)

    def keep_nominations(self, *, all_of_them: bool) -> bool:
        """Respect nominations of lower priority, or ignore them again; return whether there are
        any.
        """
        self._keeps_nominations = all_of_them
        return self._nominations.is_any_below(self.priority)

    def seeks_victims(self) -> None:
        """Record that a search for victims begins."""
        if self.sought_since_s is None:
            self.sought_since_s = self._now_s()

    def free(self, resources: Iterable[str]) -> dict[str, IntColumn]:
        """Return the free amount of these resources by row, less the nominations of other pods."""
        with self._without_own_nominations():
            attempt = self._attempt(self.members[0])
            free = {name: capacity.free(attempt, self.nodes, name) for name in resources}
        for name, rows in capacity.unbounded(attempt, self.nodes, free).items():
            # The total request of all members is the upper limit: the solver's amounts stay small.
            free[name] = np.where(rows, self._total_request(name), free[name])
        return free

    def evictable(
        self, resources: Iterable[str], nodes: Nodes, at: slice | Rows
    ) -> dict[str, IntColumn]:
        """Return by row the requests of the pods whose priority is lower than the group's."""
        priority, pods, table = self.priority, self._cluster.pods, self._cluster.table
        rows = range(nodes.size) if isinstance(at, slice) else at
        found = {name: np.zeros(len(rows), dtype=np.int64) for name in resources}
        for place, row in enumerate(rows):
            node = table.nodes[row]
            for placed in () if node is None else pods.on(node.key).values():
                if (placed.pod.spec.priority or 0) < priority:
                    for name, column in found.items():
                        column[place] += 1 if name == PODS else placed.requests.get(name, 0)
        return found

    def shape_of(self, pod: Pod) -> Shape:
        """Return the shape of a member."""
        return self._cluster.shapes.of(pod)

    def is_affected(self, other: Pod) -> bool:
        """Return whether another pod, once it is placed, may close nodes to a member."""
        return any(self._profile.is_affected(pod, other) for pod in self.distinct())

    def distinct(self) -> Iterable[Pod]:
        """Return one member of each shape: rules about other pods follow from spec and labels."""
        if self._of_each_shape is None:
            self._of_each_shape = {self.shape_of(pod).id: pod for pod in self.members}
        return self._of_each_shape.values()

    def network_paths(self, rows: Rows) -> AreaPaths | None:
        """Return the network costs between rows, from the first plugin that has them."""
        for plugin in self._attempt(self.members[0]).runner.profile.plugins.values():
            if plugin.serves("network_paths"):
                found: AreaPaths | None = plugin.network_paths(self.members[0], rows)
                if found is not None:
                    return found
        return None

    def fits(self, relaxed: Sequence[Pod] | None = None) -> Fits:
        """Run the filters for any member, and count how many members each row takes.

        `relaxed` replaces the members: the same pods without the rules that the caller checks.
        """
        return _of_all([one for _, one in self.fits_each(relaxed)])

    def fits_each(
        self, relaxed: Sequence[Pod] | None = None
    ) -> tuple[tuple[tuple[Pod, ...], Fits], ...]:
        """Do the same for each distinct spec, with the pods of that spec."""
        pods = self.members if relaxed is None else relaxed
        with self._without_own_nominations():
            return tuple(
                (equivalent, self._fits(equivalent)) for equivalent in _equivalent_in_spec(pods)
            )

    def hold(self, nodes: Mapping[str, str]) -> AssignmentRejection | None:
        """Run all filters and assume every member on its node; on a rejection, return the reason
        and undo.
        """
        with self._without_own_nominations():
            rejection = self._hold(nodes)
        if rejection is not None:
            self.release()
        return rejection

    def would_hold(
        self, nodes: Mapping[str, str], victims: Sequence[Placed]
    ) -> AssignmentRejection | None:
        """Try an assignment: remove the victims, assume the members, then restore the former
        state.
        """
        cluster, follow = self._cluster, self._follow
        # The current version: a pod that was assumed when the solver was called may be bound since.
        found = (cluster.pods.get(victim.pod.metadata.uid) for victim in victims)
        leaving = [one for one in found if one is not None]
        for one in leaving:
            follow((cluster.forget if one.assumed else cluster.drop_pod)(one.pod.metadata.uid))
        try:
            return self.hold(nodes)
        finally:
            self.release()
            for one in leaving:
                pod = one.pod
                follow(cluster.assume(pod, one.node) if one.assumed else cluster.put_pod(pod))

    def elsewhere(self) -> Elsewhere:
        """Return which pods would fit a node other than their own while all pods keep running."""
        attempt = self._attempt(self.members[0])
        attempted = Attempted(attempt.runner, attempt.cycle, attempt.nodes, attempt.states)
        return Elsewhere(attempted, attempt.nominated)

    def release(self) -> None:
        """Remove the assumed members from their nodes."""
        for uid in reversed(list(self._assumed)):
            self._take_uid(uid)
        self.attempts = {}

    def keep(self) -> None:
        """Keep the assumed members on their nodes, because the plan is executed."""
        self._assumed = {}

    def _total_request(self, resource: str) -> int:
        """Return how much of a resource all members request together."""
        shapes = self._cluster.shapes
        return sum(shapes.of(pod).requests.get(resource, 0) for pod in self.members)

    def _attempt(self, pod: Pod) -> Attempt:
        return self._prepare(pod, self.now, self.members, keeps_nominations=self._keeps_nominations)

    def _fits(self, pods: Sequence[Pod]) -> Fits:
        """Run the filters for pods with one spec."""
        nodes = self.nodes
        attempt = self._attempt(pods[0])
        rows, rejected, status = _filtered(attempt)
        self.pod_rules.update(dict.fromkeys(_pod_rules(attempt, rejected)))
        evictable = nodes.exists
        for one in rejected:
            evictable = evictable & ~(one.rows & one.rejected.final)
        if status.code in (Code.UNRESOLVABLE, Code.PENDING):
            evictable = np.zeros_like(evictable)
        slots = np.where(rows, capacity.slots(attempt, nodes), 0)
        message = fit_message(nodes.count, status, tuple(rejected), None, ())
        most = min(len(self._queued), int(slots.max(initial=0)))
        row_capacities = _row_capacities(attempt, rows, MemberDemand(self.members, most))
        for each in row_capacities:
            slots = np.minimum(slots, each.slots)
        rows, slots = self._at_destinations(pods, rows, slots)
        kind = tuple(one.kind for one in row_capacities)
        shared_domain = next(
            (one.shared_domain for one in row_capacities if one.shared_domain is not None),
            None,
        )
        inventories = tuple(one.inventory for one in row_capacities if one.inventory is not None)
        costs = next((one.costs for one in row_capacities if one.costs is not None), None)
        return Fits(
            rows,
            slots,
            evictable,
            tuple(rejected),
            message,
            kind,
            shared_domain,
            inventories,
            costs,
        )

    def _at_destinations(
        self, pods: Sequence[Pod], rows: BoolColumn, slots: IntColumn
    ) -> tuple[BoolColumn, IntColumn]:
        """Return rows and slots of the destinations that are reserved for pods with one spec.

        Without a destination for each of them, or if one is full, all rows are kept.
        """
        if not self._destinations:
            return rows, slots
        kept = np.zeros_like(slots)
        for pod in pods:
            row = self._cluster.table.rows.get(self._destinations.get(pod.metadata.uid, ""))
            if row is None or kept[row] == slots[row]:
                return rows, slots
            kept[row] += 1
        return rows & (kept > 0), kept

    def _hold(self, nodes: Mapping[str, str]) -> AssignmentRejection | None:
        """Assume all members, then filter each of them with the others in place."""
        cluster = self._cluster
        named = [queued for queued in self._queued if queued.uid in nodes]
        for queued in named:
            if nodes[queued.uid] not in cluster.table.rows:
                anywhere = np.ones(self.nodes.size, dtype=np.bool_)
                return AssignmentRejection(
                    self._most(anywhere), queued.pod, nodes[queued.uid], "the node is gone"
                )
        for queued in named:
            self._put(queued, nodes)
        equivalent: dict[int, Attempt] = {}
        for queued in named:
            shape = cluster.shapes.of(queued.pod)
            attempt = equivalent.get(shape.id)
            if attempt is None or not _answers_again(attempt):
                self._take(queued)
                attempt = self._attempt(queued.pod)
                relaxed = _FilterResults(*_filtered(attempt))
                row = cluster.table.rows[nodes[queued.uid]]
                if not relaxed.passed[row]:
                    return AssignmentRejection(
                        self._most(relaxed.passed), queued.pod, nodes[queued.uid], relaxed.why(row)
                    )
                self._put(queued, nodes)
                equivalent[shape.id] = attempt
            self.attempts[queued.uid] = attempt
        return self._equivalent(list(equivalent.values())) or self._together(nodes)

    def _together(self, nodes: Mapping[str, str]) -> AssignmentRejection | None:
        """Run the plugins' joint choice for all members, as each would at reserve."""
        choosing: dict[int, tuple[Plugin[Any], list[AssignedMember]]] = {}
        for uid, attempt in self.attempts.items():
            for plugin, state in _choosers(attempt):
                found = choosing.setdefault(id(plugin), (plugin, []))
                found[1].append(AssignedMember(attempt.cycle, nodes[uid], state))
        for plugin, assigned in choosing.values():
            try:
                conflict = plugin.assign_together(assigned)
            except Exception as error:  # a plugin may raise anything
                raise PluginError(plugin.name, "AssignTogether", str(error)) from error
            if conflict is not None:
                most = np.where(conflict.rows, len(conflict.pods) - 1, capacity.UNLIMITED)
                pods, node = conflict.pods, conflict.node
                return AssignmentRejection(
                    most, pods[0], node, conflict.reason, pods, conflict.rows
                )
        return None

    def _equivalent(self, attempts: Sequence[Attempt]) -> AssignmentRejection | None:
        """Filter one member of each row, where the verdicts of one attempt apply to several
        members.
        """
        cluster = self._cluster
        for attempt in attempts:
            if not _answers_again(attempt):
                continue
            moves: dict[int, Placed] = {}
            for queued in self._queued:
                placed = cluster.pods.get(queued.uid)
                if placed is not None and placed.shape is attempt.cycle.shape:
                    moves[cluster.table.rows[placed.node]] = placed
            rows = np.array(sorted(moves), dtype=np.intp)
            again = Attempted(attempt.runner, attempt.cycle, self.nodes, attempt.states)
            removed = [(placed, row) for row, placed in moves.items()]
            relaxed = _FilterResults(*again.filter(rows, removed=removed), SUCCESS)
            for row in rows.tolist():
                if not relaxed.passed[row]:
                    # All pods of a row are equivalent: the row takes at least one fewer.
                    self._take_uid(moves[row].pod.metadata.uid)
                    passed = np.ones(self.nodes.size, dtype=np.bool_)
                    passed[row] = False
                    return AssignmentRejection(
                        self._most(passed), moves[row].pod, moves[row].node, relaxed.why(row)
                    )
        return None

    def _put(self, queued: QueuedPod, nodes: Mapping[str, str]) -> None:
        self._follow(self._cluster.assume(queued.pod, nodes[queued.uid]))
        self._assumed[queued.uid] = None

    def _take(self, queued: QueuedPod) -> None:
        self._take_uid(queued.uid)

    def _take_uid(self, uid: str) -> None:
        self._follow(self._cluster.forget(uid))
        self._assumed.pop(uid, None)

    def _most(self, passed: BoolColumn) -> IntColumn:
        """Return how many members each row takes: those assumed there, and more on the rows in
        `passed`.
        """
        most = np.where(passed, capacity.UNLIMITED, 0)
        cluster = self._cluster
        for uid in self._assumed:
            placed = cluster.pods.get(uid)
            row = None if placed is None else cluster.table.rows.get(placed.node)
            if row is not None and not passed[row]:
                most[row] += 1
        return most

    @contextmanager
    def _without_own_nominations(self) -> Iterator[None]:
        """Remove the members' own nominations, and what is reserved for them, until the block
        ends.
        """
        members = self.members
        if self._nominations.has_reserved:
            reserved = self._nominations.reserved(members)
            self._destinations = {u: self._nominations[keys[0]] for u, keys in reserved.items()}
        nodes = [(pod, self._nominations.drop(pod.metadata.uid)) for pod in members]
        try:
            with self._nominations.lifted(members):
                yield
        finally:
            self._destinations = {}
            for pod, node in nodes:
                if node:
                    self._nominations.put(pod, node)


def _filtered(attempt: Attempt) -> tuple[BoolColumn, list[Rejection], Status]:
    """Return the rows that pass all filters, the rejections, and the status of pre-filter."""
    cycle, nodes, states = attempt.cycle, attempt.nodes, attempt.states
    pre = attempt.runner.pre_filter(cycle, nodes, states)
    if not pre.status.is_success:
        return np.zeros(nodes.size, dtype=np.bool_), [], pre.status
    among = nodes.exists if pre.rows is None else nodes.exists & pre.rows
    return *filter_rows(attempt, among), SUCCESS


def _pod_rules(attempt: Attempt, rejected: Sequence[Rejection]) -> Iterator[str]:
    """Yield the filter plugins with rules about other pods that this pod has to keep; beside
    nominated pods a plugin may reject that does not apply to the pod otherwise.
    """
    away = attempt.states.skipped - {one.plugin for one in rejected}
    for bound in attempt.runner.profile.filter:
        if POD_ADDED in bound.plugin.reads and bound.name not in away:
            yield bound.name


def _row_capacities(attempt: Attempt, rows: BoolColumn, demand: MemberDemand) -> list[RowCapacity]:
    """Return how many pods like this one fit on each row: the minimum over all plugins that
    count.
    """
    found: list[RowCapacity] = []
    nodes = attempt.nodes.among(rows)
    for plugin, state in _choosers(attempt):
        try:
            found.append(plugin.row_capacity(attempt.cycle, nodes, demand, state))
        except Exception as error:  # a plugin may raise anything
            raise PluginError(plugin.name, "RowCapacity", str(error)) from error
    return found


def _choosers(attempt: Attempt) -> Iterator[tuple[Plugin[Any], Any]]:
    """Yield the plugins that choose for several pods at once and apply to this pod."""
    states = attempt.states
    for name, plugin in attempt.runner.profile.plugins.items():
        if (
            plugin.serves("assign_together")
            and name in states.by_plugin
            and name not in states.skipped
        ):
            yield plugin, states.by_plugin[name]


def _equivalent_in_spec(pods: Sequence[Pod]) -> list[tuple[Pod, ...]]:
    """Return the pods by spec, in the order of the first of each."""
    found: list[tuple[PodSpec, list[Pod]]] = []
    for pod in pods:
        for spec, equivalent in found:
            if pod.spec == spec:
                equivalent.append(pod)
                break
        else:
            found.append((pod.spec, [pod]))
    return [tuple(equivalent) for _, equivalent in found]


def _of_all(each: Sequence[Fits]) -> Fits:
    """Return where any member could be placed: the capacity that all roles share."""
    first = each[0]
    rows, slots, evictable, message = first.rows, first.slots, first.evictable, first.message
    for one in each[1:]:
        rows, evictable = rows & one.rows, evictable & one.evictable
        slots = np.minimum(slots, one.slots)
        message = message if one.rows.any() else one.message
    shared_domain = next((one.shared_domain for one in each if one.shared_domain is not None), None)
    return msgspec.structs.replace(
        first,
        rows=rows,
        slots=np.where(rows, slots, 0),
        evictable=evictable,
        message=message,
        shared_domain=shared_domain,
    )  # fmt: skip


def _answers_again(attempt: Attempt) -> bool:
    """Return whether an attempt's answers also hold, row by row, for the next pod of its shape.

    They do if every filter evaluates each row alone, and no plugin stores a choice for reserve.
    """
    states, profile = attempt.states, attempt.runner.profile
    filters = (bound for bound in profile.filter if bound.name not in states.skipped)
    keepers = (*profile.reserve, *profile.pre_bind)
    return all(bound.plugin.local for bound in filters) and not any(
        bound.plugin.takes_state and bound.name not in states.skipped for bound in keepers
    )
