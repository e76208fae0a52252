"""What is known of a group and of the tree now: objects → `GroupSpec` and `Topology`, or what is wrong.

Objects are read once per version. A topology that cannot be read leaves the last good one in place
and says so (D24: nothing is guessed).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.base.errors import ObjectError
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.plugins.sakkara import group, topology
from scheduler.plugins.sakkara.group import GroupSpec
from scheduler.plugins.sakkara.members import GroupMembers
from scheduler.plugins.sakkara.topology import Topology

TOPOLOGY_KIND = "TopologyConfigMap"


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
        self.topology_fault = ""
        self._labelled: tuple[int, Topology] | None = None

    def group(self, key: str) -> GroupSpec | None:
        """Return what a group asks for, None without an object; ObjectError says what is wrong."""
        maps = self._members.config_maps(key)
        if len(maps) > 1:
            names = ", ".join(f"{m.metadata.namespace}/{m.metadata.name}" for m in maps)
            raise ObjectError(f"the ConfigMaps {names} describe the same group")
        source = maps[0] if maps else self._members.pod_group(key)
        if source is None:
            self._read.pop(key, None)
            return None
        known = self._read.get(key)
        if known is None or known[0] is not source:
            known = self._read[key] = (source, _spec(source, is_map=bool(maps)))
        if isinstance(known[1], ObjectError):
            raise known[1]
        return known[1]

    def size_of(self, key: str) -> int:
        """Return the size of a group, 0 when nobody knows it."""
        spec = self._readable(key)
        return 0 if spec is None else spec.size

    def priority_of(self, key: str) -> int | None:
        """Return the priority that a group's description gives, None without one."""
        spec = self._readable(key)
        return None if spec is None else spec.priority

    def _readable(self, key: str) -> GroupSpec | None:
        try:
            return self.group(key)
        except ObjectError:
            return None

    def topology(self, nodes: Nodes) -> Topology:
        """Return the tree that holds now; ObjectError when the first one cannot be read."""
        found = self._config_map()
        if found is None:
            self._topology_object = self._last_good = None
            self.topology_fault = ""
            return self._by_labels(nodes)
        if found is not self._topology_object:
            self._topology_object = found
            name = f"ConfigMap {found.metadata.namespace}/{found.metadata.name}"
            try:
                self._last_good = topology.from_config_map(found.data or {}, name)
                self.topology_fault = ""
            except ObjectError as error:
                self.topology_fault = f"{name}: {error.message}"
        if self._last_good is None:
            raise ObjectError(f"the topology cannot be read: {self.topology_fault}")
        return self._last_good

    def _config_map(self) -> Any | None:
        """Return the topology ConfigMap; of several the first by name."""
        maps: Mapping[str, Any] = self._handle.objects(TOPOLOGY_KIND)
        ours = [key for key in maps if key.partition("/")[0] == self._namespace]
        return maps[min(ours)] if ours else None

    def _by_labels(self, nodes: Nodes) -> Topology:
        """Return the tree of the nodes' labels, the same one until a node changes."""
        mark = -1 if nodes.facts_touched is None else nodes.facts_touched.mark
        if self._labelled is None or self._labelled[0] != mark or mark < 0:
            self._labelled = (mark, self._without(nodes))
        return self._labelled[1]

    def _without(self, nodes: Nodes) -> Topology:
        labels = self._labels
        levels = (*(label.rpartition("/")[2] for label in labels), "node")
        if not labels:
            rack = nodes.label_ids(topology.RACK_LABEL)[nodes.exists]
            if not len(rack) or int(rack.min()) < 0:
                return topology.flat(name for _, name in _named(nodes))
            labels, levels = (topology.RACK_LABEL,), topology.DEFAULT_LEVELS
        columns = [(nodes.label_ids(label), nodes.label_values(label)) for label in labels]
        leaves = []
        for row, name in _named(nodes):
            ids = [int(column[row]) for column, _ in columns]
            if min(ids) >= 0:
                path = tuple(values[i] for i, (_, values) in zip(ids, columns, strict=True))
                leaves.append((path, name))
        return Topology(topology.DEFAULT_TREE, "node labels", levels, tuple(sorted(leaves)))


def _named(nodes: Nodes) -> Iterator[tuple[int, str]]:
    for row in np.flatnonzero(nodes.exists).tolist():
        yield row, nodes.name(row)


def _spec(source: Any, *, is_map: bool) -> GroupSpec | ObjectError:
    meta = source.metadata
    try:
        if is_map:
            name = f"ConfigMap {meta.namespace}/{meta.name}"
            return group.from_config_map(meta.namespace, source.data or {}, name)
        return group.from_pod_group(
            meta.namespace, meta.name, source.spec.min_member, meta.annotations
        )
    except ObjectError as error:
        kind = "ConfigMap" if is_map else "PodGroup"
        return ObjectError(f"{kind} {meta.namespace}/{meta.name}: {error.message}")
