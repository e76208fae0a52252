"""`PlannedCapacity`: the capacity that later pods leave free for groups that are being planned or
wait for it.

A plan may take seconds in another process, and a group may wait until the group before it is
planned. Until a group is decided, a later pod may use a node only if the node keeps free, in every
resource that the pod requests, what the group could use there: for each role as many members as the
node has capacity for, at most all of them. So a plan made on these nodes still holds when it is
ready, and pods that do not compete with the group are scheduled. A pod for which that leaves no
node is put off, without back-off, until a group has been decided. It keeps its place in the queue,
and later pods leave its request free on each node that it fits on. A pod is also put off if it
could only evict pods of nodes that the groups could use, or if it could close a node to a pod that
was put off before it. A group that comes after pods that were put off, and could use a node that
they fit on, waits as well.

Amounts are compared, and the filters that reject a node for good. If both request devices, or one
host port, the pod does not use the group's nodes at all. A pod is put off wherever it fits if a
member's rules about other pods select it, or if its anti-affinity selects a member: it could close
a whole domain to the group. While a second answer is awaited (`is_strict`), later pods use no node
that the group could use.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.base.errors import ObjectError, PluginError
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.queue.pod import QueuedPod
from scheduler.engine.queue.queues import Place, Queues
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import Profile
from scheduler.groups.cycle.run import GroupRun
from scheduler.objects.pod import Pod
from scheduler.state.resources import PODS
from scheduler.state.shapes import Shape

# At most this many shapes of pods that were put off are compared with a pod; with more the pod is
# put off as well.
MOST_SHAPES = 256


class _Role(msgspec.Struct, frozen=True):
    """Members with one spec: the rows that do not reject them for good, the request of each, their
    number.
    """

    rows: BoolColumn
    shape: Shape
    requests: Mapping[str, int]
    count: int


class _Reservation:
    """The rows that a group could use, and the amount of each resource that it could use there.

    `usable` are the rows that it could use if they were empty: a superset of `rows`. For a group
    that may evict, the free amounts beside its victims are reserved too.
    """

    def __init__(self, run: GroupRun, nodes: Nodes) -> None:
        self.facts_mark = _mark(nodes)
        self._roles = tuple(_roles(run, nodes))
        self.is_one_role = len(self._roles) == 1
        self._amounts: dict[str, IntColumn] = {}
        self.rows = np.zeros(nodes.size, dtype=np.bool_)
        # Rows that no role can ever use need no update when other pods are bound there.
        self.usable = np.zeros(nodes.size, dtype=np.bool_)
        for role in self._roles:
            self.usable |= role.rows
        self._evicting = run.context if run.is_evicting else None
        self.has_claims = any(pod.spec.resource_claims for pod in run.context.members)
        self.ports = frozenset().union(*(_ports(role.shape) for role in self._roles))
        # Whether a pod affects the members by rules about other pods, by the pod's shape.
        self._affects: dict[int, bool] = {}
        self._context = run.context
        self._mark = -1
        self._renew(nodes, slice(None))

    def is_affected(self, pod: Pod, shape: Shape) -> bool:
        """Return whether a pod, wherever it is placed, may close nodes to a member."""
        found = self._affects.get(shape.id)
        if found is None:
            found = self._affects[shape.id] = self._context.is_affected(pod)
        return found

    def amount(self, nodes: Nodes, resource: str) -> IntColumn | None:
        """Return the amount of a resource that the group could use by row; None if no member
        requests it.
        """
        touched = nodes.amounts_touched
        if touched is not None and touched.mark != self._mark:
            since = touched.since(self._mark)
            rows = slice(None) if since is None else np.array(since, dtype=np.intp)
            self._renew(nodes, rows if isinstance(rows, slice) else rows[self.usable[rows]])
        return self._amounts.get(resource)

    def _renew(self, nodes: Nodes, at: slice | Rows) -> None:
        """Work the amounts out for some rows."""
        if nodes.amounts_touched is not None:
            self._mark = nodes.amounts_touched.mark
        if not isinstance(at, slice) and not len(at):
            return
        self.rows[at] = False
        for column in self._amounts.values():
            column[at] = 0
        resources = {resource for role in self._roles for resource in role.requests}
        free = {
            resource: np.maximum(nodes.allocatable(resource)[at] - nodes.requested(resource)[at], 0)
            for resource in resources
        }
        freed = None if self._evicting is None else self._evicting.evictable(resources, nodes, at)
        for role in self._roles:
            slots = np.where(role.rows[at], role.count, 0)
            for resource, amount in role.requests.items():
                most = free[resource] if freed is None else free[resource] + freed[resource]
                slots = np.minimum(slots, most // amount)
            self.rows[at] |= slots > 0
            for resource, amount in role.requests.items():
                if resource not in self._amounts:
                    self._amounts[resource] = np.zeros(nodes.size, dtype=np.int64)
                self._amounts[resource][at] += slots * amount
        if freed is not None:
            for resource, column in free.items():
                self._amounts[resource][at] = np.minimum(self._amounts[resource][at], column)


class _Deferred:
    """Pods that were put off, and their requests on the rows where each of them fits."""

    def __init__(self) -> None:
        self.pods: dict[str, QueuedPod] = {}
        # The first pod by shape, and by two shapes whether a pod may close nodes to the other.
        self._firsts: dict[int, tuple[Place, Pod, Profile]] = {}
        self._affects: dict[tuple[int, int], bool] = {}
        # The rows as packed bits: thousands of pods may be put off on thousands of nodes.
        self._requests: list[tuple[Place, int, Any, dict[str, int]]] = []
        # The sums of all: pods are popped in queue order, so most pods come after all put-off ones.
        self._sums: dict[str, IntColumn] = {}
        self._rows = np.zeros(0, dtype=np.int64)
        self._last: Place | None = None

    def add(
        self, queued: QueuedPod, place: Place, rows: BoolColumn, shape: Shape, profile: Profile
    ) -> None:
        """Put off a pod that fits only on these rows."""
        self.pods[queued.uid] = queued
        first = self._firsts.get(shape.id)
        if first is None or place < first[0]:
            self._firsts[shape.id] = place, queued.pod, profile
        requests = _requests(shape)
        self._requests.append((place, len(rows), np.packbits(rows), requests))
        _count(self._sums, rows, requests)
        self._rows = _as_long(self._rows, len(rows)) + rows
        self._last = place if self._last is None else max(self._last, place)

    def before(self, place: Place) -> Mapping[str, IntColumn]:
        """Return by row how much of each resource the pods that precede a place request."""
        if self._last is None or self._last < place:
            return self._sums
        sums: dict[str, IntColumn] = {}
        for own, size, packed, requests in self._requests:
            if own < place:
                rows = np.unpackbits(packed, count=size).astype(np.bool_)
                _count(sums, rows, requests)
        return sums

    def is_affected(self, pod: Pod, shape: Shape, place: Place) -> bool:
        """Return whether a pod may close nodes to a pod that precedes it."""
        has_rules, looked = _has_rules(pod), 0
        for known, (own, first, profile) in self._firsts.items():
            if own >= place or not (has_rules or _has_rules(first)):
                continue
            looked += 1
            key = known, shape.id
            if key not in self._affects:
                self._affects[key] = profile.is_affected(first, pod)
            if self._affects[key] or looked > MOST_SHAPES:
                return True
        return False

    def rows_before(self, place: Place, size: int) -> BoolColumn:
        """Return the rows on which some pod fits that was put off and precedes `place`."""
        if self._last is None or self._last < place:
            return _as_long(self._rows, size) > 0
        found = np.zeros(size, dtype=np.bool_)
        for own, many, packed, _ in self._requests:
            if own < place:
                found[:many] |= np.unpackbits(packed, count=many).astype(np.bool_)
        return found


class PlannedCapacity:
    """The groups that are being planned or wait for it, in queue order, and the pods that they put
    off.
    """

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._runs: list[GroupRun] = []
        self._undecided: set[int] = set()  # the same, by id
        self._reservations: dict[int, _Reservation] = {}
        self._deferred = _Deferred()

    def __bool__(self) -> bool:
        return bool(self._runs)

    def begin(self, run: GroupRun) -> None:
        """Keep capacity for a group from now on."""
        insort(self._runs, run, key=lambda one: one.place)
        self._undecided.add(id(run))

    def renew(self, run: GroupRun) -> None:
        """Recompute a group's reservation, because it may evict from now on."""
        self._reservations.pop(id(run), None)

    def end(self, run: GroupRun, now: float) -> None:
        """End a group's reservation and requeue the pods that were put off for it."""
        if run not in self._runs:
            return
        self._runs.remove(run)
        self._undecided.discard(id(run))
        self._reservations.pop(id(run), None)
        deferred, self._deferred = self._deferred, _Deferred()
        for queued in deferred.pods.values():
            self._queues.resume(queued, now)

    def put_off(self, queued: QueuedPod, rows: BoolColumn, shape: Shape, profile: Profile) -> None:
        """Let a popped pod, which fits on these rows, wait until a group has been decided."""
        self._deferred.add(queued, self._queues.place(queued), rows, shape, profile)

    @property
    def put_off_pods(self) -> Iterable[QueuedPod]:
        """Return the pods that are put off."""
        return self._deferred.pods.values()

    def before(self, queued: QueuedPod) -> "CapacityBefore | None":
        """Return the capacity that groups before this pod need; None without such groups."""
        if not self._runs:
            return None
        place = self._queues.place(queued)
        runs = list(takewhile(lambda run: run.place < place, self._runs))
        return CapacityBefore(self, runs, self._deferred, place) if runs else None

    def competes(self, run: GroupRun) -> bool:
        """Return whether a group that precedes this one could use a node that this one could use.

        The answer stands until the group that it names is decided: of hundreds of groups that wait
        for the same nodes each is compared once, not with every group that comes after it.
        """
        if run.waits_for is not None and id(run.waits_for) in self._undecided:
            return True
        nodes = run.context.nodes
        earlier = takewhile(lambda one: one.place < run.place, self._runs)
        run.waits_for = next((one for one in earlier if self._meet(run, one, nodes)), None)
        if run.waits_for is None and self._runs[0] is not run and self._passes(run, nodes):
            run.waits_for = self._runs[0]  # any decision lets the pods be tried again
        return run.waits_for is not None

    def _passes(self, run: GroupRun, nodes: Nodes) -> bool:
        """Return whether a group could take a node that a deferred pod before it could use."""
        deferred, shape_of = self._deferred, run.context.shape_of
        if any(deferred.is_affected(p, shape_of(p), run.place) for p in run.context.distinct()):
            return True
        rows = deferred.rows_before(run.place, nodes.size)
        return bool(rows.any() and (rows & self.reservation(run, nodes).rows).any())

    def _meet(self, run: GroupRun, earlier: GroupRun, nodes: Nodes) -> bool:
        """Return whether two groups could use a common node, or the second could close one to the
        first by rules about other pods.

        Members with the spec of the earlier group's only role can use its nodes; filters are not
        asked again for them.
        """
        kept = self.reservation(earlier, nodes)
        shape_of = run.context.shape_of
        if any(kept.is_affected(one, shape_of(one)) for one in run.context.distinct()):
            return True
        if kept.is_one_role and run.members[0].pod.spec == earlier.members[0].pod.spec:
            return bool(kept.rows.any())
        return bool((kept.rows & self.reservation(run, nodes).rows).any())

    def reservation(self, run: GroupRun, nodes: Nodes) -> _Reservation:
        """Return a group's reservation on the present nodes."""
        found = self.known(run, nodes)
        found.amount(nodes, PODS)
        return found

    def known(self, run: GroupRun, nodes: Nodes) -> _Reservation:
        """Return a group's reservation with the amounts of its last computation."""
        found = self._reservations.get(id(run))
        if found is None or found.facts_mark != _mark(nodes):
            found = self._reservations[id(run)] = _Reservation(run, nodes)
        return found


class CapacityBefore:
    """The capacity that groups before a pod in the queue, and pods put off for them, need.

    `place` is that of the pod in the queue.
    """

    def __init__(
        self,
        planned: PlannedCapacity,
        runs: Sequence[GroupRun],
        deferred: _Deferred,
        place: Place,
    ) -> None:
        self._planned = planned
        self._runs = runs
        self._affects = deferred.is_affected
        self._deferred = deferred.before(place)
        self._place = place

    def left(self, attempt: Attempt, feasible: BoolColumn) -> BoolColumn:
        """Return the rows of `feasible` that keep enough for the groups when the pod is placed
        there.
        """
        nodes, shape, pod = attempt.nodes, attempt.cycle.shape, attempt.cycle.pod
        known = [(run, self._planned.known(run, nodes)) for run in self._runs]
        if any(kept.is_affected(pod, shape) for _, kept in known) or self._affects(
            pod, shape, self._place
        ):
            return np.zeros_like(feasible)
        # Amounts are computed only for groups that compete with the pod: most pods have none.
        competing = [run for run, kept in known if np.count_nonzero(feasible & kept.usable)]
        if not competing and not self._deferred:
            return feasible
        found = [(run, self._planned.reservation(run, nodes)) for run in competing]
        claims = bool(pod.spec.resource_claims)
        for run, kept in found:
            shares = (claims and kept.has_claims) or bool(kept.ports & _ports(shape))
            if run.is_strict or shares:
                feasible = feasible & ~kept.rows
        for resource, amount in _requests(shape).items():
            columns = [c for _, one in found if (c := one.amount(nodes, resource)) is not None]
            if resource in self._deferred:
                columns.append(_as_long(self._deferred[resource], nodes.size))
            if columns:
                kept_free = np.add.reduce(columns)
                free = nodes.allocatable(resource) - nodes.requested(resource)
                feasible = feasible & ((kept_free == 0) | (free - amount >= kept_free))
        return feasible

    def usable(self, attempt: Attempt) -> BoolColumn:
        """Return the rows that the groups could use."""
        nodes = attempt.nodes
        rows = np.zeros(nodes.size, dtype=np.bool_)
        for run in self._runs:
            rows |= self._planned.reservation(run, nodes).rows
        return rows


def _has_rules(pod: Pod) -> bool:
    """Return whether a filter may have a rule of the pod about other pods."""
    return pod.spec.affinity is not None or bool(pod.spec.topology_spread_constraints)


def _requests(shape: Shape) -> dict[str, int]:
    whole = {**shape.requests, PODS: 1}
    return {resource: amount for resource, amount in whole.items() if amount > 0}


def _count(sums: dict[str, IntColumn], rows: BoolColumn, requests: Mapping[str, int]) -> None:
    """Add a pod's request on each of these rows."""
    for resource, amount in requests.items():
        known = sums.get(resource, np.zeros(len(rows), dtype=np.int64))
        sums[resource] = _as_long(known, len(rows)) + rows * amount


def _as_long(column: IntColumn, size: int) -> IntColumn:
    """Return a column with at least so many rows: the table may have grown since."""
    if len(column) >= size:
        return column
    return np.concatenate([column, np.zeros(size - len(column), dtype=np.int64)])


def _ports(shape: Shape) -> frozenset[tuple[str, int]]:
    return frozenset((port.protocol, port.host_port) for port in shape.host_ports)


def _roles(run: GroupRun, nodes: Nodes) -> Iterator[_Role]:
    """Yield the roles of a group's members; without a filter's verdict, all rows count."""
    each: Iterable[tuple[Sequence[Pod], BoolColumn]]
    try:
        each = [(pods, fits.evictable) for pods, fits in run.context.fits_each()]
    except (PluginError, ObjectError):
        each = [((one,), nodes.exists) for one in run.context.members]
    for pods, rows in each:
        shape = run.context.shape_of(pods[0])
        yield _Role(rows, shape, _requests(shape), len(pods))


def _mark(nodes: Nodes) -> tuple[int, int, int]:
    facts = nodes.facts_touched
    return nodes.size, nodes.count, 0 if facts is None else facts.mark
