"""`trellis explain`: its flags; what it does is in `scheduler.cli.explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    AuthorityFlag,
    ConfigFlag,
    ContextFlag,
    DaemonFlag,
    KubeconfigFlag,
    NowFlag,
    Output,
    OutputFlag,
    PastFlag,
    PodsFlag,
    SnapshotFlag,
    TimeoutFlag,
    TokenFlag,
)


def explain(
    pod: Annotated[str, typer.Argument(metavar="POD", help="NAME or NAMESPACE/NAME.")],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The pod's namespace.")] = "",
    node: Annotated[str, typer.Option("--node", metavar="N", help="Just this node.")] = "",
    snapshot: SnapshotFlag = None,
    filename: PodsFlag = None,
    config: ConfigFlag = "",
    now: NowFlag = "",
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    past: PastFlag = False,
    daemon: DaemonFlag = "",
    token: TokenFlag = "",
    authority: AuthorityFlag = "",
    output: OutputFlag = Output.TABLE,
) -> int:
    """Tell why a pod is where it is, or why it is pending."""
    from scheduler.cli.explain import explain as answer

    return answer(
        pod,
        namespace,
        node,
        snapshot,
        filename,
        config,
        now,
        kubeconfig,
        context,
        request_timeout,
        past,
        daemon,
        token,
        authority,
        output,
    )
