"""`trellis snapshot`: its flags; what it does is in `scheduler.cli.snapshot`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import ContextFlag, KubeconfigFlag, Output, OutputFlag, TimeoutFlag


def snapshot(
    anonymize: Annotated[
        bool, typer.Option("--anonymize", help="Hide names, labels and images, consistently.")
    ] = False,
    source: Annotated[
        list[str] | None,
        typer.Option("--snapshot", metavar="F", help="Files instead of a cluster, to clean them."),
    ] = None,
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    output: OutputFlag = Output.JSON,
) -> None:
    """Write a live cluster as one List that simulate, explain and kubectl apply read."""
    from scheduler.cli.snapshot import snapshot as answer

    answer(anonymize, source, kubeconfig, context, request_timeout, output)
