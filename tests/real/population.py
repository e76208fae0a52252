"""The objects on which two schedulers are compared: nodes in pools, pods of many kinds.

It has nearly every reason for a pod not to fit, each in its own pool, so that the counts in a
message do not depend on the placement of fitting pods. The kind of a pod is in its label, and pods
of one kind are equivalent. Everything follows from the sizes; nothing is random.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.perf.workload import NODE, laid_over

Manifest = dict[str, Any]
Spec = dict[str, Any]

KIND = "compare.example/kind"
POOL = "compare.example/pool"
NAMESPACE = "compare"
PATIENT = "patient"
PRIORITY_CLASS = {"metadata": {"name": PATIENT}, "value": 0, "preemptionPolicy": "Never"}
ZONES = ("zone-a", "zone-b", "zone-c")
# Names of resources so long that the message of a pod that requests all of them exceeds 1,024
# bytes.
LONG_NAMES = tuple(f"{letter * 60}.example.com/{letter * 60}" for letter in "abcdefghij")


@dataclass(frozen=True)
class Kind:
    """Equivalent pods; `share` of all pods of its phase, or a fixed `count`."""

    name: str
    spec: Spec
    count: int = 2
    settles: str = "unschedulable"
    labels: dict[str, str] = field(default_factory=dict)


def nodes(count: int) -> Iterator[Manifest]:
    """Yield `count` nodes: the special pools first, then ordinary ones in three zones."""
    special: list[tuple[str, Manifest]] = [
        ("tainted", {"spec": {"taints": [taint("compare.example/only", "NoSchedule")]}}),
        ("cordoned", {"spec": {"unschedulable": True}}),
        ("small", offers(cpu="1")),
        ("small", offers(cpu="1")),
        ("onepod", offers(pods="1")),
        ("ports", {}),
        ("disliked", {"spec": {"taints": [taint("compare.example/avoid", "PreferNoSchedule")]}}),
        ("evicting", {"spec": {"taints": [taint("compare.example/out", "NoExecute")]}}),
    ]
    for number in range(count):
        pool, patch = special[number] if number < len(special) else ("general", {})
        name = f"node-{number:05d}"
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": ZONES[number % 3],
            POOL: pool,
            "compare.example/number": str(number),
        }
        yield laid_over(NODE, laid_over({"metadata": {"name": name, "labels": labels}}, patch))


def big_node() -> Manifest:
    """Return a node on which all the greedy pods fit, in whatever order they are tried."""
    labels = {"kubernetes.io/hostname": "big", POOL: "big"}
    return laid_over(
        NODE,
        laid_over({"metadata": {"name": "big", "labels": labels}}, offers(cpu="400")),
    )


def fitting(pods: int) -> list[Kind]:
    """Return the kinds that are placed at once; ordinary ones fill up to `pods` in total."""
    kinds = [
        Kind("in-zone", in_pool("general") | {"affinity": affinity(required=zone_in("zone-a"))}),
        Kind("prefers-zone", in_pool("general") | {"affinity": affinity(preferred="zone-b")}),
        Kind("tolerates", in_pool("tainted") | tolerating("compare.example/only"), count=1),
        Kind("fills-small", in_pool("small") | asking(cpu="1")),
        Kind("fills-onepod", in_pool("onepod"), count=1),
        Kind("takes-port", in_pool("ports") | host_port(8080), count=1),
        Kind("no-requests", in_pool("general") | asking()),
    ]
    settled = [Kind(k.name, k.spec, k.count, "bound", k.labels) for k in kinds]
    rest = pods - sum(kind.count for kind in settled)
    return [Kind("plain", in_pool("general"), max(rest, 0), "bound"), *settled]


def waiting() -> list[Kind]:
    """Return the kinds that do not fit, at least one for each reason."""
    nowhere = {"nodeSelector": {"compare.example/nowhere": "true"}}
    reasons = [
        Kind("too-much-cpu", asking(cpu="100")),
        Kind("too-much-memory", asking(memory="1Ti")),
        Kind("too-much-of-both", asking(cpu="100", memory="1Ti")),
        Kind("no-such-resource", asking(**{"compare.example/gpu": "1"})),
        Kind("many-long-resources", asking(**dict.fromkeys(LONG_NAMES, "1"))),
        Kind("small-is-full", in_pool("small") | asking(cpu="1")),
        Kind("onepod-is-full", in_pool("onepod")),
        Kind("tainted", in_pool("tainted")),
        Kind("evicting", in_pool("evicting")),
        Kind("cordoned", in_pool("cordoned")),
        Kind("port-taken", in_pool("ports") | host_port(8080), count=1),
        Kind("nowhere", nowhere),
        Kind("nowhere-by-affinity", {"affinity": affinity(required=zone_in("zone-x"))}),
        Kind("number-out-of-range", {"affinity": affinity(required=number_above("100000"))}),
        Kind("unknown-name", {"affinity": affinity(fields="no-such-node")}),
        Kind("name-of-tainted", {"affinity": affinity(fields="node-00000")}),
        Kind("never-preempts", nowhere | {"priorityClassName": PATIENT}),
        Kind("many-reasons", host_port(8080, {"cpu": "100"})),
        Kind("gated", in_pool("general") | gates("compare.example/go"), settles="gated"),
        Kind("gated-twice", nowhere | gates("compare.example/a", "compare.example/b")),
        Kind("bad-preference", {"affinity": affinity(preferred_above="x")}, settles="error"),
    ]
    return [
        Kind(k.name, k.spec, k.count, "gated" if "gated" in k.name else k.settles, k.labels)
        for k in reasons
    ]


def pods(kinds: list[Kind], scheduler_name: str) -> Iterator[Manifest]:
    """Yield the pods of these kinds, named after them."""
    for kind in kinds:
        for number in range(kind.count):
            spec = {"schedulerName": scheduler_name, "containers": [container()]}
            yield {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{kind.name}-{number:05d}",
                    "namespace": NAMESPACE,
                    "labels": {KIND: kind.name, **kind.labels},
                },
                "spec": laid_over(spec, kind.spec),
            }


def container(requests: dict[str, str] | None = None, **more: Any) -> Manifest:
    """Return the only container of every pod here."""
    asked = {"cpu": "10m", "memory": "16Mi"} if requests is None else requests
    resources: Manifest = {"requests": asked}
    extended = {name: amount for name, amount in asked.items() if "/" in name}
    if extended:
        resources["limits"] = extended
    return {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources, **more}


def asking(**requests: str) -> Spec:
    """Return a spec that requests these amounts and nothing else."""
    return {"containers": [container(requests)]}


def host_port(port: int, requests: dict[str, str] | None = None) -> Spec:
    """Return a spec that takes a port of its node, and some amounts."""
    ports = [{"containerPort": port, "hostPort": port}]
    return {"containers": [container(requests, ports=ports)]}


def in_pool(pool: str) -> Spec:
    """Return a spec that selects a pool."""
    return {"nodeSelector": {POOL: pool}}


def tolerating(key: str) -> Spec:
    """Return a spec that tolerates a taint."""
    return {"tolerations": [{"key": key, "operator": "Exists"}]}


def gates(*names: str) -> Spec:
    """Return a spec with scheduling gates."""
    return {"schedulingGates": [{"name": name} for name in names]}


def affinity(
    *,
    required: Manifest | None = None,
    preferred: str = "",
    preferred_above: str = "",
    fields: str = "",
) -> Manifest:
    """Return node affinity: a required expression, a preferred zone or number, or a node's name."""
    terms: Manifest = {}
    if required is not None:
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchExpressions": [required]}]
        }
    if fields:
        expression = {"key": "metadata.name", "operator": "In", "values": [fields]}
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": [{"matchFields": [expression]}]
        }
    wanted = zone_in(preferred) if preferred else None
    wanted = number_above(preferred_above) if preferred_above else wanted
    if wanted is not None:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": 10, "preference": {"matchExpressions": [wanted]}}
        ]
    return {"nodeAffinity": terms}


def zone_in(zone: str) -> Manifest:
    """Return an expression for one zone."""
    return {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}


def number_above(number: str) -> Manifest:
    """Return an expression for nodes with a higher number."""
    return {"key": "compare.example/number", "operator": "Gt", "values": [number]}


def taint(key: str, effect: str) -> Manifest:
    """Return a taint without a value."""
    return {"key": key, "effect": effect}


def offers(**amounts: str) -> Manifest:
    """Return a patch of a node's allocatable amounts."""
    return {"status": {"capacity": amounts, "allocatable": amounts}}
