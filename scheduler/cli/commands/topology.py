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

NumaFlag = Annotated[bool, typer.Option("--numa", help="NUMA zones, node by node.")]
ProfilesFlag = Annotated[
    list[str] | None,
    typer.Option("--scheduler-name", metavar="NAME", help="A profile; others' pods are foreign."),
]


def topology(
    numa: NumaFlag = False,
    scheduler_name: ProfilesFlag = None,
    snapshot: SnapshotFlag = None,
    now: NowFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    output: OutputFlag = Output.TABLE,
) -> int:
    """Show what is known of each node's NUMA zones."""
    from scheduler.cli.topology import topology as answer

    return answer(numa, scheduler_name, snapshot, now, kubeconfig, context, request_timeout, output)
