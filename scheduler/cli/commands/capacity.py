"""`trellis capacity`: its flags; what it does is in `scheduler.cli.capacity`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    AddNodesFlag,
    ConfigFlag,
    ContextFlag,
    DrainFlag,
    KubeconfigFlag,
    NowFlag,
    OfferFlag,
    Output,
    OutputFlag,
    RemoveNodeFlag,
    RemoveRackFlag,
    SnapshotFlag,
    TimeoutFlag,
)

ShapeFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", metavar="F", help="One pod or group, and what it needs; again for more."
    ),
]
LimitFlag = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", help="Stop counting there: 1000, at most 10000."),
]
WantFlag = Annotated[
    int | None,
    typer.Option("--want", metavar="N", help="Exit code 3 when fewer fit than these."),
]


def capacity(
    snapshot: SnapshotFlag = None,
    filename: ShapeFlag = None,
    limit: LimitFlag = None,
    want: WantFlag = None,
    config: ConfigFlag = "",
    add_nodes: AddNodesFlag = None,
    remove_node: RemoveNodeFlag = None,
    remove_rack: RemoveRackFlag = None,
    drain: DrainFlag = None,
    offer_nodes: OfferFlag = None,
    now: NowFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    output: OutputFlag = Output.TABLE,
) -> int:
    """Count how many more pods or groups of a shape fit, without preemption."""
    from scheduler.cli.asking import NodeOptions
    from scheduler.cli.capacity import capacity as answer
    from scheduler.cli.live import Access, seconds

    given = (add_nodes, remove_node, remove_rack, drain, offer_nodes)
    nodes = NodeOptions(*(one or () for one in given))
    access = Access(kubeconfig, context, seconds(request_timeout))
    return answer(snapshot, filename, limit, want, config, nodes, now, access, output)
