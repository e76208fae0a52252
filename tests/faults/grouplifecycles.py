"""Seeded lifecycles of groups from every source: their events, and the invariants that must hold
throughout.

Groups of all four kinds, also elastic ones, share a small cluster with single pods and with one
another. Users create, edit, resize and delete them; nodes are lost with all their pods; another
client evicts members; controllers replace missing ones. The process dies at any write, and restarts
or fails over to a standby; answers are lost, rejected or late. The invariants are in
`groupinvariants`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec

from scheduler.engine.effects import Bind
from scheduler.groups.topology.placement import in_order
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.kueue import HOSTNAME, KueueLevel, KueueTopology, KueueTopologySpec
from scheduler.objects.groups.podgroup import (
    BasicPolicy,
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingConstraints,
    SchedulingPolicy,
    TopologyConstraint,
    WorkloadGroup,
    WorkloadGroupSpec,
)
from scheduler.objects.meta import AnnotatedMeta, ObjectMeta
from scheduler.objects.pod import Pod, PodAnnotations
from tests.faults import groupsources
from tests.faults.groupinvariants import (
    CONFIG_MAP,
    CONSTRAINTS,
    COSCHEDULING,
    GROUPS,
    KIND_OF,
    UNREADABLE,
    V1_36,
    V1_37,
    Described,
    Lifecycles,
    described,
    group_of,
)
from tests.property import moves
from tests.property.making import make_node, make_pod
from tests.property.model_api import KINDS
from tests.property.moves import NODES, Move, Pick

RACK = "topology.trellis.dev/rack"
TOPOLOGY = "KueueTopology.v1beta1"
RULES = (
    "{}",
    "{}",
    '{"rack": {"type": "pack"}}',
    '{"rack": {"type": "pack", "hard": true}}',
    '{"node": {"type": "spread", "hard": true}}',
    '{"node": {"factor": 2}}',
    UNREADABLE,
)
# The limit in virtual time until nothing changes any more.
LONGEST_REST_S = 900.0
# One in this many members requests more than the others of its group.
DIFFERING = 25
# Number of Kueue's pods in one slice.
SLICE = 2

# User actions


def describe(rig: Lifecycles, group: str, least: int, rules: str, pick: Pick) -> None:
    """Write a group's object, or edit it: fields that are immutable in Kubernetes stay
    unchanged.
    """
    kind, rank = rig.kind_of[group], rig.groups.index(group)
    known = rig.api.objects[kind].get(f"default/{group}")
    if kind == CONFIG_MAP:
        data = {**(known.data if known is not None else {}), "name": group, "size": str(least)}
        data |= {"constraints": rules, "priority": str(rank if pick(4) else 3)}
        meta = ConfigMapMeta(
            name=group, namespace="default", uid=uid_of(rig, known), labels={GROUP_KEY: ""}
        )
        rig.api.put(kind, ConfigMap(meta, data))
        return
    note = {CONSTRAINTS: rules} if kind == COSCHEDULING else {}
    about = AnnotatedMeta(name=group, namespace="default", uid=uid_of(rig, known), annotations=note)
    made: Any
    if kind in groupsources.KINDS:
        rig.api.put(kind, groupsources.made(kind, about, least, known))
        return
    if kind == COSCHEDULING:
        made = PodGroup(about, PodGroupSpec(least))
    elif known is not None:
        # minCount may change in 1.37, no other field.
        gang = known.spec.scheduling_policy.gang
        spec = known.spec
        if kind == V1_37 and gang is not None:
            policy = SchedulingPolicy(gang=GangPolicy(least))
            spec = msgspec.structs.replace(spec, scheduling_policy=policy)
        made = WorkloadGroup(known.metadata, spec)
    else:
        made = WorkloadGroup(about, _spec(kind, least, rank, pick))
    if known is not None:
        made = msgspec.structs.replace(made, status=known.status)
    rig.api.put(kind, made)


def uid_of(rig: Lifecycles, known: Any) -> str:
    """Return the uid of an edited object, or a new one."""
    rig.made += known is None
    return known.metadata.uid if known is not None else f"object-{rig.made}"


def _spec(kind: str, least: int, rank: int, pick: Pick) -> WorkloadGroupSpec:
    policy = SchedulingPolicy(gang=GangPolicy(least))
    if pick(6) == 0:
        policy = SchedulingPolicy(basic=BasicPolicy())
    one, every = ("Pod", "PodGroup") if kind == V1_36 else ({"single": {}}, {"all": {}})
    places = SchedulingConstraints((TopologyConstraint(RACK),) if pick(4) == 0 else ())
    return WorkloadGroupSpec(policy, places, one if pick(3) == 0 else every, rank)


def write(rig: Lifecycles, pick: Pick) -> None:
    """Write, edit or resize a group, or delete its object."""
    group = rig.groups[pick(len(rig.groups))]
    if rig.kind_of[group] == groupsources.KUEUE:
        rewrite(rig, group, pick)
        return
    if pick(8) == 0:
        rig.api.remove(rig.kind_of[group], f"default/{group}")
        return
    least = 1 + pick(4)
    describe(rig, group, least, RULES[pick(len(RULES))], pick)
    rig.replicas[group] = least + (0 if rig.kind_of[group] == CONFIG_MAP else pick(3))
    rig.note()


def rewrite(rig: Lifecycles, group: str, pick: Pick) -> None:
    """Recreate a workload of Kueue with all its pods: their annotations describe the group and
    cannot be edited.

    Or recreate the tree of its racks.
    """
    assert isinstance(rig, Queued)
    if pick(6) == 0:
        rig.api.remove(TOPOLOGY, "fabric")
        return
    rig.put_topology()
    for pod in rig.members(group, leaving=True):
        rig.api.remove("Pod", pod.key)
    rig.replicas[group] = total = 1 + pick(4)
    where = pick(6)
    is_sliced = where == 2 and total % SLICE == 0
    rig.asked[group] = PodAnnotations(
        kueue_total=str(total),
        kueue_required=RACK if where == 0 else "",
        kueue_preferred=RACK if where == 1 else "",
        kueue_slices=RACK if is_sliced else "",
        kueue_slice_size=str(SLICE) if is_sliced else "",
    )


def scale(rig: Lifecycles, pick: Pick) -> None:
    """Change a workload's number of members; its controller deletes surplus ones."""
    group = rig.groups[pick(len(rig.groups))]
    rig.replicas[group] = pick(6)
    if isinstance(rig, Queued) and rig.kind_of[group] == groupsources.KUEUE:
        # There are never more pods than their annotations state; fewer if some have finished
        # successfully.
        rig.replicas[group] = min(rig.replicas[group], rig.total(group))
    there = rig.members(group)
    for pod in there[rig.replicas[group] :]:
        rig.api.remove("Pod", pod.key)


def create(rig: Lifecycles, pick: Pick) -> None:
    """A controller creates some of the members that it misses."""
    rig.fill(rig.groups[pick(len(rig.groups))], 1 + pick(5))


def lose_node(rig: Lifecycles, pick: Pick) -> None:
    """Delete a node with all its pods."""
    rig.api.remove("Node", NODES[pick(len(NODES))])
    rig.seen["lost"] += rig.collect()


def put_node(rig: Lifecycles, pick: Pick) -> None:
    """A node joins, is cordoned or freed, or changes in size; its rack stays."""
    number = pick(len(NODES))
    labels = {RACK: f"r{number % 2}", "kubernetes.io/hostname": NODES[number]}
    is_closed = pick(8) == 0
    node = make_node(NODES[number], cpu=1 + pick(4), labels=labels, unschedulable=is_closed)
    rig.api.put("Node", node)


def foreign_eviction(rig: Lifecycles, pick: Pick) -> None:
    """Let another client evict or delete a running pod, or let the pod finish."""
    known = sorted(key for key, pod in rig.api.pods.items() if pod.spec.node_name or pick(3) == 0)
    if known:
        act = (rig.api.terminate, rig.api.finish, partial(rig.api.remove, "Pod"))[pick(3)]
        act(known[pick(len(known))])


def single(rig: Lifecycles, pick: Pick) -> None:
    """Create a single pod that competes for capacity."""
    name = moves.PODS[pick(len(moves.PODS))]
    if f"default/{name}" not in rig.api.pods:
        rig.made += 1
        pod = make_pod(
            name, uid=f"{name}-{rig.made}", cpu=1 + pick(2), priority=pick(len(GROUPS) + 1)
        )
        rig.api.put("Pod", pod)


def kubelets(rig: Lifecycles, pick: Pick) -> None:
    """Remove some of the terminating pods, as kubelets do."""
    for key, pod in list(rig.api.pods.items()):
        if pod.is_terminating and pick(2):
            rig.api.remove("Pod", key)


def die(rig: Lifecycles, pick: Pick) -> None:
    """The process dies between any two of its writes."""
    rig.end(pick(len(rig.wire) + 1))


CLUSTER: tuple[tuple[Any, int], ...] = (
    (create, 14), (write, 5), (scale, 2), (single, 3), (foreign_eviction, 2), (lose_node, 1),
    (put_node, 8), (kubelets, 4), (die, 2),
)  # fmt: skip
WIRE: tuple[tuple[Move, int], ...] = (
    (moves.run, 16), (moves.watch, 18), (moves.perform, 22), (moves.deliver, 14),
    (moves.time_passes, 6), (moves.bind_elsewhere, 1), (moves.perform_twice, 1),
    (moves.lose_answer, 2), (moves.refuse, 3), (moves.delay, 1), (moves.swallow, 1),
    (moves.arrive, 2), (moves.relist, 2), (moves.lead, 1),
)  # fmt: skip
WEIGHTED = tuple(move for move, weight in (*CLUSTER, *WIRE) for _ in range(weight))


class SourcesLifecycles(Lifecycles):
    """A rig in which some groups are Volcano's or AppGroups that are gangs."""

    groups = ("ga", "gv", "gb", "gc", "gg")
    reporting = ("gc",)
    kind_of: Mapping[str, str] = {
        **KIND_OF,
        "gv": groupsources.VOLCANO,
        "gg": groupsources.APP_GROUP,
    }

    def __init__(self, *, is_hot: bool, differing: int) -> None:
        super().__init__(is_hot=is_hot, differing=differing, kinds=(*KINDS, *groupsources.KINDS))


class Queued(Lifecycles):
    """A rig in which some groups are Kueue's pod groups.

    `asked` has the annotations of each group's pods: the number of pods and the topology.
    """

    groups = ("ga", "gk", "gb", "gc", "gl")
    reporting = ("gc",)
    kind_of: Mapping[str, str] = {**KIND_OF, "gk": groupsources.KUEUE, "gl": groupsources.KUEUE}

    def __init__(self, *, is_hot: bool, differing: int) -> None:
        self.asked: dict[str, PodAnnotations] = {}
        super().__init__(is_hot=is_hot, differing=differing, kinds=(*KINDS, TOPOLOGY))

    def put_topology(self) -> None:
        """Write the tree of racks if it is missing."""
        if "fabric" not in self.api.objects[TOPOLOGY]:
            self.made += 1
            meta = ObjectMeta(name="fabric", uid=f"object-{self.made}")
            spec = KueueTopologySpec((KueueLevel(RACK), KueueLevel(HOSTNAME)))
            self.api.put(TOPOLOGY, KueueTopology(meta, spec))

    def total(self, group: str) -> int:
        """Return how many pods a group of Kueue is to have."""
        return int(self.asked[group].kueue_total) if group in self.asked else 0

    def described(self, group: str) -> Described | None:
        """Return the facts about a group in the server's objects; its pods may be the only ones."""
        if self.kind_of[group] != groupsources.KUEUE:
            return super().described(group)
        return _described_by(self.members(group, leaving=True))

    def _known(self, group: str) -> Described | None:
        if self.kind_of[group] != groupsources.KUEUE:
            return super()._known(group)
        return _described_by(self._on_nodes(group))

    def _check_start(self, effect: Bind) -> None:
        """Check that members that need one rack are bound into the rack of the others; the members
        of a slice begin in one rack.
        """
        super()._check_start(effect)
        pod = self._placed(effect)
        stated, here = pod.metadata.annotations, self._on_nodes(group_of(pod))
        if stated.kueue_required:
            racks = self._racks(here)
            assert len(racks) <= 1, f"{group_of(pod)} has to be in one rack and is in {racks}"
            self.seen["in one rack"] += len(here) > 1
        begins = not any(one.spec.node_name for one in self.members(group_of(pod)))
        if stated.kueue_slices and begins and len(here) == int(stated.kueue_total):
            ordered = in_order(here)
            for slice_ in (ordered[at : at + SLICE] for at in range(0, len(ordered), SLICE)):
                assert len(self._racks(slice_)) == 1, f"a slice of {group_of(pod)} is split"
            self.seen["in slices"] += 1

    def _racks(self, pods: Iterable[Pod]) -> set[int]:
        """Return the racks of pods that the engine counts on a node."""
        there = (self.engine.cluster.pods.get(pod.metadata.uid) for pod in pods)
        return {NODES.index(placed.node) % 2 for placed in there if placed is not None}

    def member(self, group: str, name: str, cpu: int) -> Pod:
        """Return a member that waits."""
        if self.kind_of[group] != groupsources.KUEUE:
            return super().member(group, name, cpu)
        pod = make_pod(name, uid=f"uid-{name}", cpu=cpu, priority=self.rank_of(group))
        return groupsources.joined_in_kueue(pod, group, self.asked[group])


def _described_by(pods: Sequence[Pod]) -> Described | None:
    """Return the statements of Kueue's pods about their group: how many start together; the
    remaining ones are evicted together.
    """
    if not pods:
        return None
    return Described(int(pods[0].metadata.annotations.kueue_total), True, False, None)


def noisy(seed: int, differing: int, rig_of: type[Lifecycles] = Lifecycles) -> Lifecycles:
    """Return a lifecycle of 80 to 180 events that has not settled."""
    random = Random(f"lives {seed}")
    rig = rig_of(is_hot=random.random() < 0.5, differing=differing)
    for _ in range(3):
        put_node(rig, random.randrange)
    for _ in range(3):
        write(rig, random.randrange)
    for _ in range(80 + random.randrange(100)):
        WEIGHTED[random.randrange(len(WEIGHTED))](rig, random.randrange)
    return rig


def ended(
    seed: int, differing: int = DIFFERING, rig_of: type[Lifecycles] = Lifecycles
) -> Lifecycles:
    """Return a lifecycle at rest: every group is readable, and controllers have no work."""
    rig = noisy(seed, differing, rig_of)
    if isinstance(rig, Queued):
        rig.put_topology()
    for group in rig.groups:
        if rig.kind_of[group] == groupsources.KUEUE:
            continue
        known = rig.api.objects[rig.kind_of[group]].get(f"default/{group}")
        if known is None or described(rig.kind_of[group], known) is None:
            describe(rig, group, 2, "{}", lambda _: 0)
    come_to_rest(rig)
    return rig


def come_to_rest(rig: Lifecycles) -> None:
    """Proceed without faults until nothing changes and controllers have no work."""
    for _ in range(20):
        began = rig.now
        rig.settle()
        rig.note()
        took = rig.now - began
        assert took <= LONGEST_REST_S, f"it takes {took} s to come to rest"
        rig.seen["longest"] = max(rig.seen["longest"], int(took))
        if not rig.collect() + sum(rig.fill(group, 99) for group in rig.groups):
            return
    raise AssertionError("members come and go for ever")


def check_invariants(rig: Lifecycles) -> None:
    """Check the invariants at rest: no partial group that was provably never complete, and no work
    left.

    A restarted process binds and evicts no pod.
    """
    assert [] == rig.faults
    for group in rig.groups:
        stated, there = rig.described(group), rig.members(group)
        bound = [pod for pod in there if pod.spec.node_name]
        if rig.kind_of[group] == groupsources.KUEUE and stated is None:
            continue  # no pod exists that could describe the group
        assert stated is not None
        rig.seen["at rest whole" if len(bound) >= stated.least else "at rest waiting"] += bool(
            there
        )
        if rig.kind_of[group] == CONFIG_MAP and 0 < len(bound) < stated.least:
            rig.seen["at rest in part"] += 1
            assert not proves_partial_bind(rig, group, stated.least), (
                f"{group} is bound in part: {len(bound)}"
            )
    nothing_is_forgotten(rig)


def nothing_is_forgotten(rig: Lifecycles) -> None:
    """Check that a restarted process at rest binds and evicts no pod."""
    before = rig.api.placed
    rig.end(0)
    rig.calm()
    assert before == rig.api.placed


def proves_partial_bind(rig: Lifecycles, group: str, size: int) -> bool:
    """Return whether all waiting members existed before the first of the others was bound, and none
    is missing.

    The object with the group's size must be as old, and its size unchanged since: an older version
    may have stated a smaller one.
    """
    described_by = rig.api.objects[rig.kind_of[group]][f"default/{group}"]
    meta = described_by.metadata
    sizes = [one.time for one in meta.managed_fields if "f:size" in one.fields_v1.get("f:data", {})]
    bound, objects = [], [str(meta.creation_timestamp), *map(str, sizes)]
    created = []
    for pod in rig.members(group, leaving=True):
        scheduled = pod.condition("PodScheduled")
        if not pod.spec.node_name:
            created.append(str(pod.metadata.creation_timestamp))
        elif scheduled is not None and scheduled.status == "True":
            bound.append(str(scheduled.last_transition_time))
        else:
            return False
    has_all_members = len(bound) + len(created) == size
    return has_all_members and max(created + objects) < min(bound)


def live(
    seed: int, differing: int = DIFFERING, rig_of: type[Lifecycles] = Lifecycles
) -> Counter[str]:
    """Run a lifecycle to its end and check it; return its statistics."""
    rig = ended(seed, differing, rig_of)
    check_invariants(rig)
    return rig.seen
