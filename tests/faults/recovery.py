"""`Recovery`: a group from any source whose members finish, fail and are lost in any order.

Controllers recreate lost members, and failed ones if they own them. The process dies at any moment,
or fails over to a standby. If nodes have capacity for all, every existing member must be bound.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.podgroup import (
    CompositeGangPolicy,
    CompositeGroupSpec,
    CompositePodGroup,
    CompositePolicy,
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingGroup,
    SchedulingPolicy,
    WorkloadGroup,
    WorkloadGroupSpec,
    WorkloadReference,
)
from scheduler.objects.meta import AnnotatedMeta, OwnerReference
from scheduler.objects.pod import Pod, PodAnnotations
from tests.faults import groupsources
from tests.faults.test_group_lifecycle import Killer
from tests.property.making import make_node, make_pod, with_meta, with_spec
from tests.property.model_api import KINDS

COMPOSITE = "CompositePodGroup"
RECOVERY_KINDS = (*KINDS, *groupsources.KINDS, COMPOSITE)
NODES = tuple(f"n{number}" for number in range(4))
JOB = OwnerReference("batch/v1", "Job", "job", "uid-job", controller=True)


class SourceScenario(NamedTuple):
    """A source of groups: its objects for a minimum, and a member as the source names its group."""

    objects: Callable[[int], Iterator[tuple[str, Any]]]
    join: Callable[[Pod, int, int], Pod]
    has_more: bool = True


def _about(name: str) -> AnnotatedMeta:
    return AnnotatedMeta(name=name, namespace="default", uid=f"uid-{name}")


def _labelled(label: str) -> Callable[[Pod, int, int], Pod]:
    return lambda pod, _slot, _count: with_meta(pod, labels={label: "g"})


def _config_map(least: int) -> Iterator[tuple[str, Any]]:
    meta = ConfigMapMeta(name="g", namespace="default", uid="uid-g", labels={GROUP_KEY: ""})
    data = {"name": "g", "size": str(least), "constraints": "{}"}
    yield "GroupConfigMap", ConfigMap(meta, data)


def _own(kind: str) -> Callable[[int], Iterator[tuple[str, Any]]]:
    def objects(least: int) -> Iterator[tuple[str, Any]]:
        yield kind, WorkloadGroup(_about("g"), WorkloadGroupSpec(_gang(least)))

    return objects


def _gang(least: int) -> SchedulingPolicy:
    return SchedulingPolicy(gang=GangPolicy(least))


def _composite(least: int) -> Iterator[tuple[str, Any]]:
    """Yield a root that needs both of its groups, each of which needs `least` pods."""
    of = WorkloadReference("w", "t")
    policy = CompositePolicy(gang=CompositeGangPolicy(2))
    yield (
        COMPOSITE,
        CompositePodGroup(
            _about("root"), CompositeGroupSpec(scheduling_policy=policy, workload_ref=of)
        ),
    )
    for number in range(2):
        spec = WorkloadGroupSpec(
            _gang(least), parent_composite_pod_group_name="root", workload_ref=of
        )
        yield "PodGroup.v1beta1", WorkloadGroup(_about(f"g{number}"), spec)


def _in_tree(pod: Pod, slot: int, _count: int) -> Pod:
    return with_spec(pod, scheduling_group=SchedulingGroup(f"g{slot % 2}"))


def _in_kueue(pod: Pod, _slot: int, count: int) -> Pod:
    return groupsources.joined_in_kueue(pod, "g", PodAnnotations(kueue_total=str(count)))


def _named(pod: Pod, _slot: int, _count: int) -> Pod:
    return with_spec(pod, scheduling_group=SchedulingGroup("g"))


def _other_source(kind: str) -> SourceScenario:
    return SourceScenario(
        lambda least: iter([(kind, groupsources.made(kind, _about("g"), least, None))]),
        lambda pod, _slot, _count: groupsources.joined(kind, pod, "g"),
    )


SOURCE_SCENARIOS = {
    "ConfigMap": SourceScenario(_config_map, _labelled("sakkara.group.name"), has_more=False),
    "Coscheduling": SourceScenario(
        lambda least: iter([("PodGroup", PodGroup(_about("g"), PodGroupSpec(least)))]),
        _labelled("scheduling.x-k8s.io/pod-group"),
    ),
    "PodGroup 1.36": SourceScenario(_own("PodGroup.v1alpha2"), _named),
    "PodGroup 1.37": SourceScenario(_own("PodGroup.v1beta1"), _named),
    "Composite": SourceScenario(_composite, _in_tree),
    "Volcano": _other_source(groupsources.VOLCANO),
    "AppGroup": _other_source(groupsources.APP_GROUP),
    "Kueue": SourceScenario(lambda _least: iter(()), _in_kueue, has_more=False),
}


class Recovery(Killer):
    """One group whose members have slots; a slot ends when its member has finished for good."""

    def __init__(self, source: str, random: Random) -> None:
        self.scenario, self.random = SOURCE_SCENARIOS[source], random
        self.least = random.randint(1, 3)
        groups = 2 if source == "Composite" else 1
        more = random.randrange(3) if self.scenario.has_more else 0
        self.slots = groups * (self.least + more)
        self.is_owned = random.random() < 0.5
        self.over: set[int] = set()
        self.made = 0
        self.name_of: dict[int, str] = {}
        super().__init__(is_hot=random.random() < 0.5, kinds=RECOVERY_KINDS)
        self.add_nodes()
        for kind, obj in self.scenario.objects(self.least):
            self.api.put(kind, obj)

    def add_nodes(self) -> None:
        """Add all nodes, with capacity for a third of the members each."""
        for name in NODES:
            if name not in self.api.nodes:
                self.api.put("Node", make_node(name, cpu=1 + self.slots // 3))

    def pod_of(self, slot: int) -> Pod | None:
        """Return the member in a slot that waits or runs."""
        return self.api.pods.get(f"default/{self.name_of.get(slot, '')}")

    def replace(self) -> None:
        """Create the missing members as controllers do, in any order."""
        lacking = [at for at in range(self.slots) if at not in self.over and not self.pod_of(at)]
        self.random.shuffle(lacking)
        for slot in lacking:
            self.made += 1
            name = self.name_of[slot] = f"m{slot}-{self.made}"
            pod = self.scenario.join(make_pod(name, uid=f"uid-{name}"), slot, self.slots)
            if self.is_owned:
                pod = with_meta(pod, owner_references=(JOB,))
            self.api.put("Pod", pod)

    def succeed(self) -> None:
        """Fail over to another process.

        It decides nothing before it has the server's state.
        """
        for kind in self.kinds:
            self.watch(kind)
        super().succeed()

    # Events of members

    def finish(self, phase: str) -> None:
        """Finish a running member, with success or failure.

        A controller recreates a failed one that it owns.
        """
        running = [
            at for at in range(self.slots) if (pod := self.pod_of(at)) and pod.spec.node_name
        ]
        if running:
            slot = self.random.choice(running)
            self.api.finish(f"default/{self.name_of[slot]}", phase)
            if phase == "Succeeded" or not self.is_owned:
                self.over.add(slot)

    def lose(self) -> None:
        """Delete a member, whether it runs or waits."""
        there = [at for at in range(self.slots) if self.pod_of(at)]
        if there:
            self.api.remove("Pod", f"default/{self.name_of[self.random.choice(there)]}")

    def lose_node(self) -> None:
        """Delete a node with all its pods."""
        name = self.random.choice(NODES)
        self.api.remove("Node", name)
        for pod in [pod for pod in self.api.pods.values() if pod.spec.node_name == name]:
            self.api.remove("Pod", pod.key)

    def happen(self) -> None:
        """Cause one event, and run the scheduler until nothing changes, or not that far."""
        move = self.random.choice(
            (
                lambda: self.finish("Succeeded"),
                lambda: self.finish("Failed"),
                self.lose,
                self.lose,
                self.lose_node,
                self.add_nodes,
                self.replace,
                self.replace,
                self.succeed,
            )
        )
        move()
        if self.random.random() < 0.6:
            self.live()
            self.pass_time(self.random.choice((0.5, 6.0, 70.0)))

    def rest(self) -> None:
        """Restore all nodes and all members, and proceed until nothing changes."""
        self.add_nodes()
        self.replace()
        self.live()
        self.pass_time(400.0)
        self.live()


def recovered(source: str, seed: int) -> Recovery:
    """Return a lifecycle at its end: every existing member must be bound, also after a restart."""
    rig = Recovery(source, Random(f"recovery {source} {seed}"))
    rig.rest()
    _check(rig, "at its start")
    for _ in range(rig.random.randint(3, 12)):
        rig.happen()
    rig.rest()
    _check(rig, "at its end")
    rig.succeed()
    rig.rest()
    _check(rig, "after a restart")
    return rig


def _check(rig: Recovery, when: str) -> None:
    assert [] == rig.faults
    waiting = [pod.key for pod in rig.api.pods.values() if not pod.spec.node_name]
    reported = {
        key: condition.message
        for key in waiting
        if (condition := rig.api.pods[key].condition("PodScheduled")) is not None
    }
    assert [] == waiting, f"{when} members wait: {reported}"
