"""The cost of a waiting gang that does not fit: Trellis and kube-scheduler, one after the other.

    python -m tests.perf.waiting

Each runs on its own control plane with one node that has capacity for two of the gang's three
members. CPU time is measured before the gang exists and while it waits, in equal windows; both are
reported as shares of a core.
"""

import asyncio
import json
import sys
from time import monotonic
from typing import Any

from tests.apiserver.patience import pause, until
from tests.apiserver.realcluster import start_cluster
from tests.perf.bench import find_assets
from tests.perf.contest import POD_GROUPS
from tests.perf.contestants import contestant
from tests.perf.usage import cpu_seconds
from tests.perf.workload import CreateNodes, CreatePods, encoded
from tests.real.api import Api
from tests.real.schedulers import Scheduler

WINDOW_S = 30.0
# The window does not include the first attempt and its writes.
SETTLE_S = 5.0
NAMESPACE = "default"
NODES = CreateNodes(1, patch={"status": {"allocatable": {"cpu": "2"}, "capacity": {"cpu": "2"}}})
PART = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "1"}}}
GANG = CreatePods(3, patch={"spec": {"containers": [PART]}}, gang_of=3)


def main() -> int:
    """Measure both and print the shares as JSON; return the exit code."""
    if not find_assets():
        print("needs a real kube-apiserver: run `make tools`", file=sys.stderr)
        return 2
    for name in ("kube-scheduler", "trellis"):
        found = asyncio.run(measured(contestant(name, gangs=True)))
        print(json.dumps({"contestant": name, **found}))
    return 0


async def measured(scheduler: Scheduler) -> dict[str, Any]:
    """Return the shares of a core that a scheduler takes without and with a gang that waits."""
    with start_cluster(name=f"waiting-{scheduler.name}") as cluster:
        async with Api(cluster) as api:
            await api.create_all("/api/v1/nodes", encoded(NODES.manifests()))
            with scheduler.start(cluster) as running:
                await running.wait_ready()
                await pause(SETTLE_S)
                alone = await share(running.pid)
                pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
                await api.create_all(POD_GROUPS.format(NAMESPACE), encoded(GANG.groups()))
                await api.create_all(pods, encoded(GANG.manifests(scheduler.scheduler_name)))

                async def is_reported() -> bool:
                    found, _ = await api.list(pods)
                    if any(pod["spec"].get("nodeName") for pod in found):
                        raise AssertionError("a gang started in part")
                    return all(pod.get("status", {}).get("conditions") for pod in found)

                await until(is_reported, "the word that the gang does not fit")
                await pause(SETTLE_S)
                return {"shareWithout": alone, "shareWaiting": await share(running.pid)}


async def share(pid: int) -> float:
    """Return the share of a core that a process and its children take over a window."""
    before, since = cpu_seconds(pid), monotonic()
    await pause(WINDOW_S)
    return (cpu_seconds(pid) - before) / (monotonic() - since)


if __name__ == "__main__":
    sys.exit(main())
