"""`trellis ui`: its flags; what it does is in `scheduler.cli.ui`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ClusterFlags, ConfigFlag, DecisionLogFlag, NowFlag, SnapshotFlag

NamespaceFlag = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", help="To fall back on where you may not list all; else the context's."
    ),
]
PortFlag = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1; 0 for any free one.")
]


class UiFlags(NamedTuple):
    """Serve the page of a cluster, a snapshot or a decision log to this machine's browser."""

    snapshot: SnapshotFlag = None
    decision_log: DecisionLogFlag = ""
    config: ConfigFlag = ""
    now: NowFlag = ""
    namespace: NamespaceFlag = ""
    cluster: ClusterFlags = ClusterFlags()
    port: PortFlag = 0


ui = command(UiFlags, "scheduler.cli.ui.ui")
