"""`EngineHandle`: the engine's side of `framework.handle.Handle`, made before its parts are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from scheduler.base.errors import ConfigError
from scheduler.framework.disruption import Units
from scheduler.framework.handle import TrackerT
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.podindex import PodIndex
from scheduler.state.store import Objects
from scheduler.state.tracker import Tracker, TrackerKey


class EngineHandle:
    """What plugins may ask of the engine beyond nodes and pod."""

    def __init__(
        self,
        cluster: Cluster,
        feature_gates: Mapping[str, bool],
        profiles: frozenset[str] = frozenset(),
    ) -> None:
        self._cluster = cluster
        self.feature_gates = feature_gates
        self.profiles = profiles
        self.trackers: dict[TrackerKey, Tracker] = {}
        self._by_name: dict[str, TrackerKey] = {}
        self.waiting: Callable[[], Sequence[Pod]] = tuple
        self.on_now: Callable[[], float] = float
        self.on_is_preempting: Callable[[str], bool] = _nobody_preempts
        self.on_group_members: Callable[[str, Pod], Sequence[Pod]] = _nobody_else
        self.on_disruption_units: Callable[[int], Units] = _no_groups
        self.on_missing: Callable[[Pod, str, str, str], None] = _nobody_listens
        self.on_node_warning: Callable[[str, str, str, str], None] = _nobody_listens
        self.on_allow: Callable[[str, str], None] = _nobody_waits
        self.on_reject: Callable[[str, str, str], None] = _nobody_waits

    @property
    def pods(self) -> PodIndex:
        """Return all pods that hold room, bound and assumed."""
        return self._cluster.pods

    def objects(self, kind: str) -> Objects:
        """Return the known objects of a kind by `namespace/name` or `name`."""
        return self._cluster.store.of(kind)

    def tracker(self, kind: type[TrackerT], *arguments: Hashable, name: str = "") -> TrackerT:
        """Return the one tracker of a class with these arguments, or of a name."""
        key = TrackerKey(kind, arguments, name)
        if name:
            key = self._by_name.setdefault(name, key)
        tracker = self.trackers.get(key)
        if tracker is None:
            tracker = self.trackers[key] = key.made()
            tracker.rebuild(self._cluster)
        if not isinstance(tracker, kind):
            raise ConfigError(
                f'the tracker named "{name}" is a {key.kind.__module__}.{key.kind.__qualname__}, '
                f"not a {kind.__module__}.{kind.__qualname__}: one of the two needs another name"
            )
        return tracker

    def now(self) -> float:
        """Return the time of this turn."""
        return self.on_now()

    def is_preempting(self, uid: str) -> bool:
        """Return whether evictions for this pod are under way."""
        return self.on_is_preempting(uid)

    def group_members(self, key: str, pod: Pod) -> Sequence[Pod]:
        """Return the members of a group that are to be placed; `pod` is one that has just come."""
        return self.on_group_members(key, pod)

    def disruption_units(self, since: int) -> Units:
        """Return the groups with pods on nodes that changed after the mark `since`, 0 for all."""
        return self.on_disruption_units(since)

    def missing(self, pod: Pod, plugin: str, kind: str, text: str) -> None:
        """Say on a pod that an object it asks for is not there."""
        self.on_missing(pod, plugin, kind, text)

    def node_warning(self, node: str, profile: str, reason: str, text: str) -> None:
        """Say something about a node, as an event on it."""
        self.on_node_warning(node, profile, reason, text)

    def waiting_pods(self) -> Sequence[Pod]:
        """Return the pods that wait at permit."""
        return self.waiting()

    def allow(self, uid: str, plugin: str) -> None:
        """Let a waiting pod pass, as far as `plugin` is concerned."""
        self.on_allow(uid, plugin)

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """Reject a waiting pod in the name of `plugin`."""
        self.on_reject(uid, plugin, reason)


def _nobody_preempts(_uid: str) -> bool:
    return False


def _nobody_else(_key: str, pod: Pod) -> Sequence[Pod]:
    return (pod,)


def _no_groups(_since: int) -> Units:
    return Units()


def _nobody_listens(_about: Pod | str, *_: str) -> None:
    """Nobody is told before the engine is complete."""


def _nobody_waits(*_: str) -> None:
    """No pod waits before the engine is complete."""
