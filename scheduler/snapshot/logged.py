"""The cluster over time, from a decision log: every change of an object, and snapshots at any time.

Filled step by step while the log is replayed (`simulate.replay`). Changes are stored by name; a
copy of the existing names every `CHECKPOINT` changes makes any time quick to restore. Does no I/O.
"""

from bisect import bisect_right
from typing import Any

from scheduler.base.errors import InputError
from scheduler.engine.decisionlog import LoggedTurn
from scheduler.engine.effects import Complete, Listed, Watched
from scheduler.engine.intake import identity
from scheduler.objects.kinds import BY_KIND
from scheduler.snapshot.snapshot import Snapshot

CHECKPOINT = 20_000

Name = tuple[str, str]


class LoggedCluster:
    """The objects in a log; `snapshot` restores a snapshot from the parts."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._changes: list[tuple[Name, Any]] = []
        self._now: dict[Name, Any] = {}
        # The number of changes at a checkpoint, and the objects at that time.
        self._kept: list[tuple[int, dict[Name, Any]]] = [(0, {})]

    def take(self, step: LoggedTurn) -> None:
        """Store the object changes of a turn."""
        for event in step.events:
            if isinstance(event, Watched):
                self._set(step.now, event.kind, event.object, gone=event.verb == "DELETED")
            elif isinstance(event, Listed):
                for obj in event.objects:
                    self._set(step.now, event.kind, obj)
                self._keep_only(step.now, event.kind, {identity(obj) for obj in event.objects})
            elif isinstance(event, Complete):
                self._keep_only(step.now, event.kind, set(event.keys))

    def snapshot(self, at: float | None = None) -> Snapshot:
        """Return the cluster as it was known at `at`, or at the end.

        InputError before the beginning.
        """
        if not self._times:
            return Snapshot()
        end = len(self._times) if at is None else bisect_right(self._times, at)
        if not end:
            raise InputError("the log begins later", where="at")
        began, kept = next(one for one in reversed(self._kept) if one[0] <= end)
        found = dict(kept)
        for name, obj in self._changes[began:end]:
            if obj is None:
                found.pop(name, None)
            else:
                found[name] = obj
        return _snapshot(found, self._times[end - 1] if at is None else at)

    def _set(self, now: float, kind: str, obj: Any, *, gone: bool = False) -> None:
        self._put(now, (kind, identity(obj)), None if gone else obj)

    def _keep_only(self, now: float, kind: str, keys: set[str]) -> None:
        for name in [one for one in self._now if one[0] == kind and one[1] not in keys]:
            self._put(now, name, None)

    def _put(self, now: float, name: Name, obj: Any) -> None:
        self._times.append(now)
        self._changes.append((name, obj))
        if obj is None:
            self._now.pop(name, None)
        else:
            self._now[name] = obj
        if len(self._changes) % CHECKPOINT == 0:
            self._kept.append((len(self._changes), dict(self._now)))


def _snapshot(found: dict[Name, Any], at: float) -> Snapshot:
    every = [obj for (kind, _), obj in found.items() if kind == "Pod"]
    pods = [pod for pod in every if not pod.is_finished]
    waiting = [pod for pod in pods if not pod.spec.node_name and not pod.is_terminating]
    return Snapshot(
        nodes=tuple(obj for (kind, _), obj in found.items() if kind == "Node"),
        objects=tuple(
            (kind, obj)
            for (kind, _), obj in found.items()
            if kind in BY_KIND and kind not in ("Node", "Pod")
        ),
        bound=tuple(pod for pod in pods if pod.spec.node_name),
        unbound=tuple(sorted(waiting, key=lambda pod: pod.metadata.creation_timestamp or "~")),
        ended=tuple(pod for pod in every if pod.is_finished),
        taken_at=at,
    )
