"""What is known of a group and of the tree now: objects → `GroupSpec` and `Topology`, or what is wrong.

Objects are read once per version. A topology that cannot be read leaves the last good one in place;
`topology_events` says so, and which of its keys choose nothing here (D24: nothing is guessed).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.base import reasons
from scheduler.base.errors import ObjectError
from scheduler.framework.groups import GroupEvent
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.plugins import deviceattributes
from scheduler.plugins.deviceattributes import SLICE
from scheduler.plugins.groups import topology
from scheduler.plugins.groups.group import GroupSpec
from scheduler.plugins.groups.members import GroupMembers
from scheduler.plugins.groups.sources import configmap
from scheduler.plugins.groups.sources import registry as sources
from scheduler.plugins.groups.topology import Topology
from scheduler.state.podindex import Placed

TOPOLOGY_KIND = "TopologyConfigMap"
MOST_TREES = 16


class Descriptions:
    """Reads the objects that groups and the tree are described by."""

    def __init__(
        self, handle: Handle, members: GroupMembers, namespace: str, labels: Sequence[str]
    ) -> None:
        self._handle = handle
        self._members = members
        self._namespace = namespace
        self._labels = tuple(labels)
        self._read: dict[str, tuple[Any, GroupSpec | ObjectError]] = {}
        self._topology_object: Any = None
        self._last_good: Topology | None = None
        self._topology_fault = ""
        self._unsaid: list[tuple[str, str, Any]] = []  # reason, note, ConfigMap
        self._labelled: dict[tuple[str, ...], tuple[tuple[int, int], Topology]] = {}
        self._slices = handle.objects(SLICE)

    def group(self, key: str) -> GroupSpec | None:
        """Return what a group asks for, None without an object; ObjectError says what is wrong."""
        found = self._members.described_by(key)
        if not found:
            self._read.pop(key, None)
            return None
        kind, source = found[0]
        if len(found) > 1 and kind == found[1][0] == configmap.KIND:
            maps = (obj.metadata for kind, obj in found if kind == configmap.KIND)
            names = ", ".join(f"{meta.namespace}/{meta.name}" for meta in maps)
            raise ObjectError(f"the ConfigMaps {names} describe the same group")
        known = self._read.get(key)
        if known is None or known[0] is not source:
            known = self._read[key] = (source, sources.read(kind, source))
        if isinstance(known[1], ObjectError):
            raise known[1]
        return known[1]

    def size_of(self, key: str) -> int:
        """Return the size of a group, 0 when nobody knows it."""
        spec = self._readable(key)
        return 0 if spec is None else spec.size

    def unit_of(self, key: str, members: Sequence[Placed]) -> tuple[bool, int]:
        """Return whether a group's members are evicted only together, and the priority of that unit.

        A group that no object describes is a number of single pods. One whose object cannot be read stays
        together. The priority that anybody may write counts only as far as it is not above that of
        the members.
        """
        lowest = min((one.pod.priority for one in members), default=0)
        if not self._members.described_by(key):
            return False, lowest
        spec = self._readable(key)
        if spec is None:
            return True, lowest
        return spec.goes_whole, spec.effective_priority(lowest)

    def spare_of(self, key: str, members: Sequence[Placed]) -> int:
        """Return how many of these members may go while the group keeps its minimum, 0 if none alone.

        Those whose eviction is under way are not there to stay, though they are still seen.
        """
        spec = self._readable(key)
        if spec is None or not spec.may_shrink or spec.classes:
            return 0  # who of a class can be spared, its numbers do not say
        evicted = self._handle.evicted()
        staying = sum(one.pod.metadata.uid not in evicted for one in members)
        return max(0, staying - spec.size)

    def spec_of(self, key: str) -> GroupSpec | None:
        """Return what a group asks for, None when nobody knows or it cannot be read."""
        return self._readable(key)

    def _readable(self, key: str) -> GroupSpec | None:
        try:
            return self.group(key)
        except ObjectError:
            return None

    def tree_for(self, spec: GroupSpec, nodes: Nodes) -> Topology:
        """Return the tree that a group is placed in; ObjectError when it cannot be read."""
        if spec.key_label:
            key = spec.key_label
            return self._by_labels(nodes, (key,), (key, "node"), f"label {key}")
        return self.topology(nodes)

    def topology(self, nodes: Nodes) -> Topology:
        """Return the tree that holds now; ObjectError when the first one cannot be read."""
        found = self._config_map()
        if found is None:
            self._topology_object = self._last_good = None
            self._topology_fault = ""
            return self._without(nodes)
        if found is not self._topology_object:
            self._topology_object = found
            self._read_topology(found)
        if self._last_good is None:
            raise ObjectError(f"the topology cannot be read: {self._topology_fault}")
        return self._last_good

    def _read_topology(self, found: Any) -> None:
        """Read a version of the topology, and keep what is to be said of it."""
        name = f"ConfigMap {found.metadata.namespace}/{found.metadata.name}"
        self._unsaid = []
        try:
            self._last_good = topology.from_config_map(found.data or {}, name)
        except ObjectError as error:
            self._topology_fault = f"{name}: {error.message}"
            if self._last_good is not None:  # else every group that is held says it
                note = f"{error.message}; groups are placed in the tree as it was before"
                self._unsaid.append((reasons.TOPOLOGY_NOT_USED, note, found))
            return
        self._topology_fault = ""
        if (found.data or {}).get("resource-names"):
            note = topology.RESOURCES_CHOOSE_NOTHING
            self._unsaid.append((reasons.TOPOLOGY_KEY_IGNORED, note, found))

    def topology_events(self, reporter: str) -> list[GroupEvent]:
        """Return what is to be said of the topology and was not yet; `reporter` is the profile."""
        said, self._unsaid = self._unsaid, []
        return [
            GroupEvent(
                "v1", "ConfigMap", *_identity(obj), reporter,
                "Warning" if reason == reasons.TOPOLOGY_NOT_USED else "Normal",
                reason, "Scheduling", note,
            )
            for reason, note, obj in said
        ]  # fmt: skip

    def _config_map(self) -> Any | None:
        """Return the topology ConfigMap; of several the first by name."""
        maps: Mapping[str, Any] = self._handle.objects(TOPOLOGY_KIND)
        ours = [key for key in maps if key.partition("/")[0] == self._namespace]
        return maps[min(ours)] if ours else None

    def _without(self, nodes: Nodes) -> Topology:
        """Return the tree of the labels that are configured, else of racks, else of all nodes."""
        if self._labels:
            levels = (*(label.rpartition("/")[2] for label in self._labels), "node")
            labels = [_preset(nodes, label) or label for label in self._labels]
            return self._by_labels(nodes, labels, levels, "node labels")
        rack = _preset(nodes, topology.DEFAULT_LEVELS[0])
        if not rack:
            return self._by_labels(nodes, (), ("node",), "all nodes")
        return self._by_labels(nodes, (rack,), topology.DEFAULT_LEVELS, "node labels")

    def _by_labels(
        self, nodes: Nodes, labels: Sequence[str], levels: tuple[str, ...], source: str
    ) -> Topology:
        """Return the tree that labels of the nodes make: the same one until a node changes.

        What no node has as a label may be an attribute of the devices.
        """
        marked = -1 if nodes.facts_touched is None else nodes.facts_touched.mark
        mark = (marked, self._slices.version)
        tree = (*labels, *levels)  # two labels may give their levels one name
        known = self._labelled.get(tree)
        if known is not None and known[0] == mark and marked >= 0:
            return known[1]
        columns = [self._values(nodes, label) for label in labels]
        leaves = []
        for _, name in _named(nodes):
            if all(name in column for column in columns):
                leaves.append((tuple(column[name] for column in columns), name))
        made = Topology(topology.DEFAULT_TREE, source, levels, tuple(sorted(leaves)))
        if len(self._labelled) >= MOST_TREES:  # anybody may name a label
            self._labelled.clear()
        self._labelled[tree] = (mark, made)
        return made

    def _values(self, nodes: Nodes, label: str) -> dict[str, str]:
        """Return the value of a label by node, or of an attribute of the nodes' devices."""
        ids, values = nodes.label_ids(label), nodes.label_values(label)
        found = {name: values[ids[row]] for row, name in _named(nodes) if ids[row] >= 0}
        if found or "/" not in label:
            return found
        return deviceattributes.values_by_node(self._slices, label)


def _identity(obj: Any) -> tuple[str, str, str, str]:
    meta = obj.metadata
    return meta.namespace, meta.name, meta.uid, meta.resource_version


def _named(nodes: Nodes) -> Iterator[tuple[int, str]]:
    for row in np.flatnonzero(nodes.exists).tolist():
        yield row, nodes.name(row)


def _preset(nodes: Nodes, level: str) -> str:
    """Return the first label known for a level that all nodes carry, or an empty text."""
    for label in topology.PRESETS.get(level, ()):
        found = nodes.label_ids(label)[nodes.exists]
        if len(found) and int(found.min()) >= 0:
            return label
    return ""
