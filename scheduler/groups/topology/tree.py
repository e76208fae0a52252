"""The tree of racks and nodes that groups are placed in, and its format in a ConfigMap.

Units are identified by their path, so two racks may share a name. Pure; `trees` selects the tree of
a group.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.base.errors import ObjectError
from scheduler.base.text import natural
from scheduler.framework.nodes import Nodes
from scheduler.groups.sources.inputs import LONGEST_TEXT, MOST_LEVELS, json_names, json_object

ROOT = "root"
DEFAULT_TREE = "default-tree"
NODE = "node"
DEFAULT_LEVELS = ("rack", NODE)
RACK_LABEL = "sakkara.topology.rack"
# Node labels for a level that is named in one word; the first that all nodes carry counts: ours,
# those of Kubernetes, of Kueue's examples, of topograph, and of cloud providers.
PRESETS: Mapping[str, tuple[str, ...]] = {
    "region": ("topology.kubernetes.io/region",),
    "zone": ("topology.kubernetes.io/zone",),
    "block": (
        "topology.trellis.dev/block",
        "cloud.provider.com/topology-block",
        "network.topology.nvidia.com/spine",
        "cloud.google.com/gce-topology-block",
        "topology.k8s.aws/network-node-layer-2",
    ),
    "rack": (
        RACK_LABEL,
        "topology.trellis.dev/rack",
        "cloud.provider.com/topology-rack",
        "network.topology.nvidia.com/leaf",
        "cloud.google.com/gce-topology-subblock",
        "topology.k8s.aws/network-node-layer-3",
    ),
}
DEEPEST = MOST_LEVELS
MOST_UNITS = 200_000
RESOURCES_CHOOSE_NOTHING = (
    "data.resource-names chooses nothing: every resource that members request counts, "
    "named there or "
    "not; the key can go"
)
NAMED = 3  # how many nodes a message names


class Topology(msgspec.Struct, frozen=True, dict=True):
    """A tree: `levels` from the top to the leaves, `leaves` as (path of inner units, node name).

    Every path has one entry per inner level; a node above the deepest level gets units of its own
    name on the missing levels, so that every path has the same length. `aliases` are other words
    for levels.
    """

    name: str
    source: str
    levels: tuple[str, ...]
    leaves: tuple[tuple[tuple[str, ...], str], ...]
    aliases: Mapping[str, str] = {}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The node name of each leaf."""
        return tuple(name for _, name in self.leaves)

    @cached_property
    def order(self) -> IntColumn:
        """The numbers of the leaves in order of their paths."""
        return np.array(sorted(range(len(self.leaves)), key=self.leaves.__getitem__), dtype=np.intp)

    def rows(self, nodes: Nodes) -> IntColumn:
        """Return the row of each leaf's node, -1 where the cluster has no such node.

        Cached until a node changes: a plan asks several times.
        """
        touched = nodes.facts_touched
        if touched is None:
            return nodes.row_numbers(self.names)
        known = self._rows
        if not known or known[0] is not touched or known[1] != touched.mark:
            known[:] = touched, touched.mark, nodes.row_numbers(self.names)
        rows: IntColumn = known[2]
        return rows

    def units_at(self, depth: int) -> tuple[list[tuple[str, ...]], IntColumn]:
        """Return the units `depth` levels below the root, and the number of each leaf's unit.

        Units are in order of their first leaf. At depth 0 one unit has all leaves.
        """
        if depth not in self._units:
            order: dict[tuple[str, ...], int] = {}
            units = ((*path, name)[:depth] for path, name in self.leaves)
            numbers = np.array(
                [order.setdefault(unit, len(order)) for unit in units], dtype=np.intp
            )
            self._units[depth] = list(order), numbers
        return self._units[depth]

    @cached_property
    def _rows(self) -> list[Any]:
        """The log of changed nodes, its mark, and the rows at that mark; empty at first."""
        return []

    @cached_property
    def _units(self) -> dict[int, tuple[list[tuple[str, ...]], IntColumn]]:
        return {}

    @cached_property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """The path of inner units above each node, by its name."""
        return {name: path for path, name in self.leaves}


def from_config_map(data: Mapping[str, str], source: str) -> Topology:
    """Read a topology ConfigMap; ObjectError names the key that is wrong.

    `resource-names` is checked but has no effect: all requests of members count, listed or not,
    because the nodes would reject a group that was placed by some of them only.
    """
    tree = json_object(data, "tree", LONGEST_TEXT)
    levels = json_names(data, "level-names") if data.get("level-names") else DEFAULT_LEVELS
    if data.get("resource-names"):
        json_names(data, "resource-names")
    found: list[tuple[tuple[str, ...], str]] = []
    _walk(tree, (), found)
    if not found:
        raise ObjectError("data.tree holds no node")
    depth = max(len(path) for path, _ in found) + 1
    if depth > len(levels):
        raise ObjectError(f"data.tree is {depth} levels deep, data.level-names names {len(levels)}")
    if depth < len(levels):
        text = f"data.level-names names {len(levels)} levels, data.tree has {depth}"
        raise ObjectError(text)
    return Topology(
        name_in(data),
        source,
        levels,
        _filled(found, depth - 1),
    )


def name_in(data: Mapping[str, str]) -> str:
    """Return the tree's name in a topology ConfigMap."""
    return data.get("name", "").strip() or DEFAULT_TREE


def levels_of(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the level names of a tree of labels: the part after the slash, then `node`."""
    return (*(label.rpartition("/")[2] for label in labels), NODE)


def nowhere(tree: Topology, nodes: Nodes, fitting: BoolColumn) -> str:
    """Return why no node is in a unit of the tree, or '' if nodes are and only lack capacity.

    `fitting` are the rows on which a member would fit, in the tree or not.
    """
    rows = tree.rows(nodes)
    rows = rows[rows >= 0]
    if not tree.leaves and tree.aliases:
        lacking = [
            one for one in tree.aliases if not (nodes.label_ids(one)[nodes.exists] >= 0).any()
        ]
        labels = " and ".join(lacking[:1] or list(tree.aliases))
        return f"no node has the label {labels}"
    if not len(rows):
        named = ", ".join(sorted(tree.names, key=natural)[:NAMED])
        more = f" and {len(tree.leaves) - NAMED} others" if len(tree.leaves) > NAMED else ""
        return (
            f"the topology ({tree.source}) names no node of this cluster: {named}{more} "
            "are not there; add the nodes to its tree"
        )
    if fitting[rows].any():
        return ""
    outside = np.flatnonzero(fitting).tolist()
    if not outside:
        return ""
    named = ", ".join(sorted(map(nodes.name, outside), key=natural)[:NAMED])
    more = f" and {len(outside) - NAMED} others" if len(outside) > NAMED else ""
    return (
        f"only nodes that the topology ({tree.source}) does not name have free capacity: "
        f"{named}{more}; add them to its tree"
    )


def _walk(units: Any, path: tuple[str, ...], found: list[tuple[tuple[str, ...], str]]) -> None:
    if len(path) >= DEEPEST:
        raise ObjectError(f"data.tree is deeper than {DEEPEST} levels at {'/'.join(path)}")
    for name, below in units.items():
        if not isinstance(below, dict):
            where = "/".join((*path, name))
            raise ObjectError(f"data.tree: {where} is no JSON object; a node is written as {{}}")
        if not name:
            raise ObjectError(f"data.tree: a unit under {'/'.join(path) or ROOT} has no name")
        if below:
            _walk(below, (*path, name), found)
        else:
            found.append((path, name))
            if len(found) > MOST_UNITS:
                raise ObjectError(f"data.tree holds more than {MOST_UNITS} nodes")


def _filled(
    found: list[tuple[tuple[str, ...], str]], depth: int
) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the leaves, with shorter paths filled up to `depth` by the node's name.

    Raises ObjectError if a node occurs twice.
    """
    seen: set[str] = set()
    leaves = []
    for path, name in found:
        if name in seen:
            raise ObjectError(f"data.tree: the node {name} stands in two places")
        seen.add(name)
        leaves.append((path + (name,) * (depth - len(path)), name))
    return tuple(leaves)
