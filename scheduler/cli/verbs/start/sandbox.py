"""`trellis sandbox up|down|status`: an embedded cluster with simulated nodes for kubectl, helm and
the daemon.
"""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scheduler.base.errors import InputError, TrellisError
from scheduler.cli.signals import on_stop
from scheduler.sandbox import detached
from scheduler.sandbox.kinds.kinds import RELEASES

if TYPE_CHECKING:
    from scheduler.sandbox.nodes.shape import ClusterShape
    from scheduler.sandbox.sandbox import Sandbox, SandboxOptions

sandbox = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_DETACHED = "TRELLIS_SANDBOX_DETACHED"
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 15.0

Name = Annotated[str, typer.Option("--name", help="The sandbox's name, if you run several.")]


@sandbox.command()
def up(
    nodes: Annotated[int, typer.Option("--nodes", min=0, help="The number of equal nodes.")] = 3,
    files: Annotated[
        list[str] | None,
        typer.Option("--filename", "-f", help="Manifests to apply: files, folders, - for stdin."),
    ] = None,
    shape: Annotated[
        Path | None, typer.Option("--shape", help="Nodes as a YAML file describes them.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 0,
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", help="Where to write the kubeconfig.")
    ] = None,
    release: Annotated[
        str,
        typer.Option("--kubernetes", help="1.36 or 1.37: the release of its group APIs."),
    ] = "1.36",
    name: Name = "default",
    no_status: Annotated[
        bool, typer.Option("--no-status", help="Kubelets write no pod status (load tests).")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when it is up and leave it running.")
    ] = False,
) -> None:
    """Start a cluster in this process; prints where it is and runs until Ctrl-C."""
    if shape is not None and nodes != 3:
        raise InputError("--nodes and --shape exclude each other")
    if release not in RELEASES:
        raise InputError(f"{release} is not one of {', '.join(RELEASES)}", where="--kubernetes")
    detached.check_name(name)
    if detach:
        _detach(name)
        return
    from scheduler.sandbox.sandbox import SandboxOptions

    path = kubeconfig or detached.kubeconfig_of(name)
    detached.check_kubeconfig(path)
    with detached.Lease(name) as lease:
        options = SandboxOptions(
            shape=_shape(shape, nodes),
            port=port,
            kubeconfig=path,
            lazy=no_status,
            release=release,
        )
        asyncio.run(_run(lease, name, options, files or ()))


@sandbox.command()
def down(name: Name = "default") -> None:
    """Stop a running sandbox."""
    state = detached.find(name)
    if state is None:
        raise TrellisError(f'no sandbox "{name}" is running')
    os.kill(state.pid, signal.SIGTERM)
    end = time.monotonic() + _STOP_LIMIT_S
    while detached.find(name) is not None:
        if time.monotonic() > end:
            raise TrellisError(f"process {state.pid} does not end; it was sent SIGTERM")
        time.sleep(0.05)
    print(f'sandbox "{name}" stopped')


@sandbox.command("list")
def list_() -> None:
    """List the running sandboxes; the same as status."""
    status()


@sandbox.command()
def status() -> None:
    """List the running sandboxes."""
    from scheduler.cli.output.printing import show_table

    found = detached.running()
    if not found:
        print("no sandbox is running", file=sys.stderr)
        return
    rows = [[s.name, str(s.pid), str(s.nodes), s.url, s.kubeconfig, s.started] for s in found]
    show_table(["name", "pid", "nodes", "url", "kubeconfig", "started"], rows)


async def _run(
    lease: detached.Lease,
    name: str,
    options: "SandboxOptions",
    files: Sequence[str],
) -> None:
    from scheduler.sandbox.sandbox import Sandbox

    stopped = asyncio.Event()
    on_stop(stopped.set)
    # The sandbox keeps thousands of long-lived objects; the collector would traverse them
    # repeatedly and free nothing.
    gc.disable()
    async with Sandbox(options) as started:
        for line in await started.apply(*files):
            print(line)
        gc.freeze()
        gc.set_threshold(50_000, 50, 100)
        gc.enable()
        _announce(lease, name, started, options.shape.count)
        await stopped.wait()
    print("sandbox stopped", file=sys.stderr)


def _announce(lease: detached.Lease, name: str, started: "Sandbox", nodes: int) -> None:
    path = str(started.kubeconfig_path.absolute())
    lease.write_state(
        detached.State(
            name=name,
            pid=os.getpid(),
            url=started.url,
            kubeconfig=path,
            nodes=nodes,
            started=started.store.now(),
        )
    )
    print(f"sandbox is up: {started.url}, {nodes} nodes")
    print(f"export KUBECONFIG={path}")
    if _DETACHED not in os.environ:
        print("Ctrl-C stops it", file=sys.stderr)
    sys.stdout.flush()


def _detach(name: str) -> None:
    """Start the same command line again as a process of its own, and wait until it is up."""
    if detached.find(name) is not None:
        raise TrellisError(
            f'a sandbox "{name}" runs already: `trellis sandbox down --name {name}` stops it, '
            "another --name starts one beside it"
        )
    log = detached.folder() / f"{name}.log"
    words = [word for word in sys.argv[1:] if word not in ("--detach", "-d")]
    command = [sys.executable, "-P", "-c", "from scheduler.cli.main import main; main()", *words]
    with log.open("wb") as output:
        child = subprocess.Popen(  # noqa: S603  our own command line
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, _DETACHED: "1"},
        )
    end = time.monotonic() + _START_LIMIT_S
    while (state := detached.find(name)) is None:
        if child.poll() is not None:
            raise TrellisError(f"it did not start: {_last_line(log)} (see {log})")
        if time.monotonic() > end:
            child.terminate()
            raise TrellisError(f"it was not up within {_START_LIMIT_S:.0f} s (see {log})")
        time.sleep(0.02)
    print(f"sandbox is up: {state.url}, {state.nodes} nodes, process {state.pid}")
    print(f"export KUBECONFIG={state.kubeconfig}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else "no output"


def _shape(path: Path | None, nodes: int) -> "ClusterShape":
    from scheduler.sandbox.nodes.shape import plain_shape, read_shape

    return read_shape(path) if path is not None else plain_shape(nodes)
