"""`trellis topology`: its flags; what it does is in `scheduler.cli.topology`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ClusterFlags, NowFlag, Output, OutputFlag, SnapshotFlag

NumaFlag = Annotated[bool, typer.Option("--numa", help="NUMA zones instead, node by node.")]
LevelsFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--level", metavar="LABEL", help="A node label, from the top; else the usual ones."
    ),
]
TreeFlag = Annotated[
    str,
    typer.Option(
        "--tree",
        metavar="NAME",
        help="A topology ConfigMap's tree, a Topology of Kueue, or `hypernodes`.",
    ),
]
NodesFlag = Annotated[bool, typer.Option("--nodes", help="Down to the nodes.")]
ProfilesFlag = Annotated[
    list[str] | None,
    typer.Option("--scheduler-name", metavar="NAME", help="A profile; others' pods are foreign."),
]


class TopologyFlags(NamedTuple):
    """Show the tree of the cluster with room, pods and groups, or its NUMA zones."""

    numa: NumaFlag = False
    levels: LevelsFlag = None
    name: TreeFlag = ""
    nodes: NodesFlag = False
    scheduler_name: ProfilesFlag = None
    snapshot: SnapshotFlag = None
    now: NowFlag = ""
    cluster: ClusterFlags = ClusterFlags()
    output: OutputFlag = Output.TABLE


topology = command(TopologyFlags, "scheduler.cli.topology.topology")
