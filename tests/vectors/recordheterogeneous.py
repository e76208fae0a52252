"""Records the results of kube-scheduler for feasible gangs of heterogeneous members into
`data/workload/differing.json`.

    PATH=.tools/bin:$PATH KUBEBUILDER_ASSETS=.tools/bin python -m tests.vectors.recordheterogeneous
    --cases 24

Each case has two to four nodes and a gang that fills them to the last CPU, so some orders in which
members are tried lead nowhere. It runs twice on a real API server with the gates of groups on.
Kept are the cases in which kube-scheduler, after so many seconds, leaves the gang waiting at least
once.
"""

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from tests.apiserver.patience import pause
from tests.apiserver.realcluster import (
    GROUP_GATES,
    RealCluster,
    start_cluster,
    start_kube_scheduler,
)
from tests.vectors.frame import DATA

Json = dict[str, Any]
FILE = DATA / "workload" / "unlike.json"
CORE, GROUPS = "/api/v1", "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
PODS, NODES = f"{CORE}/namespaces/default/pods", f"{CORE}/nodes"
ABOUT = (
    "{members} members of {sizes} CPUs fill nodes of {nodes} CPUs to the last one. "
    "kube-scheduler tries them in some order without turning back."
)


def case(number: int, seed: int) -> Json:
    """Return a case: nodes, a group, and members of which several differ."""
    rng = Random(f"unlike {seed}/{number}")
    nodes, sizes = [0], [0]
    while not 3 <= len(sizes) <= 6 or len(set(sizes)) < 2:
        nodes = [rng.randint(3, 8) for _ in range(rng.randint(2, 4))]
        sizes = [size for cpus in nodes for size in _pieces(rng, cpus)]
    rng.shuffle(sizes)
    name = f"u{number}"
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": len(sizes)}}},
    }
    return {
        "id": f"unlike-{number}",
        "family": "unlike",
        "seed": seed,
        "about": ABOUT.format(members=len(sizes), sizes=sizes, nodes=nodes),
        "objects": [
            *(_node(f"{name}-n{at}", cpus) for at, cpus in enumerate(nodes)),
            group,
            *(_pod(name, at, size) for at, size in enumerate(sizes)),
        ],
        "steps": [],
        "gates": list(GROUP_GATES[:4]),
    }


def _pieces(rng: Random, cpus: int) -> list[int]:
    first = rng.randint(1, cpus)
    return [one for one in (first, cpus - first) if one]


def _node(name: str, cpus: int) -> Json:
    amounts = {"cpu": str(cpus), "memory": "64Gi", "pods": "30"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(group: str, number: int, cpus: int) -> Json:
    requests = {"cpu": f"{cpus}000m", "memory": "128Mi"}
    container = {"name": "c", "image": "registry.example/pause"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{group}-{number}", "namespace": "default", "labels": {}},
        "spec": {
            "schedulerName": "default-scheduler",
            "priority": 0,
            "terminationGracePeriodSeconds": 0,
            "containers": [container | {"resources": {"requests": requests}}],
            "schedulingGroup": {"podGroupName": group},
        },
    }


class CaseCluster:
    """A real cluster on which cases run one after the other."""

    def __init__(self, cluster: RealCluster, seconds: float) -> None:
        self._cluster, self._seconds = cluster, seconds

    async def observe(self, one: Json) -> list[Json]:
        """Return the observation when all are bound, or the time is over; leave nothing."""
        there = []
        for each in one["objects"]:
            kind, name = each["kind"], each["metadata"]["name"]
            path = {"Node": NODES, "PodGroup": GROUPS, "Pod": PODS}[kind]
            self._ask("POST", path, each)
            there.append((kind, f"{path}/{name}"))
        pods = [path for kind, path in there if kind == "Pod"]
        (group,) = (path for kind, path in there if kind == "PodGroup")
        until = monotonic() + self._seconds
        while monotonic() < until:
            if all(self._ask("GET", path)["spec"].get("nodeName") for path in pods):
                break
            await pause(0.5)
        seen = {
            "pods": {f"default/{Path(path).name}": _seen(self._ask("GET", path)) for path in pods},
            "groups": {f"default/{Path(group).name}": _conditions(self._ask("GET", group))},
        }
        # Its finalizer waits for a controller that does not exist.
        self._ask("PATCH", group, {"metadata": {"finalizers": None}})
        for _, path in reversed(there):
            self._ask("DELETE", path)
        return [seen]

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        code, answer = self._cluster.request(method, path, body, content_type=kind)
        if not 200 <= code < 300:
            raise RuntimeError(f"{method} {path}: {code} {answer}")
        found: Json = answer
        return found


def _conditions(found: Json) -> Json:
    return {
        one["type"]: [one["status"], one.get("reason", ""), one.get("message", "")]
        for one in found.get("status", {}).get("conditions", ())
    }


def _seen(pod: Json) -> Json:
    return {
        "node": pod["spec"].get("nodeName"),
        "condition": _conditions(pod).get("PodScheduled"),
        "nominated": pod["status"].get("nominatedNodeName"),
    }


def _bound(seen: list[Json]) -> int:
    return sum(one["node"] is not None for one in seen[0]["pods"].values())


async def record(cases: int, seed: int, seconds: float, say: Callable[[str], None]) -> list[Json]:
    """Return the cases that kube-scheduler leaves waiting in one of two runs."""
    kept = []
    gates = ",".join(f"{gate}=true" for gate in GROUP_GATES)
    with (
        start_cluster() as cluster,
        start_kube_scheduler(cluster, flags=(f"--feature-gates={gates}",)),
    ):
        stage = CaseCluster(cluster, seconds)
        for number in range(cases):
            one = case(number, seed)
            runs = [await stage.observe(one), await stage.observe(one)]
            (group,) = runs[0][0]["groups"]
            members = len(runs[0][0]["pods"])
            say(f"{one['id']}: {[_bound(seen) for seen in runs]} of {members} bound")
            if min(map(_bound, runs)) == members:
                continue
            # The worse first: the compared result is at least the floor.
            expected, again = sorted(runs, key=_bound)
            verdict = {"either": [], "floor": {group: members}, "broken": {}}
            kept.append(one | {"expected": expected, "again": again, "verdicts": [verdict]})
    return kept


def main() -> None:
    """Record and write."""
    parser = argparse.ArgumentParser(
        description="Gangs of heterogeneous members, for kube-scheduler"
    )
    parser.add_argument("--cases", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="until a gang counts as waiting"
    )
    given = parser.parse_args()
    kept = asyncio.run(record(given.cases, given.seed, given.seconds, print))
    FILE.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(kept)} of {given.cases} are left waiting at least once")


if __name__ == "__main__":
    main()
