"""Generated clusters, scheduled by `simulate` and by the daemon on the sandbox; differences are
explained by name.

    python -m tests.agreement.outcomes --cases 500 [--first SEED]

A case has nodes of two zones, bound pods of low priority, and pending pods of several priorities:
single ones, gangs (PodGroups of the scheduler-plugins, Kueue's pod groups) and workloads, whose
pods the sandbox's controllers make. `simulate` reads the snapshot that `trellis snapshot` writes
before the daemon starts.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from scheduler.config import default_config
from scheduler.engine.attempt.cycle import Ties
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.sandbox.kinds.kinds import PODS
from scheduler.sandbox.manifests import Manifest, apply
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from tests.apiserver.patience import asked
from tests.e2e.livecluster import LiveCluster, daemon, entered

Plain = dict[str, Any]
Outcome = dict[str, str]
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PRIORITIES = {"low": 0, "middle": 10, "high": 100}
GANGS = ("PodGroup", "Kueue")
SPREAD = "didn't match pod topology spread constraints"


def manifests(seed: int, namespace: str) -> list[Plain]:
    """Return the objects of a case in the order of their creation."""
    return [*_cluster(Random(f"cluster {seed}"), namespace), *_pending(Random(seed), namespace)]


def _object(kind: str, version: str, name: str, namespace: str = "", **more: Any) -> Plain:
    meta: Plain = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, **more}


def _cluster(random: Random, namespace: str) -> list[Plain]:
    made = [
        _object("PriorityClass", "scheduling.k8s.io/v1", name, value=value)
        for name, value in PRIORITIES.items()
    ]
    for number in range(random.randint(2, 5)):
        name = f"n{number}"
        amounts = {"cpu": str(random.choice((2, 4, 8))), "memory": "16Gi", "pods": "20"}
        node = _object("Node", "v1", name, status={"capacity": amounts, "allocatable": amounts})
        node["metadata"]["labels"] = {HOST: name, ZONE: f"z{number % 2}"}
        made.append(node)
        if random.random() < 0.5:
            pod = _pod(random, f"old-{number}", namespace, priority="low")
            pod["spec"]["nodeName"] = name
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
            made.append(pod)
    return made


def _spec(random: Random, priority: str = "") -> Plain:
    spec: Plain = {
        "schedulerName": "trellis",
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": priority or random.choice(tuple(PRIORITIES)),
        "containers": [
            {
                "name": "c",
                "image": "x",
                "resources": {"requests": {"cpu": random.choice(("500m", "1", "2", "3"))}},
            }
        ],
    }
    selector = {"labelSelector": {"matchLabels": {"app": random.choice("xy")}}}
    chosen = random.randint(0, 5)
    if chosen == 1:
        term = {"topologyKey": HOST, **selector}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        spec["affinity"] = {"podAntiAffinity": rule}
    elif chosen == 2:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [spread | selector]
    elif chosen == 3:
        spec["nodeSelector"] = {ZONE: "z0"}
    return spec


def _pod(random: Random, name: str, namespace: str, priority: str = "") -> Plain:
    pod = _object("Pod", "v1", name, namespace, spec=_spec(random, priority))
    pod["metadata"]["labels"] = {"app": random.choice("xy")}
    return pod


def _pending(random: Random, namespace: str) -> list[Plain]:
    made = [_pod(random, f"p{at}", namespace) for at in range(random.randint(1, 5))]
    for number in range(random.randint(0, 2)):
        made += _gang(random, f"g{number}", namespace)
    for number in range(random.randint(0, 2)):
        made.append(_workload(random, f"w{number}", namespace))
    return made


def _gang(random: Random, name: str, namespace: str) -> list[Plain]:
    size, kind = random.randint(2, 4), random.choice(GANGS)
    made = []
    spec = _spec(random)
    for pod in (_pod(random, f"{name}-{at}", namespace) for at in range(size)):
        pod["spec"] = msgspec.json.decode(msgspec.json.encode(spec))
        meta = pod["metadata"]
        if kind == "Kueue":
            meta["labels"]["kueue.x-k8s.io/pod-group-name"] = name
            meta["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(size)}
        else:
            meta["labels"]["scheduling.x-k8s.io/pod-group"] = name
        made.append(pod)
    if kind == "PodGroup":
        group = _object("PodGroup", "scheduling.x-k8s.io/v1alpha1", name, namespace)
        made.insert(0, group | {"spec": {"minMember": size}})
    return made


def _workload(random: Random, name: str, namespace: str) -> Plain:
    labels = {"app": random.choice("xy"), "of": name}
    template = {"metadata": {"labels": labels}, "spec": _spec(random)}
    kind = random.choice(("Deployment", "StatefulSet", "DaemonSet", "Job"))
    spec: Plain = {"template": template}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
        spec["parallelism"] = random.randint(1, 3)
    else:
        spec["selector"] = {"matchLabels": {"of": name}}
    if kind in ("Deployment", "StatefulSet"):
        spec["replicas"] = random.randint(1, 3)
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return _object(kind, version, name, namespace, spec=spec)


def predicted(snapshot: bytes, namespace: str) -> tuple[Outcome, bool]:
    """Return the node of each pod by `simulate` ('' for none), and whether pods must be evicted for
    it.
    """
    registry = Registry(IN_TREE)
    cluster = read_snapshot(items_of(SourceFile("snapshot", snapshot)))
    found = simulate(
        cluster, Setup(default_config(registry), registry), AnswerOptions(ties=Ties.UID)
    )
    pods = [one for one in found.pods if one.namespace == namespace]
    return {one.name: one.node or "" for one in pods}, any(one.victims for one in pods)


def settled(snapshot: bytes, namespace: str, found: Outcome) -> bool:
    """Return whether `simulate` of the final cluster moves no pod and evicts none."""
    again, preempts = predicted(snapshot, namespace)
    return not preempts and all(node == found.get(name, "") for name, node in again.items())


def partly_bound(found: Outcome) -> list[str]:
    """Return the gangs that are bound in part."""
    gangs: dict[str, set[bool]] = {}
    for name, node in found.items():
        if name[0] == "g":
            gangs.setdefault(name.partition("-")[0], set()).add(bool(node))
    return sorted(name for name, states in gangs.items() if len(states) > 1)


def placed_of(outcome: Outcome, priorities: Mapping[str, int]) -> Counter[int]:
    """Return how many pods are placed by priority."""
    return Counter(priorities.get(name, 0) for name, node in outcome.items() if node)


def priorities_in(sandbox: Sandbox, namespace: str) -> dict[str, int]:
    """Return the priority of each pod."""
    stored = sandbox.store.list(PODS, namespace)
    return {one.name: int(one.obj["spec"].get("priority") or 0) for one in stored}


def refused_by_spread(sandbox: Sandbox, namespace: str) -> set[str]:
    """Return the pods whose condition names a node that topology spread constraints reject."""
    return {
        stored.name
        for stored in sandbox.store.list(PODS, namespace)
        for one in stored.obj["status"].get("conditions") or ()
        if one["type"] == "PodScheduled" and SPREAD in (one.get("message") or "")
    }


def now_there(sandbox: Sandbox, cluster: LiveCluster, names: Outcome) -> tuple[Outcome, bool]:
    """Return the node of each pod of the sandbox, and whether all pods are decided.

    All groups are complete: a member that waits for its group belongs to a PodGroup that the daemon
    has not listed yet.
    """
    nodes, decided = dict.fromkeys(names, ""), True
    for stored in sandbox.store.list(PODS, cluster.ns):
        if stored.name not in names:
            continue
        node = stored.obj["spec"].get("nodeName", "")
        nodes[stored.name] = node
        conditions = stored.obj["status"].get("conditions") or ()
        decided &= bool(node) or any(
            one["type"] == "PodScheduled" and one.get("reason") != "WaitingForGroup"
            for one in conditions
        )
    return nodes, decided


async def compare(seed: int, folder: Path, patience: int = 100) -> str:
    """Return how the daemon's outcome differs from that of `simulate`: '' or the name of the
    difference.
    """
    options = SandboxOptions(shape=plain_shape(0), kubeconfig=folder / "kubeconfig", lazy=True)
    async with Sandbox(options) as sandbox, entered(folder / "kubeconfig") as cluster:
        for obj in manifests(seed, cluster.ns):
            apply(sandbox.store, Manifest(obj, f"seed {seed}"))
        sandbox.turns.tick()
        _, out, _ = await cluster.run("snapshot")
        wanted, preempts = await asyncio.to_thread(predicted, out.encode(), cluster.ns)
        left = patience

        async def look() -> tuple[Outcome, bool]:
            return now_there(sandbox, cluster, wanted)

        def is_done(found: tuple[Outcome, bool]) -> bool:
            nonlocal left
            left -= found[1]
            return found[0] == wanted or left <= 0

        async with daemon(cluster, folder):
            found, _ = await asked(look, is_done, f"the pods of seed {seed}")
        if found == wanted:
            return ""
        _, out, _ = await cluster.run("snapshot")
        at_rest = await asyncio.to_thread(settled, out.encode(), cluster.ns, found)
        priorities = priorities_in(sandbox, cluster.ns)
        by_spread = refused_by_spread(sandbox, cluster.ns)
    has_gangs = any(name[0] == "g" for name in wanted)
    reason = _reason(preempts=preempts, has_gangs=has_gangs)
    differing = {name: (node, found[name]) for name, node in wanted.items() if found[name] != node}
    if why := objection(wanted, found, priorities, at_rest=at_rest, by_spread=by_spread):
        return f"unexplained, {why}: {json.dumps(differing)}"
    if reason and objection(wanted, found, priorities, at_rest=at_rest):
        return "explained: spread constraints count pods that later decisions placed elsewhere"
    return reason or f"unexplained: {json.dumps(differing)}"


def _reason(*, preempts: bool, has_gangs: bool) -> str:
    """Return the name of the reason why two outcomes may differ, '' if they must be equal."""
    if preempts:
        # In a simulation victims terminate at once. In a cluster other pods are scheduled before
        # they terminate.
        return "explained: pods were decided on while victims were leaving"
    if has_gangs:
        # The simulation waits for the plan of a group; the daemon plans it in a process of its own.
        return "explained: pods were decided on while a group was planned"
    return ""


def objection(
    wanted: Outcome,
    found: Outcome,
    priorities: Mapping[str, int],
    *,
    at_rest: bool,
    by_spread: Collection[str] = (),
) -> str:
    """Return why no order of decisions explains a difference, '' if an order may.

    The daemon's outcome must be one that `simulate` would leave unchanged, without a partial gang,
    and with as many pods of the highest priority as in the simulation: later decisions cannot take
    their capacity. Later decisions can change which domain has the fewest pods: a pod in
    `by_spread`, rejected by its spread constraints, may be missing.
    """
    if not at_rest:
        return "simulate of the final cluster changes it"
    if parts := partly_bound(found):
        return f"in part: {', '.join(parts)}"
    before, after = placed_of(wanted, priorities), placed_of(found, priorities)
    highest = max((*before, *after), default=0)
    lost = {name for name, node in wanted.items() if node and not found[name]}
    is_by_spread = {name for name in lost if priorities.get(name, 0) == highest} <= set(by_spread)
    if after[highest] < before[highest] and not is_by_spread:
        return f"{before[highest] - after[highest]} fewer of priority {highest}"
    return ""


async def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    for seed in range(chosen.first, chosen.first + chosen.cases):
        with tempfile.TemporaryDirectory() as folder:
            found = await compare(seed, Path(folder))
        counts[found.partition(": {")[0].partition(", ")[0] or "equal"] += 1
        if found.startswith("unexplained"):
            print(f"seed {seed}: {found}", flush=True)
    print(dict(counts))
    return int(counts["unexplained"] > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
