"""`Lifecycles`: a rig that checks decisions about groups against the invariants, when they are made
and when they arrive.

The invariants are computed from the engine's effects and the server's history, and share no code
with the plugin. Events of groups are chosen in `grouplifecycles`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.engine.effects import Bind, Call, Effects, Event, Evict, Record
from scheduler.engine.engine import Engine
from scheduler.objects.finished import FINISHED
from scheduler.objects.groups.podgroup import (
    SchedulingGroup,
)
from scheduler.objects.pod import Pod
from tests.faults import groupsources
from tests.faults.test_group_lifecycle import Killer
from tests.property.evictionevents import EVICTION_REASONS, is_of_a_group
from tests.property.making import make_pod, with_spec
from tests.property.model_api import KINDS

CONSTRAINTS = "sakkara.group/constraints"
CONFIG_MAP, COSCHEDULING = "GroupConfigMap", "PodGroup"
V1_36, V1_37 = "PodGroup.v1alpha2", "PodGroup.v1beta1"
KIND_OF = {"ga": CONFIG_MAP, "gb": COSCHEDULING, "gc": V1_36, "gd": V1_37, "ge": COSCHEDULING}
GROUPS = tuple(KIND_OF)
UNREADABLE = "{"


class Described(NamedTuple):
    """An object's statements about a group: its minimum, whether it is evicted as a whole, may
    shrink, and its priority.
    """

    least: int
    is_evicted_together: bool
    may_shrink: bool
    priority: int | None  # None: that of its pods
    counts_alone: bool = False

    def rank(self, pods: Iterable[Pod]) -> int:
        """Return the priority that counts for these members."""
        lowest = min((pod.priority for pod in pods), default=0)
        if self.priority is None:
            return lowest
        return self.priority if self.counts_alone else min(self.priority, lowest)


def described(kind: str, obj: Any) -> Described | None:
    """Read an object; None if it is unreadable."""
    if kind == CONFIG_MAP:
        if obj.data["constraints"] == UNREADABLE:
            return None
        return Described(int(obj.data["size"]), True, False, int(obj.data["priority"]))
    if kind == COSCHEDULING:
        if obj.metadata.annotations.get(CONSTRAINTS) == UNREADABLE:
            return None
        return Described(obj.spec.min_member, True, True, None)
    if kind in groupsources.KINDS:
        is_volcano = kind == groupsources.VOLCANO
        return Described(groupsources.least_of(kind, obj), is_volcano, is_volcano, None)
    gang = obj.spec.scheduling_policy.gang
    whole = obj.spec.disruption_mode in ("PodGroup", {"all": {}})
    return Described(
        1 if gang is None else gang.min_count, whole, False, obj.spec.priority or 0, True
    )


def group_of(pod: Pod) -> str:
    """Return the name of the pod's group, or an empty text."""
    labels, field = pod.metadata.labels, pod.spec.scheduling_group
    named = labels.get("sakkara.group.name") or labels.get("scheduling.x-k8s.io/pod-group", "")
    named = named or groupsources.name_in(pod)
    return named or ("" if field is None else field.pod_group_name)


class Lifecycles(Killer):
    """A rig that checks decisions about groups, when they are made and when they arrive.

    `whole` are the uids of members that were once bound beside enough others. `replicas` is how
    many members each group's controller wants; one in `differing` of them requests more than the
    others, none if that is 0.
    """

    # The groups of pods, and those whose conditions are reported.
    groups: tuple[str, ...] = GROUPS
    reporting: tuple[str, ...] = ("gc", "gd")
    kind_of: Mapping[str, str] = KIND_OF

    def __init__(self, *, is_hot: bool, differing: int, kinds: Sequence[str] = KINDS) -> None:
        self.whole: set[str] = set()
        self.final: set[str] = set()  # uids of PodGroups that were reported as scheduled
        # Those reported by a late write that is not known yet.
        self.unheard: set[str] = set()
        # The expected condition of such a PodGroup when the late write arrived.
        self._unknowing: list[tuple[Call, str]] = []
        self._calls: list[Call] = []
        self.replicas: dict[str, int] = {}
        self.evicted: set[str] = set()
        self._watched: Engine | None = None
        self._evictions: dict[str, list[Pod]] = {}
        self._notes: list[Record] = []
        self.seen: Counter[str] = Counter()
        self.made = 0
        self.differing = differing
        super().__init__(is_hot=is_hot, kinds=kinds)

    # State of the server

    def members(self, group: str, *, leaving: bool = False) -> list[Pod]:
        """Return the pods of a group; with `leaving` also the terminating ones."""
        pods = (pod for pod in self.api.pods.values() if group_of(pod) == group)
        return [pod for pod in pods if leaving or not pod.is_terminating]

    def described(self, group: str) -> Described | None:
        """Return the statements of the server's object about a group."""
        obj = self.api.objects[self.kind_of[group]].get(f"default/{group}")
        return None if obj is None else described(self.kind_of[group], obj)

    def note(self) -> None:
        """Record which pods are bound in a complete group at this moment.

        Final statements in objects are recorded too.
        """
        for group in self.reporting:
            obj = self.api.objects[self.kind_of[group]].get(f"default/{group}")
            if obj is None:
                continue
            for one in obj.status.conditions:
                if one.status == "True" and not self._is_unheard(group, obj):
                    self.final.add(obj.metadata.uid)
                assert one.status == "True" or obj.metadata.uid not in self.final, one
        for group in self.groups:
            stated = self.described(group)
            bound = {one.metadata.uid for one in self.members(group) if one.spec.node_name}
            if stated is not None and len(bound) >= max(stated.least, self._received_least(group)):
                self.seen["whole"] += bool(bound - self.whole)
                self.whole |= bound

    def _received_least(self, group: str) -> int:
        """Return how many members a group needs by the objects that the engine has received.

        A later change to fewer is received later. An object that it has not received, or cannot
        read, does not count.
        """
        stated = self._known(group)
        return 0 if stated is None else stated.least

    def _is_scheduled(self, obj: Any) -> bool:
        return obj is not None and any(one.status == "True" for one in obj.status.conditions)

    def _is_unheard(self, group: str, obj: Any) -> bool:
        """Return whether the group was written as scheduled so late that the engine has not
        received it.
        """
        uid = obj.metadata.uid
        if uid in self.unheard:
            known = self.engine.cluster.store.of(self.kind_of[group]).get(f"default/{group}")
            if known is not None and known.metadata.uid == uid and self._is_scheduled(known):
                self.unheard.discard(uid)
                end = f"/{group}/status"
                self._unknowing += [(one, uid) for one in self._calls if one.path.endswith(end)]
        return uid in self.unheard

    def _scheduled(self) -> set[str]:
        """Return the uids of the objects whose status reports their group as scheduled."""
        every = (
            self.api.objects[self.kind_of[one]].get(f"default/{one}") for one in self.reporting
        )
        return {one.metadata.uid for one in every if one is not None and self._is_scheduled(one)}

    # The engine's decisions: checked when they are made, because more effects may follow before
    # they are sent

    def handle(self, event: Event) -> None:
        """Deliver one event, and check the resulting decisions."""
        self._watch_outbox()
        super().handle(event)
        self.note()
        self._judge()

    def run(self, cycles: int = 4) -> tuple[Effects, ...]:
        """Run the engine, and check its decisions."""
        self._watch_outbox()
        effects = super().run(cycles)
        self._judge()
        return effects

    def _watch_outbox(self) -> None:
        if self._watched is self.engine:
            return
        self._watched, self._evictions, self._notes = self.engine, {}, []
        put = self.engine._outbox.put

        def watched(effect: Effects | None) -> None:
            put(effect)
            if isinstance(effect, Evict):
                self._note_eviction(effect)
                if not is_of_a_group(self.engine, effect.uid):
                    self.undescribed.add(effect.uid)
            elif isinstance(effect, Record):
                self._notes.append(effect)
            elif isinstance(effect, Call):
                self._calls.append(effect)

        self.engine._outbox.put = watched  # type: ignore[method-assign]

    def _known(self, group: str) -> Described | None:
        obj = self.engine.cluster.store.of(self.kind_of[group]).get(f"default/{group}")
        return None if obj is None else described(self.kind_of[group], obj)

    def _on_nodes(self, group: str) -> list[Pod]:
        """Return the members that the engine counts on a node, or will bind to one."""
        pods = (one.pod for one in self.engine.cluster.pods if group_of(one.pod) == group)
        return [pod for pod in pods if not pod.is_terminating]

    def _bound_pods(self, group: str) -> list[Pod]:
        """Return those members that it does not evict."""
        return [pod for pod in self._on_nodes(group) if pod.metadata.uid not in self.evicted]

    def _placed(self, effect: Bind | Evict) -> Pod:
        placed = self.engine.cluster.pods.get(effect.uid)
        assert placed is not None, f"{effect} is about a pod that is nowhere"
        return placed.pod

    def _note_eviction(self, effect: Evict) -> None:
        pod = self._placed(effect)
        reported = next(
            r for r in self._notes if r.uid == effect.uid and r.reason in EVICTION_REASONS
        )
        self._check_rank(pod, reported)
        self.evicted.add(effect.uid)
        self._evictions.setdefault(group_of(pod), []).append(pod)

    def _judge(self) -> None:
        """Check that a group that is evicted as a whole loses all members, or shrinks if it may,
        and that this is reported.
        """
        evictions, self._evictions = self._evictions, {}
        notes, self._notes = self._notes, []
        evictions.pop("", None)
        for group, pods in evictions.items():
            stated, kept = self._known(group), len(self._bound_pods(group))
            if stated is None or not stated.is_evicted_together:
                continue
            text = f"{group} loses {len(pods)} and is left with {kept} of {stated.least}"
            assert kept == 0 or (stated.may_shrink and kept >= stated.least), text
            self.seen["shrunk" if kept else "ended"] += 1
            if kept:
                reported = (
                    r.note for r in notes if r.reason == "GroupPreempted" and r.name == group
                )
                assert any(f"goes on with {kept}:" in note for note in reported), text

    def _check_rank(self, victim: Pod, event: Record) -> None:
        """Check that no pod is evicted for one that is not more important."""
        if event.reason != "Preempted":
            assert victim.metadata.uid not in self.whole, f"{victim.key} goes; its group was whole"
            return
        assert event.related is not None
        queued = self.engine.queues.get(event.related[2])
        assert queued is not None, event.note
        mine, theirs = self._rank(victim), self._rank(queued.pod)
        assert mine < theirs, f"{victim.key} of priority {mine} goes for {theirs}: {event.note}"

    def _rank(self, pod: Pod) -> int:
        group = group_of(pod)
        stated = self._known(group) if group else None
        if stated is None or (pod.spec.node_name and not stated.is_evicted_together):
            return pod.priority
        return stated.rank([pod, *self._bound_pods(group)])

    # Arrivals

    def ready(self) -> list[int]:
        """Return the positions in flight that may be carried out: no pod is deleted before its
        event.
        """
        reported = {
            one.uid: at
            for at, one in enumerate(self.wire)
            if isinstance(one, Record) and one.reason in EVICTION_REASONS
        }
        return [
            at
            for at in super().ready()
            if not isinstance(one := self.wire[at], Evict) or one.uid not in reported
        ]

    def perform(self, place: int, *, times: int = 1, deliver: bool = True) -> None:
        """Carry out an effect, and record its result for a group."""
        one = self.wire[place]
        if isinstance(one, Bind) and not self.engine.objection(one):
            self._check_start(one)
        if isinstance(one, Evict):
            reported = any(
                r.uid == one.uid and r.reason in EVICTION_REASONS for r in self.api.records
            )
            assert reported, f"{one.name} is deleted before its event was written"
            self.seen["evicted"] += 1
        super().perform(place, times=times, deliver=deliver)
        self.final -= {uid for call, uid in self._unknowing if call is one}
        self.note()

    def _check_start(self, effect: Bind) -> None:
        """Check that the first member of a group is bound only if enough members have a node."""
        group = group_of(self._placed(effect))
        stated = self._known(group) if group else None
        is_refused = self.api.placed.get(effect.uid, ("", True))[1]
        # A deleted member may still be known as bound: then the group has begun, as far as the
        # engine can know.
        known = [*self.members(group), *self._on_nodes(group)]
        if stated is None or is_refused or any(one.spec.node_name for one in known):
            return
        # A pod to be evicted may still be bound if both were decided at once: then all are evicted.
        finished = self.engine.cluster.store.of(FINISHED).values()
        there = len(self._on_nodes(group)) + sum(group_of(pod) == group for pod in finished)
        assert there >= stated.least, f"{group} starts with {there} of {stated.least}"

    def arrive(self, place: int) -> None:
        """Carry out a delayed effect, and record its result for a group."""
        before = self._scheduled()
        super().arrive(place)
        # an abandoned write, or one of a dead process, may report an earlier state
        self.final.clear()
        self.unheard |= self._scheduled() - before
        self.note()

    # The process

    def end(self, arriving: int) -> None:
        """Kill the process after this many writes; a new process starts, or the standby takes
        over.
        """
        for _ in range(min(arriving, len(self.wire))):
            self.perform(0)
        # A new leader decides nothing before it has the server's state.
        for kind in self.kinds:
            self.watch(kind)
        self.seen["taken over" if self.standby is not None else "begun anew"] += 1
        self.evicted.clear()
        self.succeed()

    # The controllers

    def fill(self, group: str, most: int) -> int:
        """Create up to `most` of the members that a group's controller lacks; return how many."""
        missing = min(most, self.replicas.get(group, 0) - len(self.members(group)))
        for _ in range(missing):
            self.made += 1
            # The members of a ConfigMap's group are homogeneous.
            is_large = self.differing and not self.made % self.differing
            cpu = 2 if is_large and self.kind_of[group] != CONFIG_MAP else 1
            self.api.put("Pod", self.member(group, f"{group}-{self.made}", cpu))
        return max(0, missing)

    def collect(self) -> int:
        """Remove the pods of deleted nodes, as the garbage collector does.

        Return how many.
        """
        pods = [pod for pod in self.api.pods.values() if pod.spec.node_name]
        lost = [pod.key for pod in pods if pod.spec.node_name not in self.api.nodes]
        for key in lost:
            self.api.remove("Pod", key)
        return len(lost)

    def rank_of(self, group: str) -> int:
        """Return the priority of the members of a group.

        Members of one name have one priority, as workload controllers set it.
        """
        return self.groups.index(group)

    def member(self, group: str, name: str, cpu: int) -> Pod:
        """Return a member that waits."""
        labels: Mapping[str, str] = {}
        field = None
        if self.kind_of[group] == CONFIG_MAP:
            labels = {"sakkara.group.name": group}
        elif self.kind_of[group] in groupsources.KINDS:
            pod = make_pod(name, uid=f"uid-{name}", cpu=cpu, priority=self.rank_of(group))
            return groupsources.joined(self.kind_of[group], pod, group)
        elif self.kind_of[group] == COSCHEDULING:
            labels = {"scheduling.x-k8s.io/pod-group": group}
        else:
            field = SchedulingGroup(group)
        rank = self.rank_of(group)
        pod = make_pod(name, uid=f"uid-{name}", cpu=cpu, priority=rank, labels=labels)
        return with_spec(pod, scheduling_group=field)
