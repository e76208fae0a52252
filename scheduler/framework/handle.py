"""`Handle`: data and requests for plugins beyond nodes and pod.

Each member needs a reason; most plugins use none of them.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from scheduler.base.release import Release
from scheduler.framework.calls import ApiCall
from scheduler.framework.hypothetical.disruption import DisruptionUnits
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.counts.tracker import Tracker
from scheduler.state.podindex import PodIndex
from scheduler.state.store import Objects

TrackerT = TypeVar("TrackerT", bound=Tracker)


class Handle(Protocol):
    """The engine's interface for its plugins."""

    @property
    def pods(self) -> PodIndex:
        """Return all pods that occupy resources: bound and assumed."""

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """Return the feature gates that are switches, each with its value."""

    @property
    def release(self) -> Release:
        """Return the minor release of the API server, for behaviour that differs between
        releases.
        """

    @property
    def profiles(self) -> frozenset[str]:
        """Names of all profiles of this process: pods of other schedulers are foreign."""

    def node(self, name: str) -> Node | None:
        """Return a node as the API server has it, None if it is unknown; for queueing hints."""

    def objects(self, kind: str) -> Objects:
        """Return the known objects of a kind (`Service`) by `namespace/name` or `name`.

        Always the same mapping, read-only; its `version` changes with each change of an object.
        """

    def now(self) -> float:
        """Return the time of this cycle in seconds since the epoch.

        For timestamps in written objects.
        """

    def is_preempting(self, uid: str) -> bool:
        """Return whether evictions for this pod are in progress.

        Read by preemption's pre-enqueue.
        """

    def is_leaving(self, uid: str) -> bool:
        """Return whether a pod's eviction is confirmed although the pod may still be on its
        node.
        """

    def evicted(self) -> frozenset[str]:
        """Return the uids of pods whose eviction was requested and not rejected.

        Some may be deleted.
        """

    def tracker(self, kind: type[TrackerT], *arguments: Hashable, name: str = "") -> TrackerT:
        """Return the only tracker of a class with these arguments; create it on first use.

        Plugins that pass the same `name` share the tracker, across packages; ConfigError if it is
        not of the class given.
        """

    def group_members(self, key: str, pod: Pod) -> Sequence[Pod]:
        """Return the pending members of a group, oldest first.

        For a group's pre-enqueue: `pod` is a member that has just arrived and is included.
        """

    def group_waiting(self, key: str) -> Mapping[str, Pod]:
        """Return a group's pending members for which pre-enqueue has run, by uid."""

    def group_tried(self, key: str) -> Collection[str]:
        """Return those pending members that no pre-enqueue plugin gates."""

    def waiting_member(self, key: str) -> Pod | None:
        """Return the first pending member of a group for which pre-enqueue has run, or None."""

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the groups with pods on nodes that changed after the mark `since`, 0 for all.

        For preemptors: pods of a unit with mode ALL are evicted together. Empty if no profile of
        this process plans groups.
        """

    def missing(self, pod: Pod, plugin: str, kind: str, text: str) -> None:
        """Report on a pod that an object it references is missing.

        `text` names it and where it is expected. Changes no decision: emits an event on the pod and
        increments a metric.
        """

    def node_warning(self, node: str, profile: str, reason: str, text: str) -> None:
        """Emit an event on a node; for a message that every pod would otherwise receive.

        Changes no decision. `reason` is one word in camel case, `profile` is the event's reporter.
        """

    def send(self, call: ApiCall) -> bool:
        """Send a request whose answer is ignored; return False, sending nothing, on a standby.

        For objects of a plugin's own. What became of the request shows in the watched object.
        """

    def fault(self, plugin: str, point: str, error: Exception) -> None:
        """Report and count an error of a plugin that belongs to no pod. Changes no decision."""

    def pending_pods(self) -> Iterable[Pod]:
        """Return the pods of this process's profiles that are not bound, in no order.

        A full pass over all of them: for occasional use, not per pod.
        """

    def waiting_pods(self) -> Sequence[Pod]:
        """Return the pods that wait at permit."""

    def allow(self, uid: str, plugin: str) -> None:
        """Allow a waiting pod on behalf of `plugin`."""

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """Reject a waiting pod on behalf of `plugin`."""
