"""`trellis topology`: its flags; what it does is in `scheduler.cli.topology`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    ContextFlag,
    KubeconfigFlag,
    NowFlag,
    Output,
    OutputFlag,
    SnapshotFlag,
    TimeoutFlag,
)

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
        "--tree", metavar="NAME", help="A topology ConfigMap's tree, or a Topology of Kueue."
    ),
]
NodesFlag = Annotated[bool, typer.Option("--nodes", help="Down to the nodes.")]
ProfilesFlag = Annotated[
    list[str] | None,
    typer.Option("--scheduler-name", metavar="NAME", help="A profile; others' pods are foreign."),
]


def topology(
    numa: NumaFlag = False,
    levels: LevelsFlag = None,
    name: TreeFlag = "",
    nodes: NodesFlag = False,
    scheduler_name: ProfilesFlag = None,
    snapshot: SnapshotFlag = None,
    now: NowFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    output: OutputFlag = Output.TABLE,
) -> int:
    """Show the tree of the cluster with room, pods and groups, or its NUMA zones."""
    from scheduler.cli.topology import topology as answer

    return answer(
        numa,
        levels,
        name,
        nodes,
        scheduler_name,
        snapshot,
        now,
        kubeconfig,
        context,
        request_timeout,
        output,
    )
