"""The contestants: both schedulers and the bare binder, with and without events.

Each is a `Scheduler` of tests/real; all run in separate processes, under the same user.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.apiserver.processes import running
from tests.apiserver.realcluster import GROUP_GATES, RealCluster
from tests.real.schedulers import ROOT, Encoding, KubeSchedulerPeer, Running, Scheduler, Trellis


@dataclass(frozen=True)
class Binder:
    """The bare binder; see tests/perf/binder.py."""

    name: str = "binder"
    scheduler_name: str = "default-scheduler"
    encoding: Encoding = "json"
    flags: tuple[str, ...] = ()

    @contextmanager
    def start(
        self, cluster: RealCluster, config: Mapping[str, Any] | None = None
    ) -> Iterator[Running]:
        """Start it; it has no configuration."""
        if config:
            raise ValueError(f"the binder takes no configuration: {config}")
        folder = Path(tempfile.mkdtemp(prefix="binder-", dir=cluster.folder))
        command = [
            sys.executable,
            *("-m", "tests.perf.binder"),
            f"--kubeconfig={cluster.scheduler_kubeconfig}",
            f"--scheduler-name={self.scheduler_name}",
            *self.flags,
        ]
        log = cluster.folder / f"{folder.name}.log"
        with running(self.name, command, log, {"PYTHONPATH": str(ROOT)}) as program:
            yield Running(program, "")


CONTESTANTS: dict[str, Scheduler] = {
    "kube-scheduler": KubeSchedulerPeer(),
    "binder": Binder(),
    "binder+events": Binder("binder+events", flags=("--events",)),
    "trellis": Trellis(),
}

# With a configuration file groups are off unless it names their plugin, and kube-scheduler has
# gates for them.
GATES = ",".join(f"{gate}=true" for gate in GROUP_GATES)
GROUPS = {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}}
WITH_GANGS: dict[str, Scheduler] = {
    "kube-scheduler": KubeSchedulerPeer(flags=(f"--feature-gates={GATES}",)),
    "trellis": Trellis(plugins=GROUPS),
}


def join(name: str, checkout: Path) -> None:
    """Add another checkout of the project as a contestant under a name."""
    CONTESTANTS[name] = Trellis(name, checkout=checkout)
    WITH_GANGS[name] = Trellis(name, checkout=checkout, plugins=GROUPS)


def contestant(name: str, *, gangs: bool) -> Scheduler:
    """Return the contestants of a name.

    For gangs, those that support them, configured for it.
    """
    return WITH_GANGS[name] if gangs else CONTESTANTS[name]
