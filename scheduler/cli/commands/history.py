"""`trellis history`: its flags; what it does is in `scheduler.cli.history`."""

from typing import NamedTuple

from scheduler.cli.command import command
from scheduler.cli.flags import (
    ClusterFlags,
    DaemonFlags,
    DecisionLogFlag,
    Output,
    OutputFlag,
    PodArgument,
    PodNamespaceFlag,
)


class HistoryFlags(NamedTuple):
    """Tell how the attempts at a pod ended, in order: from the running daemon, or from a decision log."""

    pod: PodArgument
    namespace: PodNamespaceFlag = ""
    decision_log: DecisionLogFlag = ""
    cluster: ClusterFlags = ClusterFlags()
    where: DaemonFlags = DaemonFlags()
    output: OutputFlag = Output.TABLE


history = command(HistoryFlags, "scheduler.cli.history.history")
