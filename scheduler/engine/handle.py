"""`EngineHandle`: the engine's implementation of `framework.handle.Handle`.

It reads the few tables that exist before the plugins do (`Shared`). A plugin's request becomes an
effect, or an entry in the engine's queue of changes.
"""

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.base.errors import ConfigError
from scheduler.base.release import DEFAULT, Release
from scheduler.engine.attempt import failure
from scheduler.engine.binding.permit import PermitDecision, WaitingPods
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.membership import GroupMembership
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupPlanner
from scheduler.framework.handle import TrackerT
from scheduler.framework.hypothetical.disruption import DisruptionUnits
from scheduler.framework.profile import Profile, ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.counts.tracker import Tracker, TrackerKey
from scheduler.state.podindex import PodIndex
from scheduler.state.store import Objects


class Shared(msgspec.Struct):
    """The engine's tables that plugins' requests read.

    `preempting` has the uids with evictions in progress, `leaving` those whose eviction is
    confirmed.
    """

    outbox: Outbox = msgspec.field(default_factory=Outbox)
    changes: deque[Any] = msgspec.field(default_factory=deque)
    waiting: WaitingPods = msgspec.field(default_factory=WaitingPods)
    preempting: Mapping[str, Any] = msgspec.field(default_factory=dict)
    leaving: set[str] = msgspec.field(default_factory=set)
    members: GroupMembership | None = None
    observation: Observation | None = None
    is_leading: Callable[[], bool] = lambda: False


class EngineHandle:
    """The engine's functions that plugins may call, beyond nodes and pod."""

    def __init__(
        self,
        cluster: Cluster,
        feature_gates: Mapping[str, bool],
        profiles: frozenset[str] = frozenset(),
        shared: Shared | None = None,
        release: Release = DEFAULT,
    ) -> None:
        self._cluster = cluster
        self.feature_gates = feature_gates
        self.profiles = profiles
        self.release = release
        self._shared = shared or Shared()
        self.trackers: dict[TrackerKey, Tracker] = {}
        self._by_name: dict[str, TrackerKey] = {}
        self.planners: dict[str, GroupPlanner] = {}

    def group_of(self, pod: Pod) -> str:
        """Return the key of a pod's group, '' without a group; a pod whose group is unknown has
        none.
        """
        planner = self.planners.get(pod.spec.scheduler_name)
        try:
            return "" if planner is None else planner.group_of(pod)
        except Exception as error:  # noqa: BLE001 - whatever a plugin does must not end the engine
            if planner is not None and self._shared.observation is not None:
                self._shared.observation.fault(planner.name, "GroupOf", error)
            return ""

    def names_group(self, pod: Pod) -> bool:
        """Return whether a pod names a group, known or not."""
        return any(planner.names_group(pod) for planner in self.planners.values())

    def lacks_capacity(self, pod: Pod) -> bool | None:
        """Return whether the pod's rejected group still lacks capacity by amounts; None if amounts
        cannot decide.
        """
        key = self.group_of(pod)
        return self.planners[pod.spec.scheduler_name].group_lacks(key) if key else None

    def is_member(self, pod: Pod) -> bool:
        """Return whether a pod is decided with its group; a change that `regrouped_by` matches may
        alter it.
        """
        return bool(self.group_of(pod))

    def regrouped_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return a predicate for pods that a change may have added to a group or removed from one;
        None for no pod.
        """
        found = (planner.regrouped_by(change) for planner in self.planners.values())
        return next((one for one in found if one is not None), None)

    def group_priority(self, key: str, pods: Sequence[Pod]) -> int:
        """Return the priority that counts for waiting members of a group."""
        return self.planners[pods[0].spec.scheduler_name].group_priority(key, pods)

    def group_may_evict(self, key: str, pods: Sequence[Pod]) -> bool:
        """Return whether pods may be evicted for waiting members of a group."""
        return self.planners[pods[0].spec.scheduler_name].group_may_evict(key, pods)

    def build(self, specs: Sequence[ProfileSpec], registry: Registry) -> dict[str, Profile]:
        """Return the profiles by name, their plugins made with this handle."""
        built = {spec.scheduler_name: build_profile(spec, registry, self) for spec in specs}
        for name, profile in built.items():
            for plugin in profile.plugins.values():
                if plugin.serves("plan_group"):
                    planner: Any = plugin
                    self.planners.setdefault(name, planner)
        meters = None if self._shared.observation is None else self._shared.observation.meters
        for tracker in self.trackers.values():
            # Looked up by name: a protocol's isinstance costs a twentieth of a small simulation.
            measure = getattr(tracker, "measure", None)
            if measure is not None and meters is not None:
                measure(meters)
        return built

    @property
    def pods(self) -> PodIndex:
        """Return all pods on nodes, bound and assumed."""
        return self._cluster.pods

    def node(self, name: str) -> Node | None:
        """Return a node as the API server shows it, None if it is unknown."""
        row = self._cluster.table.rows.get(name)
        return None if row is None else self._cluster.table.nodes[row]

    def objects(self, kind: str) -> Objects:
        """Return the known objects of a kind by `namespace/name` or `name`."""
        return self._cluster.store.of(kind)

    def tracker(self, kind: type[TrackerT], *arguments: Hashable, name: str = "") -> TrackerT:
        """Return the single tracker of a class with these arguments, or of a name."""
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
        return self._shared.outbox.now

    def is_preempting(self, uid: str) -> bool:
        """Return whether evictions for this pod are in progress."""
        return uid in self._shared.preempting

    def is_leaving(self, uid: str) -> bool:
        """Return whether the eviction of a pod is confirmed that may still be seen on its node."""
        return uid in self._shared.leaving

    def evicted(self) -> frozenset[str]:
        """Return the uids of pods whose eviction was sent and not refused; some may be deleted
        already.
        """
        unanswered = (one.effects.values() for one in self._shared.preempting.values())
        return frozenset(self._shared.leaving).union(*unanswered)

    def group_members(self, key: str, pod: Pod) -> Sequence[Pod]:
        """Return the members of a group that are to be placed, including `pod`, which has just
        arrived.
        """
        members = self._shared.members
        return (pod,) if members is None else members.present(key, pod)

    def group_waiting(self, key: str) -> Mapping[str, Pod]:
        """Return a group's pending members for which pre-enqueue has run, by uid."""
        members = self._shared.members
        return {} if members is None else members.uids(key)

    def group_tried(self, key: str) -> Collection[str]:
        """Return those pending members that no gate blocks."""
        members = self._shared.members
        return () if members is None else members.tried(key)

    def waiting_member(self, key: str) -> Pod | None:
        """Return the first unplaced member of a group that has passed PreEnqueue once, or None."""
        members = self._shared.members
        return None if members is None else members.first(key)

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the groups with pods on nodes that changed after the mark `since`, 0 for all."""
        for planner in self.planners.values():  # any profile's plugin speaks for all pods
            return planner.disruption_units(since)
        return DisruptionUnits()

    def missing(self, pod: Pod, plugin: str, kind: str, text: str) -> None:
        """Write an event on a pod: an object that it refers to does not exist."""
        if self._shared.observation is not None:
            self._shared.observation.missing(plugin, kind)
        self._shared.outbox.put(failure.missing_event(pod, text, self.now()))

    def node_warning(self, node: str, profile: str, reason: str, text: str) -> None:
        """Write a warning event on a node."""
        known = self.node(node)
        if known is not None:
            event = failure.node_event(known, profile, reason, text, self.now())
            self._shared.outbox.put(event)

    def send(self, call: ApiCall) -> bool:
        """Send a request whose answer is ignored; on a standby, send nothing and return False."""
        if self._shared.is_leading():
            self._shared.outbox.request(call)
            return True
        return False

    def fault(self, plugin: str, point: str, error: Exception) -> None:
        """Report and count a plugin's error that concerns no single pod."""
        if self._shared.observation is not None:
            self._shared.observation.fault(plugin, point, error)

    def pending_pods(self) -> Iterable[Pod]:
        """Return the pods that are not bound, in no order."""
        members = self._shared.members
        return () if members is None else members.pending()

    def waiting_pods(self) -> Sequence[Pod]:
        """Return the pods that wait at permit."""
        return [waiting.queued.pod for waiting in self._shared.waiting.values()]

    def allow(self, uid: str, plugin: str) -> None:
        """Record that `plugin` permits a waiting pod."""
        self._shared.changes.append(PermitDecision(uid, plugin))

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """Reject a waiting pod in the name of `plugin`."""
        self._shared.changes.append(PermitDecision(uid, plugin, reason))
