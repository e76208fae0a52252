"""`trellis snapshot`: its flags; what it does is in `scheduler.cli.snapshot`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ClusterFlags, Output, OutputFlag

AnonymizeFlag = Annotated[
    bool, typer.Option("--anonymize", help="Hide names, labels and images, consistently.")
]
SourceFlag = Annotated[
    list[str] | None,
    typer.Option("--snapshot", metavar="F", help="Files instead of a cluster, to clean them."),
]


class SnapshotFlags(NamedTuple):
    """Write a live cluster as one List that simulate, explain and kubectl apply read."""

    anonymize: AnonymizeFlag = False
    source: SourceFlag = None
    cluster: ClusterFlags = ClusterFlags()
    output: OutputFlag = Output.JSON


snapshot = command(SnapshotFlags, "scheduler.cli.snapshot.snapshot")
