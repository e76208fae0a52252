"""Traces a plain pod through a whole daemon on the sandbox: the entered files, in one process.

python -m tests.e2e.podstrace
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType

import msgspec

from scheduler.base.clock import RealClock
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.daemon import Daemon, DaemonOptions
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.sandbox.kinds.kinds import PODS as STORED
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.serve.app import Address

PODS = "/api/v1/namespaces/default/pods"
PACKAGES = ("daemon/", "engine/", "framework/", "kube/")


def noting(found: set[str]) -> Callable[[FrameType, str, object], None]:
    """Return a profile function that collects the entered files of the project."""

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            _, ours, file = frame.f_code.co_filename.rpartition("/scheduler/")
            if ours and file.startswith(PACKAGES):
                found.add(file)

    return note


async def traced(before: int = 3) -> set[str]:
    """Return the files entered for a pod, from creation to binding, after `before` equal pods."""
    clock, meters = RealClock(), Meters()
    found: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        options = SandboxOptions(shape=plain_shape(4), kubeconfig=Path(folder) / "kubeconfig")
        async with Sandbox(options) as sandbox:
            path = str(sandbox.kubeconfig_path)
            user = await ApiClient.connect(path, clock=clock, meters=Meters())
            wire = await ApiClient.connect(path, clock=clock, meters=meters)
            daemon = Daemon(
                default_config(registry()),
                registry(),
                wire,
                clock=clock,
                random=Random(1),
                meters=meters,
                options=DaemonOptions("traced", address=Address(port=0)),
            )
            running = asyncio.create_task(daemon.run())
            try:
                for number in range(before):
                    await placed(sandbox, user, number)
                sys.setprofile(noting(found))
                try:
                    await placed(sandbox, user, before)
                finally:
                    sys.setprofile(None)
            finally:
                daemon.stop()
                await running
                await user.close()
    return found


async def placed(sandbox: Sandbox, user: ApiClient, number: int) -> None:
    """Create a plain pod and wait until it is on a node."""
    name = f"plain-{number}"
    container = {
        "name": "main",
        "image": "example.com/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "200Mi"}},
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "trellis", "containers": [container]},
    }
    made = await user.request("POST", PODS, msgspec.json.encode(manifest))
    assert made.ok, made.message
    done = asyncio.Event()

    def look() -> None:
        if any(
            one.obj["metadata"]["name"] == name and one.obj["spec"].get("nodeName")
            for one in sandbox.store.list(STORED)
        ):
            done.set()
        else:
            asyncio.get_running_loop().call_later(0.02, look)

    look()
    async with asyncio.timeout(60):
        await done.wait()


if __name__ == "__main__":
    print(*sorted(asyncio.run(traced())), sep="\n")
