"""The trees that groups are placed in: reads objects into a `Topology`, or reports their errors.

A group may name a tree: that of a topology ConfigMap, a `Topology` of Kueue, or `hypernodes`.
Otherwise the argument `topology` names it. Without that it is the tree of the first topology
ConfigMap, or else of node labels. An object is read once per version. While a ConfigMap cannot be
read, its last valid tree is used. `events` reports this, and the keys of a ConfigMap that have no
effect here.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from scheduler.base import reasons
from scheduler.base.errors import ObjectError
from scheduler.base.text import natural
from scheduler.framework.groups import GroupEvent
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.groups.description import nesting
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.topology import hypernodes
from scheduler.groups.topology import tree as topology
from scheduler.groups.topology.tree import Topology
from scheduler.objects.groups.kueue import HOSTNAME
from scheduler.objects.kinds import HYPER_NODE, KUEUE_TOPOLOGIES
from scheduler.plugins import deviceattributes
from scheduler.plugins.deviceattributes import SLICE

CONFIG_MAP = "TopologyConfigMap"
KUEUE_KINDS = tuple(kind.kind for kind in KUEUE_TOPOLOGIES)
KINDS = (CONFIG_MAP, *KUEUE_KINDS, HYPER_NODE.kind)
MOST_KEPT = 16
MOST_NAMED = 8  # how many trees a message names


class _Read:
    """The state of one topology ConfigMap: the version read last, its tree or the last valid
    one.
    """

    def __init__(self) -> None:
        self.version: Any = None
        self.tree: Topology | None = None
        self.fault = ""


class Trees:
    """Reads the objects and labels that trees are made of."""

    def __init__(
        self, handle: Handle, namespace: str, labels: Sequence[str], name: str = ""
    ) -> None:
        self._handle = handle
        self._namespace = namespace
        self._labels = tuple(labels)
        self._name = name
        self._read: dict[str, _Read] = {}
        self._unreported: list[tuple[str, str, Any]] = []  # reason, note, ConfigMap
        self._labelled: dict[tuple[str, ...], tuple[tuple[int, int], Topology]] = {}
        self._slices = handle.objects(SLICE)
        self._hyper_nodes = handle.objects(HYPER_NODE.kind)
        self._hyper_tree = hypernodes.HyperNodes()

    def of(self, spec: GroupSpec, nodes: Nodes) -> Topology:
        """Return the tree that a group is placed in; ObjectError if it is invalid or missing."""
        if spec.by_network:
            return self._by_labels(nodes, (), (topology.NODE,), "all nodes")
        if spec.key_label:
            key = spec.key_label
            return self._by_labels(nodes, (key,), (key, "node"), f"label {key}")
        keys = () if spec.tree is None else nesting.keys_of(spec.tree)
        if spec.tree is not None and keys:
            columns = {key: self._values(nodes, key) for key in keys}
            return nesting.tree(spec.tree, columns, [name for _, name in _named(nodes)])
        if spec.labels is not None:
            return self._with_levels(spec.labels.labels, nodes)
        name = spec.topology or self._name
        if name == hypernodes.NAME and (self._hyper_nodes or spec.tiers or spec.has_outside_nodes):
            return self._of_hyper_nodes(nodes, with_outside_nodes=spec.has_outside_nodes)
        if name:
            return self._named(name, nodes)
        maps = self._config_maps()
        return self._of_config_map(min(maps), maps) if maps else self._without(nodes)

    def events(self, reporter: str) -> list[GroupEvent]:
        """Return the events about the topology that were not emitted yet; `reporter` is the
        profile.
        """
        unreported, self._unreported = self._unreported, []
        return [
            GroupEvent(
                "v1", "ConfigMap", *_identity(obj), reporter,
                "Warning" if reason == reasons.TOPOLOGY_NOT_USED else "Normal",
                reason, "Scheduling", note,
            )
            for reason, note, obj in unreported
        ]  # fmt: skip

    # Trees by name

    def _named(self, name: str, nodes: Nodes) -> Topology:
        maps = self._config_maps()
        found = [key for key, obj in maps.items() if topology.name_in(obj.data or {}) == name]
        if found:
            return self._of_config_map(min(found), maps)
        for kind in KUEUE_KINDS:
            described = self._handle.objects(kind).get(name)
            if described is not None:
                return self._of_kueue(name, described, nodes)
        there = {topology.name_in(obj.data or {}) for obj in maps.values()}
        there.update(key for kind in KUEUE_KINDS for key in self._handle.objects(kind))
        there.update((hypernodes.NAME,) if self._hyper_nodes else ())
        named = ", ".join(sorted(there, key=natural)[:MOST_NAMED]) or "none"
        more = f" and {len(there) - MOST_NAMED} others" if len(there) > MOST_NAMED else ""
        raise ObjectError(
            f"no topology is called {name} (there are: {named}{more}): neither a "
            "ConfigMap with the label "
            f"sakkara.topology in the namespace {self._namespace} nor a Topology of Kueue"
        )

    def _of_hyper_nodes(self, nodes: Nodes, *, with_outside_nodes: bool) -> Topology:
        """Return the tree of the HyperNodes: cached until one of them, or a node, changes."""
        marked = -1 if nodes.facts_touched is None else nodes.facts_touched.mark
        mark = (marked, self._hyper_nodes.version)
        key = (hypernodes.NAME, str(with_outside_nodes))
        known = self._labelled.get(key)
        if known is not None and known[0] == mark and marked >= 0:
            return known[1]
        labels = {name: self._labels_of(name) for _, name in _named(nodes)}
        made = self._hyper_tree.tree(self._hyper_nodes, labels)
        if with_outside_nodes:
            made = hypernodes.add_outside_nodes(made, labels)
        self._keep(key, mark, made)
        return made

    def _labels_of(self, name: str) -> Mapping[str, str]:
        node = self._handle.node(name)
        return {} if node is None else node.metadata.labels

    def _of_kueue(self, name: str, described: Any, nodes: Nodes) -> Topology:
        labels = described.labels
        levels = topology.levels_of(labels)
        return self._by_labels(nodes, labels, levels, f"Topology {name} of Kueue")

    def _with_levels(self, labels: Sequence[str], nodes: Nodes) -> Topology:
        """Return the tree of the Topology of Kueue that has these levels; ObjectError if none or
        several do.
        """
        found: dict[str, Any] = {}
        for kind in KUEUE_KINDS:
            for name, one in self._handle.objects(kind).items():
                if all(label == HOSTNAME or label in one.labels for label in labels):
                    found.setdefault(name, one)
        wanted = " and ".join(labels)
        if not found:
            raise ObjectError(f"no Topology of Kueue has the level {wanted}")
        name = self._name if self._name in found else min(found)
        others = sorted(one for one in found if found[one].labels != found[name].labels)
        if others and name != self._name:
            text = (
                f"several Topologies of Kueue have the level {wanted}: {name} and "
                f"{others[0]}; the argument topology "
                "of ClusterTopologyPlacementGroup says which counts"
            )
            raise ObjectError(text)
        return self._of_kueue(name, found[name], nodes)

    def _config_maps(self) -> dict[str, Any]:
        """Return the topology ConfigMaps that count, by key."""
        maps: Mapping[str, Any] = self._handle.objects(CONFIG_MAP)
        return {key: obj for key, obj in maps.items() if key.partition("/")[0] == self._namespace}

    def _of_config_map(self, key: str, maps: Mapping[str, Any]) -> Topology:
        """Return the tree of a ConfigMap; ObjectError when its first version cannot be read."""
        for gone in self._read.keys() - maps.keys():
            del self._read[gone]
        known = self._read.setdefault(key, _Read())
        if known.version is not maps[key]:
            known.version = maps[key]
            self._read_config_map(known)
        if known.tree is None:
            raise ObjectError(f"the topology cannot be read: {known.fault}")
        return known.tree

    def _read_config_map(self, known: _Read) -> None:
        """Read a version of a topology, and queue its events."""
        found = known.version
        name = f"ConfigMap {found.metadata.namespace}/{found.metadata.name}"
        self._unreported = [
            one for one in self._unreported if one[2].metadata.uid != found.metadata.uid
        ]
        try:
            known.tree = topology.from_config_map(found.data or {}, name)
        except ObjectError as error:
            known.fault = f"{name}: {error.message}"
            if known.tree is not None:  # else the message of every blocked group has it
                note = f"{error.message}; groups are placed in the tree as it was before"
                self._unreported.append((reasons.TOPOLOGY_NOT_USED, note, found))
            return
        known.fault = ""
        if (found.data or {}).get("resource-names"):
            note = topology.RESOURCES_CHOOSE_NOTHING
            self._unreported.append((reasons.TOPOLOGY_KEY_IGNORED, note, found))

    # Trees of labels

    def _without(self, nodes: Nodes) -> Topology:
        """Return the tree of the labels that are configured, else of racks, else of all nodes."""
        if self._labels:
            labels = [_preset(nodes, label) or label for label in self._labels]
            return self._by_labels(nodes, labels, topology.levels_of(self._labels), "node labels")
        rack = _preset(nodes, topology.DEFAULT_LEVELS[0])
        if not rack:
            return self._by_labels(nodes, (), ("node",), "all nodes")
        return self._by_labels(nodes, (rack,), topology.DEFAULT_LEVELS, "node labels")

    def _by_labels(
        self, nodes: Nodes, labels: Sequence[str], levels: tuple[str, ...], source: str
    ) -> Topology:
        """Return the tree by these labels of the nodes; it is cached until a node or a device
        changes.

        A label that no node has is read as an attribute of devices.
        """
        marked = -1 if nodes.facts_touched is None else nodes.facts_touched.mark
        mark = (marked, self._slices.version)
        tree = (source, *labels, *levels)  # two labels may yield one level name
        known = self._labelled.get(tree)
        if known is not None and known[0] == mark and marked >= 0:
            return known[1]
        columns = [self._values(nodes, label) for label in labels]
        leaves = []
        for _, name in _named(nodes):
            if all(name in column for column in columns):
                leaves.append((tuple(column[name] for column in columns), name))
        called = dict(zip((*labels, HOSTNAME), levels, strict=True))
        made = Topology(topology.DEFAULT_TREE, source, levels, tuple(sorted(leaves)), called)
        self._keep(tree, mark, made)
        return made

    def _keep(self, tree: tuple[str, ...], mark: tuple[int, int], made: Topology) -> None:
        if len(self._labelled) >= MOST_KEPT:  # any user may name a label
            self._labelled.clear()
        self._labelled[tree] = (mark, made)

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
