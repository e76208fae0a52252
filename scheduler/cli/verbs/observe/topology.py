"""`trellis topology`: the tree of the cluster with requests, pods and groups, and its network's
costs.

With `--numa` the known NUMA zones of each node, and their faults. Computed here from the objects
that the user may read, or from a snapshot's files, with the daemon's configuration: the tree is the
default tree of its profile. Nothing is written to the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.base.errors import InputError, ObjectError
from scheduler.base.text import natural
from scheduler.cli.commands import TopologyFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.cmdio import (
    options,
    print_stderr,
    read_cluster,
    read_files,
    setups,
    show_tables,
)
from scheduler.cli.output.amounts import amount
from scheduler.cli.output.printing import TableColumn, show, show_document
from scheduler.cli.output.watching import repeated
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.settings import derived_kinds
from scheduler.explain.folds import folded_rows
from scheduler.explain.texttable import TextTable
from scheduler.framework.profile import ProfileSpec
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.topology import hypernodes
from scheduler.objects.kinds import (
    BY_KIND,
    HYPER_NODE,
    KUEUE_TOPOLOGIES,
    NODE,
    POD,
    TOPOLOGY_CONFIG_MAP,
)
from scheduler.plugins.numa.reserving import Following
from scheduler.plugins.numa.states import amount_text, node_states
from scheduler.plugins.numa.tracker import KIND, Topologies
from scheduler.simulate.derive import with_derived_groups
from scheduler.simulate.stage import Setup
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader
from scheduler.snapshot.tree import (
    ListedPath,
    NamedTree,
    TreeUnit,
    hyper_tree,
    levels_of,
    listed_paths,
    named_trees,
    preset_label,
    tree,
)
from scheduler.state.cluster import Cluster

GROUPS = "ClusterTopologyPlacementGroup"
MOST_GROUPS = 2
_OF_TREES = (BY_KIND["NetworkTopology"], TOPOLOGY_CONFIG_MAP, *KUEUE_TOPOLOGIES, HYPER_NODE)


def topology(flags: TopologyFlags) -> int:
    """Show the tree of the cluster, or its NUMA zones."""
    if flags.numa and (flags.levels or flags.nodes or flags.name):
        raise InputError("--numa goes node by node, without --level, --tree and --nodes")
    if flags.levels and flags.name:
        raise InputError("a tree by its name has its levels: --tree goes without --level")
    setup = setups(flags.config, None if flags.snapshot else cluster_options(flags.cluster)).default
    profiles = setup.loaded.profiles
    found: tuple[Snapshot, float]

    def look() -> object:
        nonlocal found
        found = _read(flags, setup)
        return found[0]

    def show_() -> None:
        _show(*found, flags, profiles)

    repeated(look, show_, is_watched=flags.watch and not flags.snapshot)
    return 0


def _read(flags: TopologyFlags, setup: Setup) -> tuple[Snapshot, float]:
    """Return the cluster with its derived groups, and its time in seconds since the epoch."""
    if flags.snapshot:
        snapshot = read_files(flags.snapshot, None)
        wanted = options(flags.now, Ties.NAME, None, details=False).now
        moment = snapshot.taken_at if wanted is None else wanted
    else:
        kinds = (NODE, POD, *((BY_KIND[KIND],) if flags.numa else _OF_TREES))
        # An annotation of a namespace may ask for the derived groups of its pods.
        kinds += (BY_KIND["Namespace"],) * (bool(derived_kinds(setup.loaded)) and not flags.numa)
        reader = SnapshotReader()
        moment = read_cluster(cluster_options(flags.cluster), reader, kinds).now
        snapshot = reader.snapshot()
    return with_derived_groups(snapshot, setup.loaded), moment


def _show(
    snapshot: Snapshot, moment: float, flags: TopologyFlags, profiles: Sequence[ProfileSpec]
) -> None:
    if not flags.numa:
        _show_tree(snapshot, _as_configured(flags, profiles, snapshot))
        return
    ours = [one.scheduler_name for one in profiles]
    following = Following(frozenset(flags.scheduler_name or ours))
    states = sorted(
        node_states(_followed(snapshot, following), moment), key=lambda state: natural(state.node)
    )
    items = [msgspec.to_builtins(state) | {"name": state.node} for state in states]
    if flags.output is Output.TABLE:
        rows = [[column.text(item) for column in _COLUMNS] for item in items]
        show_tables([TextTable([column.title for column in _COLUMNS], folded_rows(rows))])
    else:
        show({"kind": "NumaTopology", "items": items}, _COLUMNS, flags.output)


def _as_configured(
    flags: TopologyFlags, profiles: Sequence[ProfileSpec], snapshot: Snapshot
) -> TopologyFlags:
    """Return the flags with the tree or the levels of the configuration where they name none."""
    name = (flags.scheduler_name or [""])[0]
    chosen = [one for one in profiles if one.scheduler_name == name or not name]
    if not chosen:
        there = ", ".join(one.scheduler_name for one in profiles)
        text = f"no profile is called {name}; there are: {there}"
        raise InputError(text, where="--scheduler-name")
    args = chosen[0].args.get(GROUPS)
    if flags.levels or flags.name or not isinstance(args, ClusterTopologyPlacementGroupArgs):
        return flags
    if args.topology:
        return flags._replace(name=args.topology)
    labels = [preset_label(snapshot.nodes, one) or one for one in args.topology_labels]
    carried = list(levels_of(snapshot.nodes, labels)) if labels else []
    missing = [one for one in labels if one not in carried]
    print_stderr(
        [f"notice: no node carries {', '.join(missing)} (topologyLabels of {GROUPS})"]
        * bool(missing)
    )
    return flags._replace(levels=carried or None)


def _show_tree(snapshot: Snapshot, flags: TopologyFlags) -> None:
    wanted, name, output = flags.levels or [], flags.name, flags.output
    missing = [label for label in wanted if label not in levels_of(snapshot.nodes, wanted)]
    if missing:
        carried = levels_of(snapshot.nodes)
        raise InputError(
            f"no node carries the label {missing[0]}; the usual ones that nodes carry are "
            f"{', '.join(carried) or 'none'}",
            where="--level",
        )
    trees = {one.name: one for one in named_trees(snapshot)}
    if name == hypernodes.NAME and name not in trees:
        _print_fault(snapshot)
    if name and name not in trees:
        there = ", ".join(trees) or "none"
        raise InputError(
            f"no topology ConfigMap, Topology of Kueue or HyperNodes make a tree of this name: "
            f"{name}; "
            f"there are: {there}",
            where="--tree",
        )
    root = tree(snapshot, levels_of(snapshot.nodes, wanted), named=trees.get(name))
    between = listed_paths(snapshot)
    if output in (Output.JSON, Output.YAML):
        named = [
            {"name": one.name, "source": one.source, "levels": one.levels} for one in trees.values()
        ]
        document = {"kind": "Topology", "tree": root, "ways": between, "trees": named}
        show_document(msgspec.to_builtins(document), output)
    elif output is Output.NAME:
        print(*(unit.name for _, unit in _walk(root) if unit.name), sep="\n")
    else:
        is_wide = output is Output.WIDE
        show_tables([_tree_table(root, with_nodes=flags.nodes or is_wide, is_wide=is_wide)], output)
        if between:
            print()
            show_tables([_links_table(between)])
        if trees and not name:
            print()
            show_tables([_trees_table(trees.values())])


def _print_fault(snapshot: Snapshot) -> None:
    try:
        hyper_tree(snapshot)
    except ObjectError as error:
        raise InputError(error.message, where="--tree") from error


def _trees_table(trees: Iterable[NamedTree]) -> TextTable:
    rows = [[one.name, one.source, ", ".join(one.levels) or "node"] for one in trees]
    return TextTable(["tree (--tree)", "from", "levels"], rows)


def _walk(unit: TreeUnit, depth: int = 0) -> Iterator[tuple[int, TreeUnit]]:
    yield depth, unit
    for child in unit.children:
        yield from _walk(child, depth + 1)


def _tree_table(root: TreeUnit, *, with_nodes: bool, is_wide: bool) -> TextTable:
    rows, unnamed = [], set[int]()
    for depth, unit in _walk(root):
        # Nodes without the label of a level share one row, whatever labels of lower levels they
        # lack.
        is_repeated = not unit.name and depth - 1 in unnamed
        if is_repeated or (unit.level == "node" and not with_nodes):
            continue
        lacks_label = bool(depth) and not unit.name
        unnamed = {one for one in unnamed if one < depth} | ({depth} if lacks_label else set())
        closed = f" ({unit.closed} unschedulable)" if unit.closed and unit.level != "node" else ""
        rows.append(
            [
                "  " * depth + (unit.name or ("cluster" if not depth else "(without the label)")),
                unit.level.rpartition("/")[2],
                f"{unit.nodes:,}{closed}"
                if unit.level != "node"
                else "unschedulable" * unit.closed,
                f"{unit.pods:,}",
                *(_capacity_cell(unit, name) for name in root.capacity),
                _groups(unit.groups, is_wide=is_wide),
            ]
        )
    titles = ["unit", "level", "nodes", "pods", *root.capacity, "groups"]
    return TextTable(titles, rows, optional=("groups", "level", "memory", "cpu"))


def _capacity_cell(unit: TreeUnit, name: str) -> str:
    """Return requested and allocatable amount as `12 of 48`."""
    capacity = unit.capacity.get(name)
    if capacity is None:
        return ""
    scale = 1000 if name == "cpu" else 1
    parts = (amount(name, part / scale) for part in (capacity.requested, capacity.allocatable))
    return " of ".join(parts)


def _groups(groups: Mapping[str, int], *, is_wide: bool) -> str:
    """Return groups with their pods: two by name, more as a number unless the table is wide."""
    if len(groups) > MOST_GROUPS and not is_wide:
        return f"{len(groups):,} groups"
    return ", ".join(f"{name} {count}" for name, count in groups.items())


def _links_table(between: list[ListedPath]) -> TextTable:
    titles = ["network", "level", "from", "to", "cost", "capacity", "allocated"]
    rows = [
        [
            path.topology,
            path.level.rpartition("/")[2],
            path.origin,
            path.destination,
            *(
                "" if one is None else str(one)
                for one in (path.cost, path.capacity, path.allocated)
            ),
        ]
        for path in between
    ]
    return TextTable(titles, rows)


def _followed(snapshot: Snapshot, following: Following) -> Topologies:
    """Feed a snapshot's objects to a tracker, reports first, as the daemon does."""
    cluster, topologies = Cluster(), Topologies()
    topologies.rebuild(cluster)
    reserving = topologies.reserve(following)
    for kind, obj in snapshot.objects:
        if kind == KIND:
            topologies.apply(cluster.put_object(kind, obj))
    for node in snapshot.nodes:
        topologies.apply(cluster.put_node(node))
    for pod in snapshot.bound:
        topologies.apply(cluster.put_pod(pod))
    reserving.settle()
    return topologies


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _age(item: Any) -> str:
    age = item["ageS"]
    if age is None:
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if age >= 2 * length:
            return f"{int(age // length)}{unit}"
    return f"{int(age)}s"


def _free(item: Any) -> str:
    """Return the free amounts of each zone: `cpu 4/12 memory 8Gi/60Gi`."""
    return " ".join(
        f"{name} " + "/".join(amount_text(name, part) for part in parts)
        for name, parts in item["free"].items()
    )


_COLUMNS = (
    TableColumn("node", lambda item: item["node"]),
    TableColumn("policy", lambda item: item["policy"]),
    TableColumn("scope", lambda item: item["scope"]),
    TableColumn("zones", lambda item: ",".join(map(str, item["zones"]))),
    TableColumn("left", _free),
    TableColumn("age", _age),
    TableColumn("unseen pods", lambda item: _text(item["owed"] or None)),
    TableColumn("state", lambda item: item["state"]),
    TableColumn("why", lambda item: item["why"]),
)
