"""`trellis explain`: its flags; what it does is in `scheduler.cli.explain`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import (
    ClusterFlags,
    ConfigFlag,
    DaemonFlags,
    NowFlag,
    Output,
    OutputFlag,
    PastFlag,
    PodArgument,
    PodNamespaceFlag,
    PodsFlag,
    SnapshotFlag,
)


class ExplainFlags(NamedTuple):
    """Tell why a pod is where it is, or why it is pending."""

    pod: PodArgument
    namespace: PodNamespaceFlag = ""
    node: Annotated[str, typer.Option("--node", metavar="N", help="Just this node.")] = ""
    snapshot: SnapshotFlag = None
    filename: PodsFlag = None
    config: ConfigFlag = ""
    now: NowFlag = ""
    cluster: ClusterFlags = ClusterFlags()
    past: PastFlag = False
    where: DaemonFlags = DaemonFlags()
    output: OutputFlag = Output.TABLE


explain = command(ExplainFlags, "scheduler.cli.explain.explain")
