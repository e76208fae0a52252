"""Small clusters with groups, and the victims for a pod in them, found by trying every choice.

The answer uses no product code. For all rules here, removing pods can only help: cpu, host ports,
and anti-affinity of the preemptor by host and zone.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.podgroup import (
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingGroup,
    SchedulingPolicy,
    WorkloadGroup,
    WorkloadGroupSpec,
)
from scheduler.objects.meta import AnnotatedMeta, LabelSelector, ObjectMeta
from scheduler.objects.node import Node
from scheduler.objects.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, PodStatus
from scheduler.objects.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from tests.property.making import make_node, make_pod, with_meta, with_spec

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
CONFIG_MAP_LABEL, POD_GROUP_LABEL = "sakkara.group.name", "scheduling.x-k8s.io/pod-group"
# The objects that describe a group; a label alone describes none. The last two are Kubernetes' own
# PodGroups, by their mode.
SINGLE, ALL = "PodGroup.v1alpha2", "PodGroup.v1beta1"
KINDS = ("GroupConfigMap", "PodGroup", "", SINGLE, ALL)
OWN = "own "
NEVER = float("inf")
# More victims always weigh more, as in kube-scheduler.
ABOVE_ZERO = 2**31


class SimulatedCluster(NamedTuple):
    """A cluster: `described` are the groups that are evicted as a whole, with the priority of their
    objects.

    Such a priority counts up to that of the pods; the priority of Kubernetes' own groups counts
    alone.
    """

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    descriptions: Sequence[tuple[str, Any]]
    described: dict[str, int | None]
    budgets: Sequence[PodDisruptionBudget]
    preemptor: Pod
    # How many pods a group needs that may shrink.
    needs: Mapping[str, int] = MappingProxyType({})


class Unit(NamedTuple):
    """Pods that are evicted together; `key` is empty for a pod of no group.

    A surplus pod names the other pods of its group in `rest`, and is evicted if they are. `since`
    is when the whole group started, if some of its pods are units of their own.
    """

    key: str
    priority: int
    pods: tuple[Pod, ...]
    rest: str = ""
    since: float = NEVER

    @property
    def start(self) -> float:
        """Return when the first of its pods started."""
        return min(map(start_of, self.pods))

    @property
    def began(self) -> float:
        """Return when its group started, including pods that are units of their own."""
        return min(self.start, self.since)


class Choice(NamedTuple):
    """The victims on a node, and their harm: less is better."""

    victims: frozenset[str]
    harm: tuple[float, ...]


def cluster_of(
    random: Random, *, budgets: bool = True, leaving: bool = True, shrinking: bool = False
) -> SimulatedCluster:
    """Return a cluster in which pods may have to be evicted; with `leaving` some are terminating
    already.

    With `shrinking` most groups have more pods than they need.
    """
    nodes = [
        make_node(f"n{n}", cpu=random.choice([1, 2, 3]), labels={HOSTNAME: f"n{n}", ZONE: zone})
        for n, zone in enumerate(random.choices("ab", k=random.randint(1, 4)))
    ]
    names = [node.metadata.name for node in nodes]
    kinds = (*KINDS, "PodGroup", "PodGroup", "PodGroup") if shrinking else KINDS
    groups = [(f"g{n}", random.choice(kinds)) for n in range(random.randint(1, 3))]
    pods = []
    descriptions: list[tuple[str, Any]] = []
    described: dict[str, int | None] = {}
    needs: dict[str, int] = {}
    for name, kind in groups:
        size = random.randint(1, 4)
        label = {"PodGroup": POD_GROUP_LABEL, SINGLE: "", ALL: ""}.get(kind, CONFIG_MAP_LABEL)
        base = random.choice([-5, 0, 5, 10])
        for number in range(size):
            priority = base if random.random() < 0.8 else random.choice([0, 5, 20])
            pod = _pod(random, f"{name}-{number}", random.choice(names), priority, label)
            if kind in (SINGLE, ALL):
                pod = with_spec(pod, scheduling_group=SchedulingGroup(name))
            pods.append(pod)
        if not kind:
            continue
        reported = None if kind == "PodGroup" else random.choice([base, base, 0, 20])
        if shrinking and kind == "PodGroup":
            size = needs[_key(kind, name)] = random.randint(1, size)
        descriptions.append((kind, describe(kind, name, size, reported)))
        if kind != SINGLE:
            described[_key(kind, name)] = reported
    for number in range(random.randint(0, 5)):
        priority = random.choice([-5, 0, 0, 5, 20])
        pods.append(_pod(random, f"e{number}", random.choice(names), priority))
    random.shuffle(pods)
    if leaving:
        gone = [random.random() < 0.05 for _ in pods]
        pods = [
            with_meta(pod, deletion_timestamp="x") if goes else pod
            for pod, goes in zip(pods, gone, strict=True)
        ]
    covered = [_budget(f"b{n}", random) for n in range(random.choice([0, 1, 2]) if budgets else 0)]
    preemptor = _preemptor(random)
    # Drawn last, so that known seeds keep the rest of their cluster.
    covered = [_with_counted(budget, pods, random) for budget in covered]
    return SimulatedCluster(nodes, pods, descriptions, described, covered, preemptor, needs)


def describe(kind: str, name: str, size: int, priority: int | None) -> Any:
    """Return the object that describes a group."""
    if kind == "PodGroup":
        return PodGroup(AnnotatedMeta(name=name, namespace="default"), PodGroupSpec(size))
    if kind in (SINGLE, ALL):
        mode = "Pod" if kind == SINGLE else {"all": {}}
        gang = SchedulingPolicy(gang=GangPolicy(size))
        spec = WorkloadGroupSpec(gang, disruption_mode=mode, priority=priority)
        return WorkloadGroup(AnnotatedMeta(name=name, namespace="default"), spec)
    meta = ConfigMapMeta(name=name, namespace="default", uid=f"cm-{name}", labels={GROUP_KEY: ""})
    data = {"name": name, "size": str(size), "priority": str(priority), "constraints": "{}"}
    return ConfigMap(meta, data)


def start_of(pod: Pod) -> float:
    """Return when a pod started, infinity if it has not."""
    text = pod.status.start_time
    return datetime.fromisoformat(text).timestamp() if text else NEVER


def units_of(cluster: SimulatedCluster) -> list[Unit]:
    """Return all units: described groups without terminating pods, and single pods."""
    found: dict[str, list[Pod]] = {}
    for pod in cluster.pods:
        key = group_of(pod)
        is_whole = key in cluster.described and not pod.is_terminating
        found.setdefault(key if is_whole else f"pod {pod.key}", []).append(pod)
    units = []
    for key, pods in found.items():
        reported = cluster.described.get(key)
        lowest = min(pod.priority for pod in pods)
        if reported is not None:
            lowest = reported if key.startswith(OWN) else min(lowest, reported)
        units.append(Unit(key, lowest, tuple(pods)))
    return units


def group_of(pod: Pod) -> str:
    """Return the key of a pod's group, if its labels name one."""
    labels, own = pod.metadata.labels, pod.spec.scheduling_group
    if own is not None:
        return _key(ALL, own.pod_group_name)
    name = labels.get(CONFIG_MAP_LABEL) or labels.get(POD_GROUP_LABEL)
    return f"default/{name}" if name else ""


def fits(cluster: SimulatedCluster, node: Node, gone: frozenset[str]) -> bool:
    """Return whether the preemptor fits a node without these pods."""
    pod, name = cluster.preemptor, node.metadata.name
    left = [other for other in cluster.pods if other.metadata.name not in gone]
    here = [other for other in left if other.spec.node_name == name]
    if sum(map(cpu_of, here)) + cpu_of(pod) > 1000 * int(node.status.allocatable["cpu"]):
        return False
    if _ports(pod) and any(_ports(other) for other in here):
        return False
    where = {one.metadata.name: one.metadata.labels for one in cluster.nodes}
    affinity = pod.spec.affinity
    terms = affinity.pod_anti_affinity.required if affinity and affinity.pod_anti_affinity else ()
    for term in terms:
        assert term.label_selector is not None
        app = term.label_selector.match_labels["app"]
        domain = node.metadata.labels[term.topology_key]
        for other in left:
            is_meant = other.metadata.labels.get("app") == app
            if is_meant and where[other.spec.node_name][term.topology_key] == domain:
                return False
    return True


def choices(cluster: SimulatedCluster) -> dict[str, Choice]:
    """Return by node its victims: every set of units is tried.

    Of the sufficient sets, the one is taken that spares the most important unit if any does, then
    the next, and so on; units that violate a budget are spared first.
    """
    found = {}
    for node in cluster.nodes:
        ranked, violating = _ranked(cluster, node.metadata.name)
        # A group's rest comes before its surplus pods.
        protected = {key for key, number in violating.items() if number}
        protected |= {unit.rest for unit in ranked if unit.key in protected}
        order = sorted(ranked, key=lambda unit: unit.key not in protected)
        best = None
        # The first sufficient set spares the most, in order.
        for spared in product((True, False), repeat=len(order)):
            gone = [unit for unit, is_spared in zip(order, spared, strict=True) if not is_spared]
            left = [unit for unit, is_spared in zip(order, spared, strict=True) if is_spared]
            if {unit.rest for unit in left} & {unit.key for unit in gone}:
                continue  # the remaining pods of a group are fewer than it needs
            names = frozenset(pod.metadata.name for unit in gone for pod in unit.pods)
            if fits(cluster, node, names):
                best = gone, names
                break
        if best is not None and best[0]:
            found[node.metadata.name] = Choice(best[1], _harm(best[0], violating))
    return found


def cpu_of(pod: Pod) -> int:
    """Return the cpu that a pod requests, in milli."""
    return 1000 * int(pod.spec.containers[0].resources.requests["cpu"])


def _ranked(cluster: SimulatedCluster, name: str) -> tuple[list[Unit], dict[str, int]]:
    """Return a node's units of lower priority, the most important first, and those that budgets
    protect.
    """
    own = [pod for pod in cluster.pods if pod.spec.node_name == name]
    # Single pods: by priority, then the start; of those that have not started, the last one
    # created.
    came = {pod.metadata.name: at for at, pod in enumerate(own)}

    def alone(pod: Pod) -> tuple[float, ...]:
        at = came[pod.metadata.name]
        return -pod.priority, start_of(pod), -at if start_of(pod) == NEVER else at

    place = {pod.metadata.name: at for at, pod in enumerate(sorted(own, key=alone))}

    def rank(unit: Unit) -> tuple[float, ...]:
        first = min(place[p.metadata.name] for p in unit.pods if p.metadata.name in place)
        in_group = any(group_of(p) and not p.is_terminating for p in unit.pods)
        size, start = (-len(unit.pods), unit.began) if in_group else (0, 0)
        return -unit.priority, not in_group, size, start, first

    here = [
        unit
        for whole in units_of(cluster)
        for unit in _parts(cluster, whole, place)
        if unit.priority < cluster.preemptor.priority
        and any(pod.spec.node_name == name for pod in unit.pods)
    ]
    ranked = sorted(here, key=rank)
    left = {one.metadata.name: one.status.disruptions_allowed for one in cluster.budgets}
    violating = {}
    for unit in ranked:
        violating[unit.key] = sum(_violates(pod, cluster.budgets, left) for pod in unit.pods)
    return ranked, violating


def _parts(cluster: SimulatedCluster, unit: Unit, place: dict[str, int]) -> list[Unit]:
    """Return a unit without the surplus pods of its group on a node, and these."""
    beyond = len(unit.pods) - cluster.needs.get(unit.key, len(unit.pods))
    here = sorted(
        (pod for pod in unit.pods if pod.metadata.name in place),
        key=lambda p: place[p.metadata.name],
    )
    alone = here[max(0, len(here) - beyond) :]
    if not alone:
        return [unit]
    parts = [Unit(f"pod {pod.key}", unit.priority, (pod,), unit.key) for pod in alone]
    if len(alone) < len(here):
        others = tuple(pod for pod in unit.pods if pod not in alone)
        parts.append(Unit(unit.key, unit.priority, others, since=unit.start))
    return parts


def _violates(pod: Pod, budgets: Sequence[PodDisruptionBudget], left: dict[str, int]) -> bool:
    found = False
    for budget in budgets:
        assert budget.spec.selector is not None
        app = budget.spec.selector.match_labels["app"]
        is_counted = pod.metadata.name in budget.status.disrupted_pods
        if pod.metadata.labels.get("app") == app and not is_counted:
            left[budget.metadata.name] -= 1
            found = found or left[budget.metadata.name] < 0
    return found


def _harm(gone: Sequence[Unit], violating: dict[str, int]) -> tuple[float, ...]:
    highest = max(unit.priority for unit in gone)
    return (
        sum(violating[unit.key] for unit in gone),
        highest,
        sum(len(unit.pods) * (unit.priority + ABOVE_ZERO) for unit in gone),
        sum(len(unit.pods) for unit in gone),
        sum(not unit.key.startswith("pod ") for unit in gone),
        -min(unit.began for unit in gone if unit.priority == highest),
    )


def _key(kind: str, name: str) -> str:
    return f"{OWN if kind in (SINGLE, ALL) else ''}default/{name}"


def _ports(pod: Pod) -> bool:
    return any(port.host_port for one in pod.spec.containers for port in one.ports)


def _pod(random: Random, name: str, node: str, priority: int, label: str = "") -> Pod:
    labels = dict(random.choice([{}, {"app": "x"}, {"app": "y"}]))
    if label:
        labels[label] = name.partition("-")[0]
    start = random.choice([None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
    return make_pod(
        name,
        node=node,
        cpu=random.choice([0, 1, 1, 2]),
        priority=priority,
        labels=labels,
        host_port=80 if random.random() < 0.1 else 0,
        scheduler="another",
        status=PodStatus(start_time=start),
    )


def _preemptor(random: Random) -> Pod:
    spec: dict[str, Any] = {}
    if random.random() < 0.4:
        selector = LabelSelector({"app": random.choice("xy")})
        term = PodAffinityTerm(random.choice([HOSTNAME, ZONE]), selector)
        spec["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    port = 80 if random.random() < 0.2 else 0
    return make_pod("boss", cpu=random.choice([1, 1, 2]), priority=10, host_port=port, **spec)


def _budget(name: str, random: Random) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        ObjectMeta(name=name, namespace="default"),
        PodDisruptionBudgetSpec(LabelSelector({"app": random.choice("xy")})),
        PodDisruptionBudgetStatus(random.randint(0, 2)),
    )


def _with_counted(
    budget: PodDisruptionBudget, pods: Sequence[Pod], random: Random
) -> PodDisruptionBudget:
    """Return a budget that, mostly, has counted the eviction of a pod it covers, and of its
    group.
    """
    assert budget.spec.selector is not None
    app = budget.spec.selector.match_labels["app"]
    covered = [pod for pod in pods if pod.metadata.labels.get("app") == app]
    if not covered or random.random() < 0.3:
        return budget
    chosen = random.choice([pod for pod in covered if group_of(pod)] or covered)
    group = group_of(chosen)
    counted = [pod for pod in pods if pod is chosen or (group and group_of(pod) == group)]
    names = {pod.metadata.name: "2026-01-01T00:00:00Z" for pod in counted}
    status = PodDisruptionBudgetStatus(random.choice((0, 0, 1)), names)
    return msgspec.structs.replace(budget, status=status)


def objects_of(cluster: SimulatedCluster) -> Iterator[tuple[str, Any]]:
    """Yield all objects except the preemptor, by kind."""
    yield from (("Node", node) for node in cluster.nodes)
    yield from cluster.descriptions
    yield from (("Pod", pod) for pod in cluster.pods)
    yield from (("PodDisruptionBudget", budget) for budget in cluster.budgets)
