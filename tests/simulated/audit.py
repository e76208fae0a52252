"""The auditor of the API server: which process sent which request, and whether it was allowed.

`Audit.served` runs in the API server for each request of a process, with the objects at that time.
It uses no state of the scheduler: no memory, queue or log.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec

from scheduler.kube.api import Response
from scheduler.sandbox.kinds.kinds import PODS
from scheduler.sandbox.store.store import ObjectStore
from tests.simulated.groupcapacity import POD_GROUP, at_most, members
from tests.simulated.groupstarts import GroupStarts
from tests.simulated.history import History, Object, requests_of
from tests.simulated.invariants import Breach, Invariant

LEASES = "/apis/coordination.k8s.io/"
EVENTS = "/events"
# The namespace of election events; all other events are in another group.
OWN_EVENTS = "/default/events"
PROTECTED = {"budget": "none-may-go"}
# The longest delay of a change to a leader with live watches.
IN_FLIGHT_S = 2.0
# The loop's time is rounded.
ROUNDED_S = 1e-3
# The longest interval between retries for a kind that was not offered.
LOOK_AGAIN_S = 35.0


@dataclass(frozen=True)
class Sent:
    """A request: its process, its time, and the time up to which the process had received all
    events.
    """

    process: int
    at: float
    informed_until: float
    # The time up to which the sender had received all pods: by a list, or by a live watch.
    pods_until: float = inf
    # Since when it has been trying to list a required kind.
    blind_since: float = inf

    @property
    def is_informed(self) -> bool:
        """Return whether the sender had received all events."""
        return self.informed_until >= self.at

    @property
    def known_until(self) -> float:
        """Return the time up to which the sender must know the changes."""
        return min(self.at, self.informed_until) - IN_FLIGHT_S


@dataclass
class EventRecord:
    """An eviction event for a pod: the preemptor's uid, and the time."""

    reason: str
    preemptor: str
    note: str
    at: float


@dataclass
class Audit:
    """The invariants: eviction events, priorities, budgets, leases, fencing, identity, no needless
    writes.

    `informed_until` returns the time up to which a process has received all events. A process that
    is behind is excused for the choice of victims, and for capacity used by others since; never
    for eviction events, priorities, or the lease.
    """

    store: ObjectStore
    history: History
    informed_until: Callable[[int], float]
    # How long after sending a renewal its sender may write: of all, or by a process's own
    # configuration.
    renew_deadline_s: float = inf
    deadlines_s: dict[int, float] = field(default_factory=dict)
    holder: int | None = None
    needless: list[str] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    # The last target node of a pod of this name.
    targets: dict[str, str] = field(default_factory=dict)
    # Groups that lost a member while no object described them, as far as the preemptor could know.
    partially_evicted: set[str] = field(default_factory=set)
    # Partially bound groups whose capacity others may have used: pods that could evict the members,
    # or that another scheduler bound. And those whose capacity was lost with nodes during their
    # binds.
    deprived: set[str] = field(default_factory=set)
    # Pods with a rejected status write, which is not repeated before the status changes. And names
    # of groups.
    unreported: set[str] = field(default_factory=set)
    # Groups with a member evicted for another pod.
    _preempted: set[str] = field(default_factory=set)
    _group_starts: GroupStarts = field(default_factory=GroupStarts)
    _described: dict[str, float] = field(default_factory=dict)
    _events: dict[str, EventRecord] = field(default_factory=dict)
    _reasons: dict[str, list[str]] = field(default_factory=dict)
    _failed: set[tuple[int, str]] = field(default_factory=set)
    # Evicted pods whose eviction event was rejected: by whom, and its name.
    _owed: dict[str, tuple[int, str]] = field(default_factory=dict)
    _priorities: dict[str, int] = field(default_factory=dict)
    _changed: dict[str, float] = field(default_factory=dict)
    _usage: dict[str, tuple[str, dict[str, int], bool]] = field(default_factory=dict)
    _born: dict[str, float] = field(default_factory=dict)
    # The allocatable amounts of nodes, and the time of their last change or deletion.
    _offers: dict[str, Object] = field(default_factory=dict)
    _resized_at: float = -inf
    _sizes: dict[str, int] = field(default_factory=dict)
    # By process, when the last confirmed renewal was sent.
    _renewed: dict[int, float] = field(default_factory=dict)
    _leaders: set[int] = field(default_factory=set)
    # The lease holders by the server's state, and when a new leader requested the lease.
    _holders: set[int] = field(default_factory=set)
    _succeeded: dict[int, float] = field(default_factory=dict)
    # By process, the end of its lease by the server's state. Processes that released their lease
    # are missing.
    _valid_until: dict[int, float] = field(default_factory=dict)

    def take(self, kind: str, verb: str, obj: Object, now: float) -> None:
        """Apply one change of the store."""
        self._group_starts.take(kind, verb, obj, now)
        if kind == "Pod":
            uid = obj["metadata"]["uid"]
            self._born.setdefault(uid, now)
            self._priorities[uid] = obj["spec"].get("priority", 0)
            deleted = verb == "DELETED" or "deletionTimestamp" in obj["metadata"]
            usage = (obj["spec"].get("nodeName", ""), requests_of(obj["spec"]), deleted)
            before = self._usage.get(uid)
            if usage != before:
                self._changed[usage[0]] = now
            if usage[0] and (before is None or not before[0]):
                self._deprive(uid, obj["spec"])
                self._strand((obj["metadata"].get("labels") or {}).get(POD_GROUP, ""))
            self._usage[uid] = usage
        elif kind == "PodGroup":
            name = obj["metadata"]["name"]
            size = 0 if verb == "DELETED" else obj["spec"].get("minMember", 0)
            if size != self._sizes.get(name):
                self._sizes[name], self._changed[f"group {name}"] = size, now
            if verb == "DELETED":
                self._described.pop(name, None)
            else:
                self._described.setdefault(name, now)
        elif kind == "Node":
            name = obj["metadata"]["name"]
            self._changed[name] = now
            offer = {} if verb == "DELETED" else dict(obj["status"].get("allocatable") or {})
            if self._offers.setdefault(name, offer) != offer:
                self._offers[name], self._resized_at = offer, now
        elif kind == "Event" and obj.get("reason") == "Scheduled":
            self._check_truth(obj, now)
        elif kind == "Event" and obj.get("reason") in ("Preempted", "GroupReleased"):
            # The store has events in the format of v1, whatever the request's format was.
            uid = obj.get("involvedObject", {}).get("uid", "")
            note = obj.get("message", "")
            if verb == "ADDED":
                key = obj.get("involvedObject", {}).get("name", "")
                self._reasons.setdefault(key, []).append(obj["reason"])
            self._events[uid] = EventRecord(
                obj["reason"], obj.get("related", {}).get("uid", ""), note, now
            )

    def _deprive(self, uid: str, spec: Object) -> None:
        """Record the groups for which a newly bound pod need not have left capacity.

        A pod that cannot evict must not use the capacity of a partially bound group, whatever its
        priority; and a preemptor evicts all of a group.
        """
        is_foreign = uid in self.history.foreign
        may_evict = spec.get("preemptionPolicy") != "Never"
        priority = spec.get("priority", 0) if may_evict else 0
        if not priority and not is_foreign:
            return
        bound: dict[str, dict[str, int]] = {}
        for stored in self.store.list(PODS):
            meta, spec = stored.obj["metadata"], stored.obj["spec"]
            group = (meta.get("labels") or {}).get(POD_GROUP)
            if group and spec.get("nodeName"):
                bound.setdefault(group, {})[meta["uid"]] = spec.get("priority", 0)
        for group, priorities in bound.items():
            is_part = len(priorities) < self._sizes.get(group, 0) and uid not in priorities
            is_part = is_part and group not in self._preempted
            if is_part and (is_foreign or priority > min(priorities.values())):
                self.deprived.add(group)

    def _strand(self, group: str) -> None:
        """Record a group that started partially because nodes were deleted or changed after its
        arrival.

        Its planner could not know. Capacity that is freed later goes to the first in the queue.
        """
        pods = {stored.obj["metadata"]["uid"]: stored.obj for stored in self.store.list(PODS)}
        mine, size = members(pods, group), self._sizes.get(group, 0)
        if not group or size <= sum(bool(pod["spec"].get("nodeName")) for pod in mine):
            return
        came = min(self._born.get(pod["metadata"]["uid"], inf) for pod in mine)
        if came < self._resized_at and at_most(self.history, pods, group) < size:
            self.deprived.add(group)

    def failed(self, process: int, path: str, body: bytes) -> None:
        """Record a request of a process without a successful answer.

        Of an event it is then unknown whether it was written.
        """
        pod = self._pod(path.removesuffix("/status"))
        if pod is not None and path.endswith("/status"):
            self.unreported.add(pod["metadata"]["uid"])
        if "/podgroups/" in path and path.endswith("/status"):
            self.unreported.add(path.split("/")[-2])
        if path.endswith(EVENTS) and body:
            about = msgspec.json.decode(body).get("regarding", {}).get("uid", "")
            self._failed.add((process, about))

    def sends(self, process: int, method: str, path: str, body: bytes, now: float) -> None:
        """Check whether a process may send a request: at its sending, not at its arrival.

        Events about the election are always allowed.
        """
        if method == "GET" or path.startswith(LEASES) or path.endswith(OWN_EVENTS):
            return
        if path.endswith("/binding"):
            target = msgspec.json.decode(body)["target"]["name"]
            self.targets[path.split("/")[-2]] = target
        self.checked["fence"] += 1
        since = now - self._renewed.get(process, -inf)
        if since > self.deadlines_s.get(process, self.renew_deadline_s) + ROUNDED_S:
            self._broken(
                Invariant.FENCE, f"{method} {path} of {process}, {since:.1f} s after a renewal"
            )

    def has_led(self, process: int) -> bool:
        """Return whether a process has ever had the lease, by the answers it received."""
        return process in self._leaders

    def confirmed(self, process: int, path: str, body: bytes, sent_at: float) -> None:
        """Record that a process received the confirmation of a lease write."""
        if path.startswith(LEASES) and body:
            if msgspec.json.decode(body).get("spec", {}).get("holderIdentity"):
                self._renewed[process] = sent_at
                if process not in self._leaders and self._holders - {process}:
                    self._succeeded[process] = sent_at
                self._leaders.add(process)
            else:
                self._renewed.pop(process, None)

    def reasons(self, name: str) -> list[str]:
        """Return the reasons of eviction events for a pod of this name, in order."""
        return self._reasons.get(name, [])

    def served(
        self, sent: Sent, method: str, path: str, body: bytes, serve: Callable[[], Response]
    ) -> Response:
        """Carry out a request and check it."""
        process = sent.process
        if method == "GET":
            return serve()
        found = self._pod(path)
        pod = found if method == "DELETE" else None
        version = self.store.version
        self.history.known_until = self._pods_known_until(sent)
        changed = max(self._changed.values(), default=-inf)
        response = serve()
        if found is not None and path.endswith("/binding") and response.code == 409:
            self._check_again(sent, path, found)
        if not response.ok:
            return response
        if path.startswith(LEASES):
            self._hand_over(process, msgspec.json.decode(body).get("spec", {}))
            return response
        if EVENTS not in path:
            self._check_lease(process, method, path)
        if found is not None:
            self._check_identity(sent, method, path, found)
        if found is not None and path.endswith("/binding"):
            self._check_bind(sent, path, found)
            if changed <= sent.known_until:
                self._check_start((found["metadata"].get("labels") or {}).get(POD_GROUP, ""))
        if pod is not None:
            self._check_eviction(sent, pod)
        if self.store.version == version:
            self.needless.append(f"{process} {method} {path} {body.decode()}")
        return response

    def _pods_known_until(self, sent: Sent) -> float:
        """Return the time up to which the sender must know the changes of nodes and pods.

        A new leader reads them before its first decision, however late its watches are.
        """
        return max(sent.known_until, self._succeeded.get(sent.process, -inf) - IN_FLIGHT_S)

    def _hand_over(self, process: int, claim: Object) -> None:
        """Record the new holder of the lease: a process that claims it, or None after its
        release.
        """
        if claim.get("holderIdentity"):
            self.holder = process
            self._holders.add(process)
            self._valid_until[process] = self.store.clock.now() + claim["leaseDurationSeconds"]
        else:
            self.holder = None
            self._valid_until.pop(process, None)

    def _check_lease(self, process: int, method: str, path: str) -> None:
        """Requests sent in time are excused while in flight until their sender's lease has expired.

        They cannot be recalled, and an expiring lease does not wait. A process that releases its
        lease can wait, and is not excused.
        """
        self.checked["leases"] += 1
        if self.store.clock.now() >= self._valid_until.get(process, inf):
            return
        if self.holder is not None and self.holder != process:
            what = f"{method} {path} of {process} is carried out while {self.holder} leads"
            self._broken(Invariant.LEASE, what)

    def _check_identity(self, sent: Sent, method: str, path: str, pod: Object) -> None:
        """Check that a write is for the pod that its sender knew, not for another of the same
        name.
        """
        self.checked["identity"] += 1
        born = self._born.get(pod["metadata"]["uid"], -inf)
        known_until = min(sent.at, sent.pods_until)
        if born > known_until + ROUNDED_S:
            late = f"it is {born - known_until:.3f} s younger than what {sent.process} can know"
            self._broken(
                Invariant.IDENTITY, f"{method} {path} reaches another pod of the name: {late}"
            )

    def _check_bind(self, sent: Sent, path: str, pod: Object) -> None:
        """Check that no pod is decided that arrived while nodes or pods could not be listed."""
        self.checked["known"] += 1
        born = self._born.get(pod["metadata"]["uid"], -inf)
        if born > sent.blind_since + IN_FLIGHT_S:
            since = sent.at - sent.blind_since
            self._broken(
                Invariant.KNOWN, f"{path}: {sent.process} has been listing for {since:.1f} s"
            )
        self.checked["begun"] += 1
        if what := self._group_starts.short(pod, sent.known_until):
            self._broken(Invariant.STARTED, what)

    def _check_start(self, group: str) -> None:
        """Check that a group's first member is bound only with capacity for all that the group
        needs.

        Nodes cordoned since the decision count: members keep their nodes.
        """
        pods = {stored.obj["metadata"]["uid"]: stored.obj for stored in self.store.list(PODS)}
        mine = (one for one in pods.values() if one["spec"].get("nodeName"))
        mine = (
            one for one in mine if (one["metadata"].get("labels") or {}).get(POD_GROUP) == group
        )
        if not group or sum(1 for _ in mine) != 1:
            return
        self.checked["starts"] += 1
        capacity, size = at_most(self.history, pods, group, closed=True), self._sizes.get(group, 0)
        if capacity < size:
            self._broken(
                Invariant.WHOLE, f"{group} begins where {capacity} of {size} members have capacity"
            )

    def _check_again(self, sent: Sent, path: str, pod: Object) -> None:
        """Check that no pod is bound that the sender has known as bound for long."""
        uid = pod["metadata"]["uid"]
        known_until = self._pods_known_until(sent)
        if self.history.bound_at.get(uid, inf) < known_until and uid in self.history.bound_pods:
            self._broken(
                Invariant.ONCE, f"{path} is sent again by {sent.process}, who knows better"
            )

    def _check_truth(self, obj: Object, now: float) -> None:
        """Check that an event about a bound pod refers to a pod that is, or was, bound."""
        about = obj.get("involvedObject", {})
        if about.get("kind") == "Pod" and about.get("uid") not in self.history.bound_to:
            what = f"{about.get('name')} ({about.get('uid')}) was never bound"
            self.history.broken.append(Breach(Invariant.TRUTH, now, what))

    def _check_eviction(self, sent: Sent, pod: Object) -> None:
        self.checked["eviction events"] += 1
        meta = pod["metadata"]
        uid, key = meta["uid"], f"{meta['namespace']}/{meta['name']}"
        marks = (c for c in pod["status"].get("conditions", ()) if c["type"] == "DisruptionTarget")
        if not next((mark.get("message") for mark in marks), ""):
            self._broken(
                Invariant.EVICTION_EVENT, f"{key} is evicted without a reason in its condition"
            )
        reported = self._events.get(uid)
        if reported is None:
            if (sent.process, uid) not in self._failed:
                self._broken(Invariant.EVICTION_EVENT, f"{key} is evicted without an event")
            self._owed[uid] = (sent.process, key)
            return
        group = (meta.get("labels") or {}).get(POD_GROUP, "")
        if reported.reason == "GroupReleased":
            # The remaining members of a group whose other members were evicted, or of one that
            # could never start.
            if self._group_starts.was_whole(pod) and group not in self._preempted:
                self._broken(
                    Invariant.EVICTION_EVENT, f"{key} is released, and its group was complete"
                )
            return
        self._preempted.add(group)
        if group and self._described.get(group, inf) > sent.known_until - LOOK_AGAIN_S:
            self.partially_evicted.add(group)
        if not reported.preemptor or reported.preemptor not in reported.note:
            what = f"{key}: the event does not name the preemptor: {reported.note}"
            self._broken(Invariant.EVICTION_EVENT, what)
            return
        self.checked["priorities"] += 1
        mine, theirs = self._priorities[uid], self._priorities.get(reported.preemptor, 0)
        if mine >= theirs:
            self._broken(Invariant.PRIORITY, f"{key} of priority {mine} goes for one of {theirs}")
        if _is_protected(pod) and sent.is_informed and not self._is_member(reported.preemptor):
            # Retries were decided at the time of the event.
            decided_at = min(sent.known_until, reported.at - IN_FLIGHT_S)
            self._check_budget(key, reported.preemptor, decided_at)

    def _is_member(self, uid: str) -> bool:
        """Return whether a pod belongs to a group: then capacity for it alone is useless."""
        found = next((pod for pod in self._pods() if pod["metadata"]["uid"] == uid), None)
        return found is not None and POD_GROUP in (found["metadata"].get("labels") or {})

    def owing(self, alive: set[int]) -> list[Breach]:
        """Return the missing eviction events whose sender is alive and whose writes are not
        rejected.
        """
        now, owed = self.store.clock.now(), self._owed.items()
        keys = (key for uid, (who, key) in owed if who in alive and uid not in self._events)
        return [
            Breach(Invariant.EVICTION_EVENT, now, f"{key} is deleted, and has no event")
            for key in keys
        ]

    def _check_budget(self, key: str, preemptor: str, known_until: float) -> None:
        """Check that no protected pod is evicted while some node has enough victims without a
        budget.
        """
        self.checked["budgets"] += 1
        found = next((p for p in self._pods() if p["metadata"]["uid"] == preemptor), None)
        if found is None or found["spec"].get("nodeName"):
            return
        for node in self.without_budgets(found, known_until):
            what = f"{key} is protected by a budget, and {node} has victims that are not"
            self._broken(Invariant.BUDGET, what)
            return

    def without_budgets(self, pod: Object, known_until: float = inf) -> Iterator[str]:
        """Yield the nodes where a pod fits after evicting lower ones without a budget or a group.

        Nodes changed since `known_until` are left out; pods that may not evict have no victims.
        """
        if pod["spec"].get("preemptionPolicy") == "Never":
            return
        priority, wanted = pod["spec"].get("priority", 0), requests_of(pod["spec"])
        pods = list(self._pods())
        nominated = {
            one.get("status", {}).get("nominatedNodeName") for one in pods if one is not pod
        }
        for name, node in self.history.nodes.items():
            if name in nominated or self._changed.get(name, 0.0) > known_until:
                continue
            free = dict(node.allocatable)
            for one in pods:
                if one["spec"].get("nodeName") == name and not _may_go(one, priority):
                    for resource, amount in requests_of(one["spec"]).items():
                        free[resource] = free.get(resource, 0) - amount
            if not node.is_closed and all(free.get(r, 0) >= a for r, a in wanted.items()):
                yield name

    def _pods(self) -> Iterator[Object]:
        return (stored.obj for stored in self.store.list(PODS))

    def _pod(self, path: str) -> Object | None:
        parts = path.partition("?")[0].split("/")
        if len(parts) not in (7, 8) or parts[5] != "pods":
            return None
        found = self.store.find(PODS, parts[4], parts[6])
        return found.obj if found is not None else None

    def _broken(self, invariant: Invariant, what: str) -> None:
        self.history.broken.append(Breach(invariant, self.store.clock.now(), what))


def _is_protected(pod: Object) -> bool:
    labels: dict[str, Any] = pod["metadata"].get("labels") or {}
    return PROTECTED.items() <= labels.items()


def _may_go(pod: Object, priority: int) -> bool:
    labels = pod["metadata"].get("labels") or {}
    if pod["spec"].get("priority", 0) >= priority or _is_protected(pod):
        return False
    return POD_GROUP not in labels and "deletionTimestamp" not in pod["metadata"]
