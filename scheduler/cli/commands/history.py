"""`trellis history`: its flags; what it does is in `scheduler.cli.history`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    AuthorityFlag,
    ContextFlag,
    DaemonFlag,
    DecisionLogFlag,
    KubeconfigFlag,
    Output,
    OutputFlag,
    TimeoutFlag,
    TokenFlag,
)


def history(
    pod: Annotated[str, typer.Argument(metavar="POD", help="NAME or NAMESPACE/NAME.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The pod's namespace.")] = "",
    decision_log: DecisionLogFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    daemon: DaemonFlag = "",
    token: TokenFlag = "",
    authority: AuthorityFlag = "",
    output: OutputFlag = Output.TABLE,
) -> int:
    """Tell how the attempts at a pod ended, in order: from the running daemon, or from a decision log."""
    from scheduler.cli.history import history as answer
    from scheduler.cli.live import Access, seconds
    from scheduler.cli.past import Daemon

    access = Access(kubeconfig, context, seconds(request_timeout), namespace)
    return answer(pod, decision_log, access, Daemon(daemon, token, authority), output)
