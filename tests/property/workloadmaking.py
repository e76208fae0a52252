"""Random clusters with Kubernetes' own PodGroups, as cases of the kind that
tests.vectors.workloadinvariants checks.

Each has a family that determines its content: homogeneous gangs, topology keys, heterogeneous
members, evictions, a lifecycle in several steps, many groups that want the same capacity.
"""

from random import Random
from typing import Any

FAMILIES = ("gang", "topology", "unlike", "preemption", "life", "crowd")
RACK, ZONE = "example.com/rack", "example.com/zone"
SPACE = "default"


class _Names:
    """Numbers the created objects, so that creation times and names show the order."""

    def __init__(self) -> None:
        self.made = 0

    def time(self) -> str:
        self.made += 1
        return f"2026-02-01T{self.made // 60:02d}:{self.made % 60:02d}:00Z"


def case(family: str, seed: int) -> dict[str, Any]:
    """Return a case: objects, steps, and the seed that makes it again."""
    rng, names = Random(f"workload {family} {seed}"), _Names()
    racks = rng.randint(1, 3) if family == "topology" else rng.randint(1, 2)
    nodes = [_node(rng, number, racks, family) for number in range(rng.randint(2, 6))]
    objects: list[dict[str, Any]] = list(nodes)
    free = {one["metadata"]["name"]: int(one["status"]["allocatable"]["cpu"]) for one in nodes}
    if family == "preemption" or rng.random() < 0.4:
        objects += _running(rng, free, names, full=family == "preemption")
    homes = [one["spec"].get("nodeName") for one in objects]
    for one in nodes:
        amounts = one["status"]["allocatable"]
        amounts["pods"] = str(homes.count(one["metadata"]["name"]) + rng.choice((1, 2, 30, 30)))
    if family == "preemption" and rng.random() < 0.4:
        objects.append(_budget(rng))
    for number in range(rng.randint(2, 4) if family == "crowd" else rng.randint(1, 2)):
        objects += _group(rng, f"g{number}", names, family)
    if rng.random() < 0.4:
        priority = rng.choice((0, 0, 1, 100))
        objects += [
            _pod(f"s-{at}", rng.randint(1, 2), priority, names) for at in range(rng.randint(1, 3))
        ]
    # Pending pods are visited in random order; groups exist when their pods arrive.
    fixed = [one for one in objects if one["kind"] != "Pod" or "nodeName" in one["spec"]]
    waiting = [one for one in objects if one["kind"] == "Pod" and "nodeName" not in one["spec"]]
    rng.shuffle(waiting)
    objects = fixed + waiting
    steps = _steps(rng, objects, names) if family == "life" else []
    return {"id": f"{family}-{seed}", "family": family, "objects": objects, "steps": steps}


def _node(rng: Random, number: int, racks: int, family: str) -> dict[str, Any]:
    name = f"n{number}"
    labels = {"kubernetes.io/hostname": name, ZONE: "z0"}
    if rng.random() < (0.9 if family == "topology" else 1.0):
        labels[RACK] = f"r{number % racks}"
    if rng.random() < 0.3:
        labels["disk"] = "ssd"
    spec: dict[str, Any] = {}
    if rng.random() < 0.1:
        spec["taints"] = [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]
    amounts = {"cpu": str(rng.randint(1, 4)), "memory": "64Gi", "pods": "30"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _budget(rng: Random) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": SPACE},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": rng.randint(0, 2)},
    }


def _running(
    rng: Random, free: dict[str, int], names: _Names, *, full: bool
) -> list[dict[str, Any]]:
    """Return running ordinary pods and groups, and subtract their requests from `free`."""
    found: list[dict[str, Any]] = []
    share = 0.95 if full else 0.5
    number = 0
    while any(free.values()) and rng.random() < share and number < 8:
        number += 1
        priority = rng.choice((0, 0, 1, 5))
        if rng.random() < 0.5:
            homes = [name for name in free if free[name]]
            home, count = rng.choice(homes), 1
            group = ""
        else:
            group, count = f"r{number}", rng.randint(1, 3)
            mode = rng.choice(("Pod", "PodGroup"))
            found.append(_pod_group(group, rng.randint(1, count), priority, mode=mode))
        for at in range(count):
            homes = [name for name in free if free[name]]
            if not homes:
                break
            home = rng.choice(homes)
            cpu = rng.randint(1, min(2, free[home]))
            free[home] -= cpu
            pod = _pod(f"{group or f'o{number}'}-{at}", cpu, priority, names, group=group)
            pod["spec"]["nodeName"] = home
            pod["status"] = {"phase": "Running", "startTime": names.time()}
            if rng.random() < 0.3:
                pod["metadata"]["labels"] = {"app": "a"}
            found.append(pod)
    return found


def _pod_group(
    name: str, least: int, priority: int, *, mode: str = "", key: str = ""
) -> dict[str, Any]:
    policy: dict[str, Any] = {"gang": {"minCount": least}} if least else {"basic": {}}
    spec: dict[str, Any] = {"schedulingPolicy": policy, "priority": priority}
    if mode:
        spec["disruptionMode"] = mode
    if key:
        spec["schedulingConstraints"] = {"topology": [{"key": key}]}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


def _pod(
    name: str, cpu: int, priority: int, names: _Names, *, group: str = "", space: str = SPACE
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schedulerName": "default-scheduler",
        "priority": priority,
        "containers": [
            {
                "name": "c",
                "image": "registry.example/pause",
                "resources": {"requests": {"cpu": f"{cpu * 1000}m", "memory": "128Mi"}},
            }
        ],
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    meta = {"name": name, "namespace": space, "labels": {}, "creationTimestamp": names.time()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _group(rng: Random, name: str, names: _Names, family: str) -> list[dict[str, Any]]:
    """Return a group and its members, all of which are pending."""
    count = rng.randint(1, 6)
    # Fewer members than the minimum, now and then.
    least = rng.randint(1, count) if rng.random() < 0.9 else count + 1
    if rng.random() < 0.1:
        least = 0
    priority = 100 if family == "preemption" else rng.choice((0, 0, 1, 10))
    key = ""
    if family == "topology" or rng.random() < 0.15:
        key = rng.choice((RACK, RACK, ZONE, "kubernetes.io/hostname", "example.com/unknown"))
    found = [_pod_group(name, least, priority, mode=rng.choice(("", "Pod", "PodGroup")), key=key)]
    cpu = rng.randint(1, 2)
    is_heterogeneous = family == "unlike"
    rule = rng.random()
    for at in range(min(count, 5) if is_heterogeneous else count):
        amount = rng.randint(1, 3) if is_heterogeneous else cpu
        pod = _pod(f"{name}-{at}", amount, priority, names, group=name)
        if rule < 0.15:
            pod["metadata"]["labels"] = {"app": name}
            pod["spec"]["affinity"] = {"podAntiAffinity": _apart(name)}
        elif rule < 0.25:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        elif rule < 0.35 and (not is_heterogeneous or rng.random() < 0.5):
            pod["spec"]["nodeSelector"] = {"disk": "ssd"}
        elif rule < 0.45:
            pod["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        found.append(pod)
    return found


def _apart(name: str) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchLabels": {"app": name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _steps(rng: Random, objects: list[dict[str, Any]], names: _Names) -> list[dict[str, Any]]:
    """Return later events: members are created and deleted, nodes are added, groups arrive."""
    steps: list[dict[str, Any]] = []
    pods = [one for one in objects if one["kind"] == "Pod"]
    groups = [one["metadata"]["name"] for one in objects if one["kind"] == "PodGroup"]
    for number in range(rng.randint(1, 4)):
        what = rng.random()
        if what < 0.35 and pods:
            gone = pods.pop(rng.randrange(len(pods)))
            steps.append({"delete": [["Pod", SPACE, gone["metadata"]["name"]]]})
        elif what < 0.7 and groups:
            group = rng.choice(groups)
            like = next(
                (
                    p
                    for p in pods
                    if p["spec"].get("schedulingGroup", {}).get("podGroupName") == group
                ),
                None,
            )
            cpu, priority = 1, 0
            if like is not None:
                priority = like["spec"]["priority"]
                asked = like["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                cpu = int(asked[:-1]) // 1000
            late = _pod(f"{group}-late{number}", cpu, priority, names, group=group)
            pods.append(late)
            steps.append({"create": [late]})
        elif what < 0.85:
            steps.append({"create": [_node(rng, 10 + number, 2, "life")]})
        else:
            arrived = _group(rng, f"h{number}", names, "life")
            pods += arrived[1:]
            steps.append({"create": arrived})
    return steps
