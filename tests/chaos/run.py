"""Inject faults into the real API server: `python -m tests.chaos.run --faults 1000 --seed 1`.

Two daemons as processes of their own, a bad network between them and a real kube-apiserver,
signals, and restarts of the server itself. Prints a table; the exit code is 1 when an invariant was
broken.
"""

import argparse
import asyncio
import contextlib
import json
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import yaml

from tests.apiserver.patience import pause, until
from tests.apiserver.processes import running
from tests.apiserver.realcluster import RealCluster, start_cluster
from tests.chaos.auditor import PODS, Auditor
from tests.chaos.network import Network, Refusal
from tests.real.api import Api, ApiError
from tests.real.audit import Audit
from tests.real.schedulers import Running, Trellis, leading
from tests.simulated.groupcapacity import POD_GROUP

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CRD = Path(__file__).parents[2] / "crds" / "podgroups.yaml"
NODES = 12
REFUSALS = (
    Refusal(404, "NotFound"),
    Refusal(403, "Forbidden"),
    Refusal(500, "InternalError"),
    Refusal(503, "ServiceUnavailable"),
    Refusal(429, "TooManyRequests", retry_after_s=1),
    Refusal(429, "TooManyRequests", retry_after_s=600),
    Refusal(504, "Timeout", is_carried_out=True),
)
PREFIXES = ("/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces/default/pods", "/apis/", "/api")
CONFIG = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            # With a configuration file groups are off unless it names their plugin.
            "plugins": {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}},
        }
    ]
}


class Campaign:
    """The daemons, the network, the users' actions, and the faults."""

    def __init__(
        self, cluster: RealCluster, network: Network, api: Api, auditor: Auditor, dice: Random
    ) -> None:
        self._cluster = cluster
        self._apiserver = cluster.apiserver
        self._network = network
        self._api = api
        self._auditor = auditor
        self._dice = dice
        self._stack = contextlib.ExitStack()
        self._daemons: dict[int, Running] = {}
        self._number = 0
        self.groups: dict[str, int] = {}
        self.made: set[str] = set()
        self.faults: Counter[str] = Counter()

    # Daemons

    def keep_running(self) -> None:
        """Start each daemon that does not run."""
        for gate in range(len(self._network.gates)):
            if gate not in self._daemons or self._daemons[gate].has_ended():
                kubeconfig = self._network.kubeconfig(self._cluster.folder, gate)
                config = {**CONFIG, **leading(6, 4, 1, kubeconfig)}
                started = Trellis().start(self._cluster, config)
                self._daemons[gate] = self._stack.enter_context(started)

    def close(self) -> None:
        """Stop all running processes."""
        for one in self._daemons.values():
            one.send(signal.SIGCONT)
        self._stack.close()

    # User actions

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as a user who retries while the server is down."""
        while True:
            try:
                code, answer = await self._api.request(method, path, body)
            except (aiohttp.ClientError, ConnectionError):
                await pause(0.2)
                continue
            if code == 409 or (method == "DELETE" and code == 404):
                return None  # the previous request, whose answer was lost, did it
            if 200 <= code < 300:
                return answer
            if code not in (403, 404, 429, 500, 503, 504):
                raise ApiError(f"{method} {path}: {code} {answer}")
            await pause(0.2)

    async def prepare(self) -> None:
        """Make nodes, a class of urgent pods, and the kind of groups."""
        await self._ask("POST", DEFINITIONS, yaml.safe_load(CRD.read_text()))
        await self._ask("POST", CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        for number in range(NODES):
            capacity = {"cpu": "8", "memory": "64Gi", "pods": "110"}
            meta = {"name": f"n{number:02}", "labels": {"kubernetes.io/hostname": f"n{number:02}"}}
            body = {"metadata": meta, "status": {"capacity": capacity, "allocatable": capacity}}
            await self._ask("POST", "/api/v1/nodes", body)
        await until(lambda: len(self._auditor.history.nodes) == NODES, "the nodes")

    async def _pod(self, cpu: str, group: str = "", **spec: Any) -> None:
        self._number += 1
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        meta = {"name": f"p{self._number}", "labels": {POD_GROUP: group} if group else {}}
        # There are no kubelets: a deleted pod is removed at once.
        whole = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
        made = await self._ask("POST", PODS, {"metadata": meta, "spec": whole})
        if made is not None:
            self.made.add(made["metadata"]["uid"])

    async def work(self) -> None:
        """Perform one user action."""
        act = self._dice.choice(("gang", "pods", "pods", "urgent", "end", "end", "label"))
        if act == "gang":
            self._number += 1
            name, cpu = f"g{self._number}", self._dice.choice(("1", "1500m", "350m"))
            await self._ask("POST", GROUPS, group(name))
            for _ in range(8):
                await self._pod(cpu, name)
            self.groups[name] = 8
        elif act == "pods":
            for _ in range(self._dice.randint(1, 6)):
                await self._pod(self._dice.choice(("500m", "2", "350m")))
        elif act == "urgent":
            await self._pod(self._dice.choice(("1", "3")), priorityClassName="urgent")
        elif act == "end":
            bound = [pod for pod in self._auditor.pods.values() if pod["spec"].get("nodeName")]
            for pod in self._dice.sample(bound, min(3, len(bound))):
                await self._end(pod["metadata"].get("labels", {}).get(POD_GROUP), pod)
        else:
            name = f"n{self._dice.randrange(NODES):02}"
            label = {"metadata": {"labels": {"touched": str(self._number)}}}
            with contextlib.suppress(aiohttp.ClientError, ApiError):
                await self._api.patch(f"/api/v1/nodes/{name}", label)

    async def _end(self, name: str | None, pod: dict[str, Any]) -> None:
        """Delete a pod, and with `name` all pods of that group."""
        self.groups.pop(name or "", None)
        for uid, one in list(self._auditor.pods.items()):
            mine = one["metadata"].get("labels", {}).get(POD_GROUP)
            if uid == pod["metadata"]["uid"] or (name and mine == name):
                self._auditor.taken.add(uid)
                body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                await self._ask("DELETE", f"{PODS}/{one['metadata']['name']}", body)

    # Faults

    async def fault(self) -> None:
        """Cause one temporary fault."""
        kinds = ("cut", "silence", "lose", "no answer", "refuse", "late", "stop", "kill", "term")
        weights = (6, 4, 4, 4, 8, 3, 2, 2, 1)
        chosen = self._dice.choices((*kinds, "server"), (*weights, 0.15))[0]
        number = self._dice.randrange(len(self._network.gates))
        gate, daemon = self._network.gates[number], self._daemons[number]
        self.faults[chosen] += 1
        lasts_s = self._dice.choice((0.2, 0.5, 1.0, 3.0))
        if chosen == "cut":
            gate.cut()
        elif chosen == "silence":
            gate.flows.clear()
            await pause(lasts_s)
        elif chosen == "lose":
            gate.lost = 0.3
            await pause(lasts_s)
        elif chosen == "no answer":
            gate.unanswered = 0.3
            await pause(lasts_s)
        elif chosen == "refuse":
            gate.refusals[self._dice.choice(PREFIXES)] = self._dice.choice(REFUSALS)
            await pause(lasts_s)
        elif chosen == "late":
            gate.late_s = 2.0
            await pause(lasts_s)
        elif chosen == "stop":
            daemon.send(signal.SIGSTOP)
            await pause(self._dice.choice((0.5, 5.0, 9.0)))
            daemon.send(signal.SIGCONT)
        elif chosen == "kill":
            await daemon.kill()
        elif chosen == "term":
            daemon.send(signal.SIGTERM)
        else:
            await self._restart_server()
        gate.heal()
        self.keep_running()

    async def _restart_server(self) -> None:
        """Kill the API server and restart it with the data of etcd."""
        self._apiserver.process.kill()
        self._apiserver.process.wait()
        words = [str(word) for word in self._apiserver.process.args]  # type: ignore[union-attr]
        log = self._apiserver.log
        self._apiserver = self._stack.enter_context(running("kube-apiserver", words, log))
        await self._ask("GET", "/api/v1/namespaces/default")


def group(name: str) -> dict[str, Any]:
    """Return a PodGroup of eight."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 8},
    }


async def run_faults(cluster: RealCluster, audit: Audit, faults: int, seed: int) -> dict[str, Any]:
    """Cause this many faults; return the events, with `broken` by invariant."""
    dice = Random(seed)
    network = Network(cluster, 2, Random(seed))
    async with Api(cluster) as api, network.running():
        auditor = Auditor(api, audit)
        campaign = Campaign(cluster, network, api, auditor, dice)
        async with auditor.watching():
            await campaign.prepare()
            campaign.keep_running()
            try:
                for number in range(faults):
                    await campaign.work()
                    await campaign.fault()
                    if number % 50 == 49:
                        print(f"{number + 1} faults, {auditor.history.binds} binds", flush=True)
                took_s = await until(lambda: not auditor.open(campaign.groups), "rest", 120)
                await pause(5)
            finally:
                campaign.close()
        broken = {
            invariant: found for invariant, found in auditor.verdict(campaign.made).items() if found
        }
    return {
        "faults": dict(campaign.faults.most_common()),
        "befell requests": dict(network.injected.most_common()),
        "pods made": len(campaign.made),
        "binds": auditor.history.binds,
        "pods evicted": len(auditor.gone.keys() - auditor.taken),
        "seconds from the last fault to rest": round(took_s, 1),
        "groups in part": auditor.open(campaign.groups),
        "broken": broken,
    }


def main(arguments: list[str]) -> int:
    """Run a campaign and print its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="a fresh one without")
    asked = parser.parse_args(arguments)
    seed = asked.seed if asked.seed is not None else secrets.randbelow(10**9)
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        audit = Audit(
            Path(folder), {"verbs": ["create"], "resources": [{"resources": ["pods/binding"]}]}
        )
        with start_cluster(audit.flags, name="chaos") as cluster:
            reported = asyncio.run(run_faults(cluster, audit, asked.faults, seed))
    print(json.dumps(reported | {"seconds": round(time.monotonic() - began)}, indent=2))
    return 1 if reported["broken"] or reported["groups in part"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
