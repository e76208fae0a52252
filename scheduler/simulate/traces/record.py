"""Turn the events of a cluster into a trace: one JSON object per line, sorted by arrival.

The events are those of a decision log or of watches. A pod arrives with its first event, waits
until it is bound, and runs until it ends or is deleted. Pods of `profiles` arrive without a node,
so that a play decides for them; all others, and those that were bound at the start, arrive on their
node. Other objects arrive when they first appear; later changes of them are left out.

Answers of the solver, and to evictions, have lines of their own. Each arrives as long before its
request as a play may make it early, so that the play knows it by then.

A pod that was deleted before it was bound is deleted by a play as long after its arrival. The trace
starts with the second in which decisions begin (`Leading`). Objects listed until then arrive at
that time: a play would otherwise decide on listed pods before it has the objects listed after them.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from scheduler.engine.effects import Answer, Complete, Event, Leading, Listed, Watched
from scheduler.engine.intake import identity
from scheduler.objects.kinds import BY_KIND, NODE, POD
from scheduler.objects.pod import Pod
from scheduler.simulate.traces.arrival import ANSWER, LATENCY_S
from scheduler.simulate.traces.manifests import (
    ARRIVAL,
    DELETED_AFTER,
    DURATION,
    END_ORDER,
    TERMINATION,
    WAITED,
)


class _Seen(msgspec.Struct):
    kind: str
    arrived_s: float
    obj: Any
    bound_s: float | None = None
    deleted_s: float | None = None
    ended_s: float | None = None
    end_order: int = 0
    is_ours: bool = False


class _Answered(msgspec.Struct):
    name: str
    sent_s: float
    answered_s: float
    end_order: int
    kind: str = ANSWER

    @property
    def arrived_s(self) -> float:
        return max(self.sent_s - LATENCY_S, 0.0)


class TraceRecorder:
    """Takes events in order; `lines` are those of the trace."""

    def __init__(self, profiles: Collection[str]) -> None:
        self._profiles = frozenset(profiles)
        self._start = 0.0
        self._has_started = False
        self._now = 0.0
        self._events = 0
        self._seen: dict[tuple[str, str], _Seen] = {}
        # Effect id → the name of the effect and its time.
        self._sent: dict[int, tuple[str, float]] = {}
        self._answered: list[_Answered] = []

    def take(
        self, now: float, events: Iterable[Event], calls: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        """Take the events of one moment, `now` in seconds since the epoch.

        `calls` are the ids and names of the engine's effects whose answers pods wait for.
        """
        if not self._has_started:
            # Back-offs end at whole seconds of the clock: a play needs the same fraction.
            self._start = math.floor(now)
        self._now = now - self._start
        for event in events:
            self._events += 1
            if isinstance(event, Leading):
                self._begin(is_leading=event.active)
            elif isinstance(event, Watched):
                self._see(event.kind, event.object, is_gone=event.verb == "DELETED")
            elif isinstance(event, Listed):
                for obj in event.objects:
                    self._see(event.kind, obj)
                self._keep_only(event.kind, {identity(obj) for obj in event.objects})
            elif isinstance(event, Complete):
                self._keep_only(event.kind, frozenset(event.keys))
            elif isinstance(event, Answer) and event.effect in self._sent:
                sent = self._sent.pop(event.effect)
                self._answered.append(_Answered(*sent, self._now, self._events))
        self._sent.update((effect, (name, self._now)) for effect, name in calls.items())

    def nodes(self) -> Iterator[bytes]:
        """Yield the nodes of the log as JSON lines, for `--snapshot`."""
        for seen in self._seen.values():
            if seen.kind == NODE.kind:
                yield _line(seen, {})

    def lines(self) -> Iterator[bytes]:
        """Yield the pods and other objects by arrival, one JSON object per line."""
        entries: list[_Seen | _Answered] = [*self._answered]
        entries += (seen for seen in self._seen.values() if seen.kind != NODE.kind)
        # Objects before pods of the same time: groups and claims exist when pods are read.
        for one in sorted(entries, key=lambda one: (one.arrived_s, one.kind == POD.kind)):
            notes = {ARRIVAL: f"{one.arrived_s:.6f}"}
            if one.end_order:
                notes[END_ORDER] = str(one.end_order)
            if isinstance(one, _Answered):
                notes |= _times(one.arrived_s, one.sent_s, one.answered_s)
                meta = {"name": one.name, "annotations": notes}
                yield _encoded({"kind": ANSWER, "metadata": meta})
                continue
            if one.kind == POD.kind and one.ended_s is None and one.bound_s is not None:
                notes[WAITED] = _between(one.arrived_s, one.bound_s)
            if one.kind == POD.kind and one.ended_s is not None:
                notes |= _times(one.arrived_s, one.bound_s, one.ended_s)
                if one.bound_s is not None and one.deleted_s is not None:
                    notes[TERMINATION] = _between(max(one.deleted_s, one.bound_s), one.ended_s)
            yield _line(one, notes)

    def _begin(self, *, is_leading: bool) -> None:
        """Set the arrival of objects listed before the first decision to its time."""
        if is_leading and not self._has_started:
            self._has_started = True
            for seen in self._seen.values():
                seen.arrived_s = self._now

    def _see(self, kind: str, obj: Any, *, is_gone: bool = False) -> None:
        key = (kind, identity(obj))
        seen = self._seen.get(key)
        if is_gone:
            if seen is not None:
                self._end(seen)
            return
        if seen is None:
            seen = self._seen[key] = _Seen(kind, self._now, obj)
            if isinstance(obj, Pod):
                is_bound = bool(obj.spec.node_name)
                seen.is_ours = obj.spec.scheduler_name in self._profiles and not is_bound
        if not isinstance(obj, Pod):
            return
        if obj.is_terminating and seen.ended_s is None and seen.deleted_s is None:
            seen.deleted_s = self._now
        if obj.is_finished:
            self._end(seen)
        elif obj.spec.node_name and seen.bound_s is None:
            seen.bound_s = self._now
            if not seen.is_ours:
                # Other schedulers decide: the pod takes capacity from its binding on.
                seen.obj, seen.arrived_s = obj, self._now

    def _end(self, seen: _Seen) -> None:
        if seen.ended_s is None:
            seen.ended_s, seen.end_order = self._now, self._events

    def _keep_only(self, kind: str, keys: Collection[str]) -> None:
        for (known, name), seen in self._seen.items():
            if known == kind and name not in keys:
                self._end(seen)


def _times(arrived_s: float, began_s: float | None, ended_s: float) -> dict[str, str]:
    """Return the annotations of what began after its arrival, or never began, and has ended."""
    if began_s is None:
        return {DELETED_AFTER: _between(arrived_s, ended_s)}
    return {WAITED: _between(arrived_s, began_s), DURATION: _between(began_s, ended_s)}


def _between(earlier_s: float, later_s: float) -> str:
    """Return the difference of two times that are rounded first, so that differences add up."""
    return f"{round(later_s, 6) - round(earlier_s, 6):.6f}"


def _encoded(plain: dict[str, Any]) -> bytes:
    return msgspec.json.encode(plain) + b"\n"


def _line(seen: _Seen, notes: dict[str, str]) -> bytes:
    """Return an object as an annotated manifest; a pod of a recorded profile without its result."""
    kind = BY_KIND[seen.kind]
    plain = msgspec.to_builtins(seen.obj)
    plain = {"apiVersion": kind.api_version, "kind": kind.name} | plain
    meta = plain.setdefault("metadata", {})
    if notes:
        meta["annotations"] = dict(meta.get("annotations") or {}) | notes
    if seen.is_ours:
        plain.pop("status", None)
        plain.get("spec", {}).pop("nodeName", None)
    return _encoded(plain)
