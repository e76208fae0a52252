"""`Handle`: the few things a plugin may ask of the scheduler beyond nodes and pod.

Each member needs a reason; most plugins use none of them.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Protocol, TypeVar

from scheduler.base.release import Release
from scheduler.framework.disruption import DisruptionUnits
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.podindex import PodIndex
from scheduler.state.store import Objects
from scheduler.state.tracker import Tracker

TrackerT = TypeVar("TrackerT", bound=Tracker)


class Handle(Protocol):
    """What the engine offers to its plugins."""

    @property
    def pods(self) -> PodIndex:
        """All pods that hold room, bound and assumed."""

    @property
    def feature_gates(self) -> Mapping[str, bool]:
        """The feature gates that are switches, each with its value."""

    @property
    def release(self) -> Release:
        """The minor release of the API server, for behaviour that differs between releases."""

    @property
    def profiles(self) -> frozenset[str]:
        """Names of all profiles of this process: pods of other schedulers are foreign."""

    def node(self, name: str) -> Node | None:
        """Return a node as the API server shows it, None if it is not known; for hints."""

    def objects(self, kind: str) -> Objects:
        """Return the known objects of a kind (`Service`) by `namespace/name` or `name`.

        Always the same mapping, not to be written to; its `version` moves when one of them changes.
        """

    def now(self) -> float:
        """Return the time of this turn, in seconds since the epoch; for what is dated when written."""

    def is_preempting(self, uid: str) -> bool:
        """Return whether evictions for this pod are under way; preemption's pre-enqueue asks."""

    def is_leaving(self, uid: str) -> bool:
        """Return whether the eviction of a pod is confirmed that may still be seen on its node."""

    def evicted(self) -> frozenset[str]:
        """Return the uids of pods whose eviction was asked for and not refused; some may be gone."""

    def tracker(self, kind: type[TrackerT], *arguments: Hashable, name: str = "") -> TrackerT:
        """Return the one tracker of a class with these arguments, making it on first use.

        Whoever gives a `name` shares the tracker with everybody who gives the same, in other packages
        too; ConfigError if that one is not of the class asked for.
        """

    def group_members(self, key: str, pod: Pod) -> Sequence[Pod]:
        """Return the members of a group that are to be placed, oldest first.

        For a group's pre-enqueue: `pod` is a member that has just come and is among them.
        """

    def group_waiting(self, key: str) -> Collection[str]:
        """Return the uids of a group's members that are to be placed, as far as its gate was asked about them."""

    def group_tried(self, key: str) -> Collection[str]:
        """Return those of them that no gate holds."""

    def waiting_member(self, key: str) -> Pod | None:
        """Return the first member of a group that is to be placed, as far as a gate has been asked, or None."""

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the groups with pods on nodes that changed after the mark `since`, 0 for all.

        For whoever evicts: pods of a unit with mode ALL go together. Empty where no profile of this
        process decides groups.
        """

    def missing(self, pod: Pod, plugin: str, kind: str, text: str) -> None:
        """Say on a pod that an object it asks for is not there; `text` names it and where it was sought.

        Changes no decision: an event tells the pod's owner, a metric counts it.
        """

    def node_warning(self, node: str, profile: str, reason: str, text: str) -> None:
        """Say something about a node, as an event on it; for what every pod would otherwise be told.

        Changes no decision. `reason` is one word in camel case, `profile` the one that speaks.
        """

    def waiting_pods(self) -> Sequence[Pod]:
        """Return the pods that wait at permit."""

    def allow(self, uid: str, plugin: str) -> None:
        """Let a waiting pod pass, as far as `plugin` is concerned."""

    def reject(self, uid: str, plugin: str, reason: str) -> None:
        """Reject a waiting pod in the name of `plugin`."""
