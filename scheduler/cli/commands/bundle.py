"""`trellis support-bundle`: its flags; what it does is in `scheduler.cli.bundle`."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler.cli.flags import (
    AuthorityFlag,
    ContextFlag,
    DaemonFlag,
    KubeconfigFlag,
    TimeoutFlag,
    TokenFlag,
)


def support_bundle(
    file: Annotated[
        str, typer.Option("--filename", "-f", metavar="F", help="Where to write it: a .tar.gz.")
    ] = "trellis-support.tar.gz",
    seconds: Annotated[
        int, typer.Option("--seconds", min=0, max=300, help="Of the profile; 0 for none.")
    ] = 5,
    hash_names: Annotated[
        bool, typer.Option("--hash-names", help="Names of objects as hashes, anew in each bundle.")
    ] = False,
    kubeconfig: KubeconfigFlag = "",
    context: ContextFlag = "",
    request_timeout: TimeoutFlag = "30s",
    daemon: DaemonFlag = "",
    token: TokenFlag = "",
    authority: AuthorityFlag = "",
) -> int:
    """Collect what helps to find a fault of the running daemon: one archive, without secrets."""
    from scheduler.cli.bundle import support_bundle as answer
    from scheduler.cli.live import Access
    from scheduler.cli.live import seconds as duration
    from scheduler.cli.past import Daemon

    access = Access(kubeconfig, context, duration(request_timeout))
    return answer(file, seconds, hash_names, access, Daemon(daemon, token, authority))
