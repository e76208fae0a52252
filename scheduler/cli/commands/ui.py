"""`trellis ui`: its flags; what it does is in `scheduler.cli.ui`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    ConfigFlag,
    ContextFlag,
    DecisionLogFlag,
    KubeconfigFlag,
    NowFlag,
    SnapshotFlag,
    TimeoutFlag,
)

NamespaceFlag = Annotated[
    str,
    typer.Option(
        "--namespace", "-n", help="To fall back on where you may not list all; else the context's."
    ),
]
PortFlag = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="On 127.0.0.1; 0 for any free one.")
]


def ui(
    snapshot: SnapshotFlag = None,
    decision_log: DecisionLogFlag = "",
    config: ConfigFlag = "",
    now: NowFlag = "",
    namespace: NamespaceFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    port: PortFlag = 0,
) -> int:
    """Serve the page of a cluster, a snapshot or a decision log to this machine's browser."""
    from scheduler.cli.live import seconds
    from scheduler.cli.ui import ui as answer

    return answer(
        snapshot,
        decision_log,
        config,
        now,
        namespace,
        kubeconfig,
        context,
        seconds(request_timeout),
        port,
    )
