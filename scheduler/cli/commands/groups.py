"""`trellis groups`: its flags; what it does is in `scheduler.cli.groups`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    ConfigFlag,
    ContextFlag,
    KubeconfigFlag,
    NowFlag,
    Output,
    OutputFlag,
    SnapshotFlag,
    TimeoutFlag,
)

WatchFlag = Annotated[
    bool, typer.Option("--watch", "-w", help="Print the table again when it changes.")
]


def groups(
    config: ConfigFlag = "",
    watch: WatchFlag = False,
    snapshot: SnapshotFlag = None,
    now: NowFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    output: OutputFlag = Output.TABLE,
) -> int:
    """List the groups with members, placement, proof or conflict."""
    from scheduler.cli.groups import groups as answer

    return answer(config, watch, snapshot, now, kubeconfig, context, request_timeout, output)
