"""`EngineView`: the engine's state for debug pages, gauges, simulations and explanations.

Read-only: every result is a frozen record, an object of the API server, or a view of columns that
is valid until the next event. Readers outside the engine and its groups use it instead of the
engine's parts, so that these can change.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from scheduler.base.release import DEFAULT, Release
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.groups import GroupsState
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import Queues
from scheduler.engine.settings import EngineSettings
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import Profile
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.podindex import Placed, PodIndex


class QueuedView(msgspec.Struct, frozen=True):
    """A pod that is to be placed: its queue and its history."""

    pod: Pod
    profile: str
    where: Where
    attempts: int
    queued_at: float
    rejected_by: tuple[str, ...]
    gated_by: str


class BindingsView(msgspec.Struct, frozen=True):
    """Counts of pods between decision and binding; `busy` wait for neither permit nor volumes."""

    in_flight: int
    at_permit: int
    busy: int


class NodeView(msgspec.Struct, frozen=True):
    """A node with its amounts by resource and its pods; `nominated` are pods that wait for it."""

    name: str
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    pods: tuple[str, ...]
    nominated: tuple[str, ...]


class EngineView:
    """The read model of one engine."""

    def __init__(
        self,
        settings: EngineSettings,
        cluster: Cluster,
        queues: Queues,
        bindings: Bindings,
        nominations: Nominations,
        profiles: Mapping[str, Profile],
        describe_groups: Callable[[], GroupsState],
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._queues = queues
        self._bindings = bindings
        self._nominations = nominations
        self._profiles = profiles
        self._describe_groups = describe_groups

    @property
    def release(self) -> Release:
        """Return the release of the API server whose rules apply."""
        return self._settings.release or DEFAULT

    @property
    def known_release(self) -> Release | None:
        """Return the release that the settings name, None if they name none."""
        return self._settings.release

    # Nodes

    @property
    def node_count(self) -> int:
        """Return the number of nodes."""
        return len(self._cluster.table)

    @property
    def generation(self) -> int:
        """Return a number that changes when nodes are added or removed."""
        return self._cluster.table.generation

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes, by row."""
        return tuple(node for node in self._cluster.table.nodes if node is not None)

    def node(self, name: str) -> Node | None:
        """Return a node, or None."""
        row = self._cluster.table.rows.get(name)
        return None if row is None else self._cluster.table.nodes[row]

    def row(self, name: str) -> int:
        """Return the row of a node; KeyError without such a node."""
        return self._cluster.table.rows[name]

    def row_names(self) -> tuple[str, ...]:
        """Return the node name of every row, empty for a free row."""
        nodes = self._cluster.table.nodes
        return tuple("" if node is None else node.metadata.name for node in nodes)

    def columns(self, feasible: Any = None) -> Nodes:
        """Return the columns of all nodes, as plugins read them."""
        return Nodes(self._cluster.table, self._cluster.pods, feasible)

    def node_views(self, most: int) -> Iterator[NodeView]:
        """Yield up to `most` nodes with their amounts and pods."""
        table, placed = self._cluster.table, self._cluster.pods
        for name, row in islice(table.rows.items(), most):
            yield NodeView(
                name,
                _amounts(table.allocatable, table.resources, row),
                _amounts(table.requested, table.resources, row),
                tuple(one.pod.key for one in placed.on(name).values()),
                tuple(pod.key for pod in self._nominations.on(name).values()),
            )

    # Pods

    @property
    def placed(self) -> PodIndex:
        """Return the pods on nodes by uid, assumed ones included."""
        return self._cluster.pods

    def pod(self, uid: str) -> Placed | None:
        """Return a pod on a node, or None."""
        return self._cluster.pods.get(uid)

    def queue(self) -> Iterator[QueuedView]:
        """Yield the pods that are to be placed."""
        return map(_queued, self._queues)

    def queued(self, uid: str) -> QueuedView | None:
        """Return a pending pod, or None."""
        found = self._queues.get(uid)
        return None if found is None else _queued(found)

    def count(self, where: Where) -> int:
        """Return the number of pods in one queue."""
        return self._queues.count(where)

    def bindings(self) -> BindingsView:
        """Return the counts of pods between decision and binding."""
        found = self._bindings
        return BindingsView(len(found), len(found.waiting), found.busy)

    def permit(self, uid: str) -> tuple[str, ...]:
        """Return the plugins that a pod at permit waits for, nothing for other pods."""
        waiting = self._bindings.waiting.get(uid)
        return () if waiting is None else tuple(waiting.until)

    def groups(self) -> GroupsState:
        """Return the state of group scheduling and of each group that is not pending."""
        return self._describe_groups()

    # Objects and plugins

    def objects(self, kind: str) -> Mapping[str, Any]:
        """Return the objects of a kind by namespace and name."""
        return self._cluster.store.of(kind)

    def kinds(self) -> Sequence[str]:
        """Return the kinds that have objects."""
        return tuple(self._cluster.store.sizes())

    def plugins(self) -> list[Plugin[Any]]:
        """Return the plugins of all profiles."""
        return [one for profile in self._profiles.values() for one in profile.plugins.values()]


def _queued(one: QueuedPod) -> QueuedView:
    return QueuedView(
        one.pod,
        one.profile,
        one.where,
        one.attempts,
        one.queued_at,
        one.rejected_by,
        one.gated_by,
    )


def _amounts(read: Callable[[str], Any], resources: Iterable[str], row: int) -> dict[str, int]:
    found = {name: int(read(name)[row]) for name in resources}
    return {name: amount for name, amount in found.items() if amount}
