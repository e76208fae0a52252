"""`trellis groups`: its flags; what it does is in `scheduler.cli.groups`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ClusterFlags, ConfigFlag, NowFlag, Output, OutputFlag, SnapshotFlag

WatchFlag = Annotated[
    bool, typer.Option("--watch", "-w", help="Print the table again when it changes.")
]


class GroupsFlags(NamedTuple):
    """List the groups with members, placement, proof or conflict."""

    config: ConfigFlag = ""
    watch: WatchFlag = False
    snapshot: SnapshotFlag = None
    now: NowFlag = ""
    cluster: ClusterFlags = ClusterFlags()
    output: OutputFlag = Output.TABLE


groups = command(GroupsFlags, "scheduler.cli.groups.groups")
