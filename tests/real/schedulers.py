"""The schedulers that run on a real API server: ours and kube-scheduler, behind one protocol.

Tests and measurements take a `Scheduler` and start it as often as needed. Both read the same
KubeSchedulerConfiguration fields and run under the same user, so that only the scheduler differs.
TRELLIS_TEST_SCHEDULER=kube-scheduler runs the peer in tests of ours: a test of the tests.
"""

import asyncio
import os
import signal
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal, Protocol

import yaml

from tests.apiserver.patience import PATIENCE_S, pause, until
from tests.apiserver.processes import Program, ProgramFailedError, free_ports, running
from tests.apiserver.realcluster import ADMIN_TOKEN, Reachable, RealCluster, start_kube_scheduler

ROOT = Path(__file__).parents[2]
READY_S = 180.0
# Both use this lease, because the API server's own role for schedulers names it.
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"

Encoding = Literal["json", "protobuf"]


@dataclass(frozen=True)
class Running:
    """A scheduler that was started and may have ended since."""

    program: Program
    url: str

    @property
    def pid(self) -> int:
        return self.program.pid

    def get(self, path: str) -> str:
        """Return the answer of an endpoint as admin; raise OSError when it does not answer."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # its serving certificate is self-signed
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {ADMIN_TOKEN}"}
        )
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return str(answer.read().decode())

    async def wait_ready(self) -> None:
        """Wait until /readyz succeeds; raise ProgramFailedError if it ends or takes too long."""
        deadline = monotonic() + READY_S
        while not await asyncio.to_thread(self._is_ready):
            if self.program.process.poll() is not None or monotonic() > deadline:
                raise ProgramFailedError(f"{self.program.name} not ready\n{self.program.tail()}")
            await pause()

    async def wait_end(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait until the process has ended and return its exit code."""
        await until(self.has_ended, "its end", timeout_s)
        return int(self.program.process.returncode)

    def has_ended(self) -> bool:
        """Return whether the process has ended."""
        return self.program.process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; do nothing if the process has ended."""
        self.program.process.send_signal(number)

    async def kill(self) -> None:
        """Kill the process with SIGKILL, and wait until it has ended."""
        self.send(signal.SIGKILL)
        await self.wait_end()

    def _is_ready(self) -> bool:
        try:
            return self.get("/readyz").startswith("ok")
        except OSError:
            return False


class Scheduler(Protocol):
    """A scheduler that can be started on a cluster.

    `scheduler_name` selects its pods; `encoding` is that of its watches.
    """

    @property
    def name(self) -> str: ...

    @property
    def scheduler_name(self) -> str: ...

    @property
    def encoding(self) -> Encoding: ...

    def start(
        self, cluster: RealCluster, config: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[Running]:
        """Start it without waiting; it ends with the block.

        `config` are fields of KubeSchedulerConfiguration; clientConnection.kubeconfig there runs it
        under another user.
        """
        ...


@dataclass(frozen=True)
class KubeSchedulerPeer:
    """The real kube-scheduler with its own defaults and further flags, not throttled."""

    name: str = "kube-scheduler"
    scheduler_name: str = "default-scheduler"
    encoding: Encoding = "protobuf"
    flags: tuple[str, ...] = ()

    @contextmanager
    def start(
        self, cluster: RealCluster, config: Mapping[str, Any] | None = None
    ) -> Iterator[Running]:
        whole = _whole(cluster, config)
        # Its defaults of 50 and 100 would throttle it; ours has no limit of its own.
        whole["clientConnection"] |= {"qps": 5000, "burst": 5000}
        with start_kube_scheduler(cluster, whole, wait=False, flags=self.flags) as started:
            yield Running(started.program, started.url)


@dataclass(frozen=True)
class Trellis:
    """`trellis run` with its own defaults, from this work tree or from another checkout with a
    `.venv`.

    `plugins` are those of its profile, if the configuration has no profiles.
    """

    name: str = "trellis"
    scheduler_name: str = "default-scheduler"
    encoding: Encoding = "json"
    checkout: Path = ROOT
    plugins: Mapping[str, Any] = field(default_factory=dict)

    @contextmanager
    def start(
        self, cluster: Reachable, config: Mapping[str, Any] | None = None
    ) -> Iterator[Running]:
        folder = Path(tempfile.mkdtemp(prefix="trellis-", dir=cluster.folder))
        (port,) = free_ports(1)
        python = self.checkout / ".venv/bin/python" if self.checkout != ROOT else sys.executable
        command = [
            str(python),
            "-P",
            "-m",
            "scheduler.cli.main",
            "run",
        ]  # -P: not this folder's code
        command += self._flags(folder, port, _whole(cluster, config))
        log = cluster.folder / f"{folder.name}.log"
        with running("trellis", command, log, {"PYTHONPATH": str(self.checkout)}) as program:
            yield Running(program, f"https://127.0.0.1:{port}")

    def _flags(self, folder: Path, port: int, config: dict[str, Any]) -> list[str]:
        profile = {"schedulerName": self.scheduler_name, "plugins": dict(self.plugins)}
        config.setdefault("profiles", [profile])
        file = folder / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        return [
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
        ]


def under_test() -> Scheduler:
    """Return Trellis, or the peer if TRELLIS_TEST_SCHEDULER names it."""
    wanted = os.environ.get("TRELLIS_TEST_SCHEDULER", "trellis")
    known: list[Scheduler] = [Trellis(), KubeSchedulerPeer()]
    return next(scheduler for scheduler in known if scheduler.name == wanted)


def leading(
    lease_s: int = 15, renew_s: int = 10, retry_s: int = 2, kubeconfig: Path | None = None
) -> dict[str, Any]:
    """Return configuration fields for leader election, optionally under another user."""
    config: dict[str, Any] = {
        "leaderElection": {
            "leaderElect": True,
            "leaseDuration": f"{lease_s}s",
            "renewDeadline": f"{renew_s}s",
            "retryPeriod": f"{retry_s}s",
            "resourceName": "kube-scheduler",
            "resourceNamespace": "kube-system",
        }
    }
    if kubeconfig is not None:
        config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
    return config


def _whole(cluster: Reachable, config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a configuration that both read: these fields over those that the tests need."""
    whole = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **(config or {}),
    }
    client = {"kubeconfig": str(cluster.scheduler_kubeconfig)}
    whole["clientConnection"] = client | dict(whole.get("clientConnection", {}))
    return whole
