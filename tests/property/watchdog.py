"""The invariants of an engine at every moment, checked from outside.

`Watchdog` keeps its own record of the events and decisions. It fails if a decision overcommits a
node by this record, if a pod known as bound is bound again, and if capacity is released while the
outcome of a bind is unknown. `check_inside` compares the engine's own records.
"""

from contextlib import suppress
from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.engine.decision import Decision
from scheduler.engine.effects import (
    Answer,
    AskExtender,
    Bind,
    Complete,
    Effects,
    Listed,
    Look,
    Watched,
)
from scheduler.engine.engine import Engine
from scheduler.engine.intake import identity
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.groups.cycle.groups import Groups
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.resources import counted, pod_requests

UNKNOWN, REFUSED, DONE = "unknown", "refused", "done"


def cpu_of(pod: Pod) -> int:
    """Return a pod's CPU request in milli."""
    return counted(pod_requests(pod)).get("cpu", 0)


class Watchdog:
    """The engine's knowledge, kept a second time and simpler."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.nodes: dict[str, Node] = {}
        self.bound: dict[str, tuple[str, int]] = {}
        self.decided: dict[str, tuple[str, int]] = {}
        self.outcome: dict[str, str] = {}
        self.known_bound: set[str] = set()
        self.known_gone: set[str] = set()
        self._asked: dict[int, tuple[str, str]] = {}
        self._last_bind: dict[tuple[str, str], str] = {}
        self.decisions = 0
        # Effects are checked when they are decided: more events may arrive before they are sent.
        self._put = engine._outbox.put
        engine._outbox.put = self._does  # type: ignore[method-assign]
        engine.observation.on_decision = self._on_decision
        engine.observation.on_end = self._on_end

    # Events.

    def record_event(self, event: Any) -> None:
        """Record one event, before the engine processes it."""
        if isinstance(event, Watched):
            self._watched(event)
        elif isinstance(event, Listed):
            self._listed(event)
        elif isinstance(event, Complete):
            self._complete(event)
        elif isinstance(event, Answer):
            self._answered(event)

    def _watched(self, event: Watched) -> None:
        obj, deleted = event.object, event.verb == "DELETED"
        if event.kind == "Node":
            self.nodes.pop(obj.metadata.name, None)
            if not deleted:
                self.nodes[obj.metadata.name] = obj
        elif event.kind == "Pod":
            uid = obj.metadata.uid
            if deleted or obj.is_finished:
                self.bound.pop(uid, None)
                self.known_gone.add(uid)
            elif obj.spec.node_name:
                with suppress(ObjectError):  # the engine cannot count it either
                    self.bound[uid] = (obj.spec.node_name, cpu_of(obj))
                self.known_bound.add(uid)

    def _listed(self, event: Listed) -> None:
        self._complete(Complete(event.kind, tuple(map(identity, event.objects))))
        for obj in event.objects:
            self._watched(Watched(event.kind, "MODIFIED", obj))

    def _complete(self, event: Complete) -> None:
        keys = set(event.keys)
        if event.kind == "Node":
            self.nodes = {name: node for name, node in self.nodes.items() if name in keys}
        elif event.kind == "Pod":
            self.known_gone |= {uid for uid in (*self.bound, *self.decided) if uid not in keys}
            self.bound = {uid: where for uid, where in self.bound.items() if uid in keys}

    def _answered(self, answer: Answer) -> None:
        if answer.effect not in self.engine.bindings._by_effect:
            return  # too late: the engine has given the effect up and looked
        kind, uid = self._asked.get(answer.effect, ("", ""))
        if kind == "Bind":
            if answer.ok:
                self.outcome[uid] = DONE
                self.known_bound.add(uid)
            elif answer.code in (0, 404, 409) or answer.code >= 500:
                self.outcome[uid] = UNKNOWN
            else:
                self.outcome[uid] = REFUSED
        elif kind == "Look" and (answer.ok or answer.code == 404):
            body = answer.body or {}
            if body.get("uid") == uid and body.get("nodeName"):
                self.outcome[uid] = DONE
                self.known_bound.add(uid)
            else:
                self.outcome[uid] = REFUSED

    # Effects.

    def _does(self, effect: Effects | None) -> None:
        """Check one effect."""
        self._put(effect)
        if isinstance(effect, AskExtender) and effect.verb != "bind":
            return
        if isinstance(effect, Bind | AskExtender):
            self._last_bind[effect.namespace, effect.name] = effect.uid
            assert effect.uid not in self.known_bound, f"{effect.uid} is bound again"
            assert effect.uid not in self.known_gone, f"{effect.uid} is gone and bound"
            self._asked[effect.id] = ("Bind", effect.uid)
            self.outcome[effect.uid] = UNKNOWN
        elif isinstance(effect, Look):
            self._asked[effect.id] = ("Look", self._last_bind[effect.namespace, effect.name])

    def _on_decision(self, queued: QueuedPod, decision: Decision) -> None:
        if not decision.fits:
            return
        assert self.engine.is_leading, "decided without being the leader"
        self.decisions += 1
        self.outcome.pop(queued.uid, None)
        node, cpu = decision.node, cpu_of(queued.pod)
        assert node in self.nodes, f"{node} is not there"
        placed = {**self.decided, **self.bound}
        used = sum(amount for where, amount in placed.values() if where == node)
        total = int(self.nodes[node].status.allocatable["cpu"]) * 1000
        assert used + cpu <= total, f"{queued.pod.key} overcommits {node}: {used}+{cpu}>{total}"
        self.decided[queued.uid] = (node, cpu)

    def _on_end(self, queued: QueuedPod, result: str, text: str) -> None:
        uid = queued.uid
        if result == "scheduled":
            confirmed = uid in self.known_bound or self.outcome.get(uid) == DONE
            assert confirmed, f"{uid} is reported as scheduled, without an event of the scheduler"
            return
        if uid in self.decided:
            reported = uid in self.known_gone or uid in self.bound
            assert reported or self.outcome.get(uid) != UNKNOWN, f"{uid} was given up on a guess"
            del self.decided[uid]

    def forget_bound(self) -> None:
        """Drop decisions that the watch has confirmed or that ended with their pod."""
        for uid in list(self.decided):
            if uid in self.bound or uid in self.known_gone:
                del self.decided[uid]


def check_inside(engine: Engine) -> None:
    """Check that every pod is in exactly one place, and that all records of it agree."""
    queues, bindings = engine.queues, engine.bindings
    active = {queued.uid for queued in queues._active}
    places: dict[Where, set[str]] = {where: set() for where in Where}
    for queued in queues:
        places[queued.where].add(queued.uid)
    assert places[Where.ACTIVE] == active
    for where, heap in queues._waiting.items():
        current = {e[3].uid for e in heap if _is_current(e[3], e[2], where)}
        assert places[where] == current, where
    in_flight, asking = set(bindings._pods), _asking(engine)
    assert set() == in_flight & asking
    assert places[Where.IN_FLIGHT] == in_flight | asking
    assert set() == places[Where.GONE]
    for where, uids in places.items():
        if where is not Where.GONE:
            assert len(uids) == queues.count(where), where
    parked = {queued.uid for queued in queues._unschedulable_pods.parked()}
    assert (
        places[Where.UNSCHEDULABLE] <= parked <= places[Where.UNSCHEDULABLE] | places[Where.GATED]
    )
    assert {pod.uid for pod in bindings._by_effect.values()} <= in_flight
    assert set(bindings._until) <= in_flight
    assert set(bindings.waiting) <= in_flight
    assert set(queues._in_flight._since) <= in_flight | asking
    waiting = set(engine.suspended.waiting)
    assert {one.key for one in engine.suspended._by_effect.values()} <= waiting
    assumed = {p.pod.metadata.uid for p in engine.cluster.pods if p.assumed}
    assert in_flight <= assumed | {p.pod.metadata.uid for p in engine.cluster.pods}


def _is_current(queued: QueuedPod, ticket: int, where: str) -> bool:
    return queued.where == where and queued.ticket == ticket


def _asking(engine: Engine) -> set[str]:
    """Return the pods whose cycle waits for an answer, those of groups one by one."""
    found = set()
    groups = engine.groups
    runs = groups._runs if isinstance(groups, Groups) else {}
    line = groups._line if isinstance(groups, Groups) else ()
    for key in engine.suspended.waiting:
        run = runs.get(key)
        if run is None:
            found.add(key)
            continue
        for member in run.members:
            if engine.queues.get(member.uid) is member:
                found.add(member.uid)
    if isinstance(groups, Groups):  # put off until a group before them is decided
        put_off = groups._planned.put_off_pods
        found.update(one.uid for one in put_off if engine.queues.get(one.uid) is one)
    for run in line:  # waits until the group before it is decided
        found.update(one.uid for one in run.members if engine.queues.get(one.uid) is one)
    return found
