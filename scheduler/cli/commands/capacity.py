"""`trellis capacity`: its flags; what it does is in `scheduler.cli.capacity`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    AddNodesFlag,
    ConfigFlag,
    DrainFlag,
    NowFlag,
    Output,
    OutputFlag,
    RemoveNodeFlag,
    SnapshotFlag,
)

ShapeFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", metavar="F", help="One pod or group, and what it needs; again for more."
    ),
]
LimitFlag = Annotated[
    int, typer.Option("--limit", metavar="N", help="Stop counting there; 10000 at most.")
]


def capacity(
    snapshot: SnapshotFlag = None,
    filename: ShapeFlag = None,
    limit: LimitFlag = 1_000,
    config: ConfigFlag = "",
    add_nodes: AddNodesFlag = None,
    remove_node: RemoveNodeFlag = None,
    drain: DrainFlag = None,
    now: NowFlag = "",
    output: OutputFlag = Output.TABLE,
) -> int:
    """Count how many more pods or groups of a shape fit into a snapshot, without preemption."""
    from scheduler.cli.capacity import capacity as answer

    changes = (add_nodes or (), remove_node or (), drain or ())
    return answer(snapshot, filename, limit, config, changes, now, output)
