"""`trellis capacity`: its flags; what it does is in `scheduler.cli.capacity`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import (
    ClusterFlags,
    ConfigFlag,
    NodeFlags,
    NowFlag,
    Output,
    OutputFlag,
    SnapshotFlag,
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


class CapacityFlags(NamedTuple):
    """Count how many more pods or groups of a shape fit, without preemption."""

    snapshot: SnapshotFlag = None
    filename: ShapeFlag = None
    limit: LimitFlag = None
    want: WantFlag = None
    config: ConfigFlag = ""
    nodes: NodeFlags = NodeFlags()
    now: NowFlag = ""
    cluster: ClusterFlags = ClusterFlags()
    output: OutputFlag = Output.TABLE


capacity = command(CapacityFlags, "scheduler.cli.capacity.capacity")
