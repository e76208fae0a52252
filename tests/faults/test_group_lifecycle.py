"""A group's lifecycle, with the process killed at each of its writes: no running pod is deleted.

The lifecycle runs once without a fault to count its writes, then once for each write and each
kind of interruption: the write arrived or not; a new process starts, or a standby takes over. All
decisions must follow from objects alone: memory is lost with the process, and a standby has only
watched.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

from scheduler.engine.effects import (
    Answer,
    Bind,
    Call,
    Effects,
    Event,
    Evict,
    Leading,
    Listed,
    Record,
    SetStatus,
    Solve,
)
from scheduler.engine.engine import Engine
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.appgroup import (
    GROUP_LABEL,
    WORKLOAD_LABEL,
    AppGroup,
    AppGroupSpec,
    Workload,
    WorkloadRef,
)
from scheduler.objects.groups.podgroup import (
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    SchedulingGroup,
    SchedulingPolicy,
    WorkloadGroup,
    WorkloadGroupSpec,
)
from scheduler.objects.meta import AnnotatedMeta, ObjectMeta
from scheduler.objects.pod import Pod
from tests.property.engines import build
from tests.property.making import make_node, make_pod, with_spec
from tests.property.model_api import KINDS
from tests.property.rig import Rig
from tests.property.watchdog import Watchdog

SIZE = 4


class Source(NamedTuple):
    """A kind of object that describes a group, and how a pod names it."""

    kind: str
    group: Any
    labels: Mapping[str, str]
    scheduling_group: SchedulingGroup | None = None

    def member(self, number: int) -> Pod:
        """Return a member that waits."""
        pod = make_pod(f"g-{number}", labels={**self.labels})
        return with_spec(pod, scheduling_group=self.scheduling_group)


DATA = {"name": "g", "size": str(SIZE), "constraints": json.dumps({})}
CONFIG_MAP = Source(
    "GroupConfigMap",
    ConfigMap(
        ConfigMapMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""}), DATA
    ),
    {"sakkara.group.name": "g"},
)
OWN = WorkloadGroup(
    AnnotatedMeta(name="g", namespace="default", uid="pg-g"),
    WorkloadGroupSpec(SchedulingPolicy(gang=GangPolicy(SIZE))),
)
SOURCES = {
    "ConfigMap": CONFIG_MAP,
    "PodGroup.scheduling.x-k8s.io": Source(
        "PodGroup",
        PodGroup(AnnotatedMeta(name="g", namespace="default", uid="pg-g"), PodGroupSpec(SIZE)),
        {"scheduling.x-k8s.io/pod-group": "g"},
    ),
    "PodGroup.scheduling.k8s.io": Source("PodGroup.v1alpha2", OWN, {}, SchedulingGroup("g")),
    "AppGroup": Source(
        "AppGroup",
        AppGroup(
            ObjectMeta(name="g", namespace="default", uid="app-g"),
            AppGroupSpec(gang=True, workloads=(Workload(WorkloadRef(selector="w"), (), SIZE),)),
        ),
        {GROUP_LABEL: "g", WORKLOAD_LABEL: "w"},
    ),
}


class Killer(Rig):
    """A rig that dies at the n-th write; `writes` counts the writes that reached the server.

    With `is_hot`, a standby receives every event that the leader receives and takes over when the
    leader dies.
    """

    def __init__(
        self,
        kill_at: int = -1,
        *,
        arrives: bool = True,
        is_hot: bool = False,
        kinds: Sequence[str] = KINDS,
        make: Callable[[], Engine] = build,
    ) -> None:
        self.kill_at, self.arrives, self.is_hot = kill_at, arrives, is_hot
        self.writes = 0
        self.performed: list[Effects] = []
        self.standby: tuple[Engine, Watchdog] | None = None
        super().__init__(make, kinds)
        if is_hot:
            self.stand_by()

    def stand_by(self) -> None:
        """Start an engine that does not lead, with the present state."""
        engine = self._build()
        self.standby = engine, Watchdog(engine)
        self.tell_standby(Leading(active=False))
        for kind in self.kinds:
            self.tell_standby(self.api.listed(kind))

    def tell_standby(self, event: Event) -> None:
        """Deliver an event to the standby.

        It decides nothing, and its effects are not sent.
        """
        if self.standby is not None:
            engine, dog = self.standby
            dog.record_event(event)
            engine.handle(event, self.now)
            would = engine.run(self.now, 50)
            assert not any(isinstance(effect, Bind | Evict) for effect in would), would

    def handle(self, event: Event) -> None:
        """Deliver one event to the leader, and events of the watch to the standby as well."""
        super().handle(event)
        if not isinstance(event, Answer | Leading):
            self.tell_standby(event)

    def live(self) -> None:
        """Proceed in order until nothing changes, and die at the chosen write."""
        for _ in range(200):
            moved = bool(self.run(50))
            while self.wire:
                is_write = isinstance(self.wire[0], Bind | Call | SetStatus | Evict | Record)
                if is_write and self.writes == self.kill_at:
                    self.writes += 1
                    self.die()
                    break
                self.writes += is_write
                self.performed.append(self.wire[0])
                self.perform(0)
            while self.answers:
                self.deliver(0)
                moved = True
            for kind in self.position:
                moved = moved or self.behind(kind) > 0
                self.watch(kind)
            if moved or self.engine.has_work():
                continue
            under_way = len(self.engine.bindings) + len(self.engine.suspended)
            if under_way == 0 and not self._will_retry():
                return
            wake = self.engine.next_wakeup()
            assert wake is not None
            self.now = max(self.now, wake)
        raise AssertionError("the engine does not come to rest")

    def die(self) -> None:
        """Kill the process during a write: it arrived, or it did not; later ones were never
        sent.
        """
        if self.arrives:
            self.api.perform(self.wire.pop(0))
        self.wire = []
        self.succeed()
        self.strays = []

    def succeed(self) -> None:
        """Start a new process in the leader's place, or let the standby take over and start another
        standby.
        """
        standby, self.standby = self.standby, None
        self.restart()
        if standby is not None:
            # The standby has received the events of its watch, not those in flight.
            self.engine, self.dog = standby
            self.lead(active=True)
            self.stand_by()


def lifecycle(rig: Killer, source: Source) -> None:
    """A group becomes complete, loses a member with its node, and the replacement fits nowhere."""
    for number in range(2):
        rig.api.put("Node", make_node(f"n{number}", cpu=2))
    rig.api.put(source.kind, source.group)
    for number in range(SIZE):
        rig.api.put("Pod", source.member(number))
    rig.live()
    rig.pass_time(5.0)
    lost = rig.api.pods["default/g-3"].spec.node_name
    rig.api.put("Node", make_node(lost, cpu=2, unschedulable=True))
    rig.api.remove("Pod", "default/g-3")
    rig.api.put("Pod", source.member(7))
    rig.live()
    rig.pass_time(5.0)
    rig.succeed()
    rig.live()


def whole_lifecycle(
    kind: str = "ConfigMap", kill_at: int = -1, *, arrives: bool = True, is_hot: bool = False
) -> Killer:
    """Return a rig that has lived through it."""
    rig = Killer(kill_at, arrives=arrives, is_hot=is_hot, kinds=(*KINDS, "AppGroup"))
    lifecycle(rig, SOURCES[kind])
    return rig


@pytest.mark.parametrize("is_hot", [False, True])
@pytest.mark.parametrize("kind", SOURCES)
def test_the_lifecycle_is_as_intended(kind: str, is_hot: bool):
    """The lifecycle has many writes, three members stay, and the fourth is reported as waiting."""
    rig = whole_lifecycle(kind, is_hot=is_hot)

    assert 12 < rig.writes
    survivors(rig)
    reported = rig.api.pods["default/g-7"].condition("PodScheduled")
    assert reported is not None
    assert "Unschedulable" == reported.reason


def killed_throughout(kind: str, first: int, step: int, *, arrives: bool, is_hot: bool) -> None:
    """Repeat the lifecycle, killed at one write after another until it ends before the write.

    No pod is deleted.
    """
    for kill_at in itertools.count(first, step):
        rig = whole_lifecycle(kind, kill_at, arrives=arrives, is_hot=is_hot)
        survivors(rig)
        if rig.writes <= kill_at:
            return


@pytest.mark.parametrize(("is_hot", "arrives"), [(False, True), (True, True), (True, False)])
@pytest.mark.parametrize("kind", SOURCES)
def test_nothing_that_runs_is_deleted_whenever_the_process_dies(
    kind: str, is_hot: bool, arrives: bool
):
    """Bound pods stay bound if the process dies at some writes of the lifecycle. Each kind of death
    has other writes.
    """
    killed_throughout(kind, 2 * is_hot + arrives, 5, arrives=arrives, is_hot=is_hot)


@pytest.mark.long
@pytest.mark.parametrize("is_hot", [False, True])
@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("kind", SOURCES)
def test_nothing_that_runs_is_deleted_whether_a_write_arrives_or_not(
    kind: str, arrives: bool, is_hot: bool
):
    """Bound pods stay bound if the process dies at any write of the lifecycle, whether that write
    arrives or not.
    """
    killed_throughout(kind, 0, 1, arrives=arrives, is_hot=is_hot)


def survivors(rig: Rig) -> None:
    """Check that the members that were not lost run, and that none is terminating."""
    running = {pod.metadata.name for pod in rig.api.pods.values() if pod.spec.node_name}
    leaving = [pod.metadata.name for pod in rig.api.pods.values() if pod.is_terminating]

    assert {"g-0", "g-1", "g-2"} <= running
    assert [] == leaving


def partly_bound(rig: Killer) -> None:
    """Create a group whose members are bound except one: its bind is rejected, and then another pod
    takes its capacity.
    """
    rig.api.put("Node", make_node("n0", cpu=4))
    rig.api.put(CONFIG_MAP.kind, CONFIG_MAP.group)
    for number in range(SIZE):
        rig.api.put("Pod", CONFIG_MAP.member(number))
    rig.pass_time(5.0)
    binds: list[int] = []
    while len(binds) < SIZE:
        rig.run(50)
        binds = [place for place, one in enumerate(rig.wire) if isinstance(one, Bind)]
        if len(binds) < SIZE:
            turn(rig)
    rig.refuse(binds[0], 500)
    rig.api.put("Pod", make_pod("squatter", node="n0", priority=9))
    rig.api.put("Node", make_node("n0", cpu=4))
    turn(rig)


def turn(rig: Rig) -> None:
    """Deliver the writes in flight."""
    while rig.wire:
        rig.perform(0)
    while rig.answers:
        rig.deliver(0)
    for kind in rig.position:
        rig.watch(kind)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_group_that_was_never_whole_says_who_goes_and_why_before_they_go(restarted):
    """The group's event is written first, then each victim's; a restarted process decides the
    same.
    """
    rig = Killer()
    partly_bound(rig)
    if restarted:
        rig.restart()
    rig.pass_time(60.0)
    rig.live()

    seen = rig.performed
    reported = [one for one in seen if isinstance(one, Record) and one.reason == "GroupReleased"]
    gone = [one for one in seen if isinstance(one, Evict)]
    assert ["ConfigMap", "Pod", "Pod", "Pod"] == [one.kind for one in reported]
    assert 3 == len(gone)
    assert {one.name for one in gone} == {one.name for one in reported[1:]}
    for one in gone:
        (record,) = [record for record in reported if record.name == one.name]
        assert seen.index(record) < seen.index(one)
        assert "has never been whole" in record.note
        assert "does not fit" in record.note


@pytest.mark.parametrize("is_hot", [False, True])
@pytest.mark.parametrize("arrived", [1, 2, 3])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_group_left_half_bound_is_decided_before_all_others(
    kind: str, arrived: int, is_hot: bool
):
    """The leader dies between its binds: the remaining members get their capacity before any other
    pod in the queue.
    """
    source = SOURCES[kind]
    rig = Killer(is_hot=is_hot, kinds=(*KINDS, "AppGroup"))
    for number in range(2):
        rig.api.put("Node", make_node(f"n{number}", cpu=2))
    rig.api.put(source.kind, source.group)
    for number in range(SIZE):
        rig.api.put("Pod", source.member(number))
    while not any(isinstance(one, Bind) for one in rig.wire):
        turn(rig)
        rig.run(50)
    for number in range(SIZE):
        keen = make_pod(f"keen-{number}", priority=9)
        rig.api.put("Pod", with_spec(keen, preemption_policy="Never"))
    binds = [one for one in rig.wire if isinstance(one, Bind)]
    assert SIZE == len(binds)
    for bind in binds[:arrived]:
        rig.api.perform(bind)
    rig.wire = []
    rig.watch("Pod")  # a new leader decides nothing before it has the server's state
    rig.succeed()
    rig.strays = []
    rig.live()

    bound = {pod.metadata.name for pod in rig.api.pods.values() if pod.spec.node_name}
    assert {f"g-{number}" for number in range(SIZE)} == bound


@pytest.mark.parametrize("is_hot", [False, True])
def test_a_group_that_was_complete_while_no_scheduler_ran_keeps_its_members(is_hot: bool):
    """The leader dies when all are bound and no object states it yet.

    One is replaced before another process leads.
    """
    rig = Killer(is_hot=is_hot)
    for number in range(2):
        rig.api.put("Node", make_node(f"n{number}", cpu=2))
    rig.api.put(CONFIG_MAP.kind, CONFIG_MAP.group)
    for number in range(SIZE):
        rig.api.put("Pod", CONFIG_MAP.member(number))
    while not any(isinstance(one, Bind) for one in rig.wire):
        turn(rig)
        rig.run(50)
    for bind in [one for one in rig.wire if isinstance(one, Bind)]:
        rig.api.perform(bind)
    rig.wire = []
    rig.pass_time(5.0)
    lost = rig.api.pods["default/g-3"].spec.node_name
    rig.api.put("Node", make_node(lost, cpu=2, unschedulable=True))
    rig.api.remove("Pod", "default/g-3")
    rig.api.put("Pod", CONFIG_MAP.member(7))
    for kind in rig.position:
        rig.watch(kind)
    rig.succeed()
    rig.strays = []
    rig.live()
    rig.pass_time(60.0)
    rig.live()

    survivors(rig)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_whole_group_that_is_described_larger_keeps_its_members(restarted: bool):
    """One surplus member has waited from the start; it counts after the edit, and fits nowhere."""
    rig = Killer()
    rig.api.put("Node", make_node("n0", cpu=SIZE - 1))
    smaller = msgspec.structs.replace(CONFIG_MAP.group, data=DATA | {"size": str(SIZE - 1)})
    rig.api.put(CONFIG_MAP.kind, smaller)
    for number in range(SIZE):
        rig.api.put("Pod", CONFIG_MAP.member(number))
    rig.pass_time(5.0)
    rig.live()
    rig.pass_time(5.0)
    known = rig.api.objects[CONFIG_MAP.kind]["default/g"]
    larger = msgspec.structs.replace(known, data=dict(known.data) | {"size": str(SIZE)})
    rig.api.put(CONFIG_MAP.kind, larger)
    for _ in range(3):
        if restarted:
            rig.restart()
        rig.pass_time(400.0)
        rig.live()

    survivors(rig)


@pytest.mark.parametrize("sizes", [(SIZE,), (SIZE, SIZE - 1, SIZE)], ids=["larger", "and_back"])
@pytest.mark.parametrize("is_hot", [False, True])
def test_an_enlarged_group_that_was_complete_while_no_scheduler_ran_keeps_its_members(
    is_hot: bool, sizes: tuple[int, ...]
):
    """The leader dies when three of three are bound, before any label is written.

    The size is edited before another process leads. The fourth member existed from the start and
    fits nowhere. A group described larger from the start, and smaller for a moment, was complete as
    well.
    """
    rig = Killer(is_hot=is_hot)
    rig.api.put("Node", make_node("n0", cpu=SIZE if len(sizes) > 1 else SIZE - 1))
    first = SIZE if len(sizes) > 1 else SIZE - 1
    described = msgspec.structs.replace(CONFIG_MAP.group, data=DATA | {"size": str(first)})
    rig.api.put(CONFIG_MAP.kind, described)
    for number in range(SIZE):
        rig.api.put("Pod", CONFIG_MAP.member(number))
    rig.pass_time(5.0)
    while not any(isinstance(one, Bind) for one in rig.wire):
        turn(rig)
        rig.run(50)
    for bind in [one for one in rig.wire if isinstance(one, Bind)][: SIZE - 1]:
        rig.api.perform(bind)
    rig.wire = []
    rig.pass_time(5.0)
    for size in sizes:
        known = rig.api.objects[CONFIG_MAP.kind]["default/g"]
        data = dict(known.data) | {"size": str(size)}
        rig.api.put(CONFIG_MAP.kind, msgspec.structs.replace(known, data=data))
    rig.api.put("Node", make_node("n0", cpu=SIZE - 1))
    for kind in rig.position:
        rig.watch(kind)
    rig.succeed()
    rig.strays = []
    for _ in range(3):
        rig.live()
        rig.pass_time(400.0)

    bound = [pod for pod in rig.api.pods.values() if pod.spec.node_name]
    assert SIZE - 1 == len(bound)
    assert not any(pod.is_terminating for pod in bound)


@pytest.mark.parametrize("restarted", [False, True])
def test_no_member_goes_because_the_solver_is_silent(restarted):
    """Members are evicted only with a proof that the others fit nowhere: a time-out is no proof."""
    rig = Killer()
    partly_bound(rig)
    if restarted:
        rig.restart()
    for _ in range(20):
        rig.run(50)
        rig.wire = [one for one in rig.wire if not isinstance(one, Solve)]
        assert not any(isinstance(one, Evict) for one in rig.wire)
        turn(rig)
        rig.pass_time(10.0)

    assert [] == [pod.metadata.name for pod in rig.api.pods.values() if pod.is_terminating]
    # the solver answers again: the remaining member does not fit, and the others are evicted
    rig.live()
    assert 3 == len([one for one in rig.performed if isinstance(one, Evict)])


@pytest.mark.parametrize("kind", SOURCES)
def test_who_leads_a_moment_after_it_has_heard_of_a_whole_group_says_so(kind: str):
    """The write that the previous leader would have sent is lost, and does not count as in
    flight.
    """
    source = SOURCES[kind]
    rig = Killer(kinds=(*KINDS, "AppGroup"))
    rig.api.put("Node", make_node("n0", cpu=SIZE))
    rig.api.put(source.kind, source.group)
    for number in range(SIZE):
        rig.api.put("Pod", source.member(number))
    rig.live()
    rig.api.remove(source.kind, "default/g")
    rig.api.put(source.kind, source.group)  # it returns in its state before any write
    engine = build()
    engine.handle(Leading(active=False), rig.now)
    for one in rig.kinds:
        engine.handle(Listed(one, tuple(rig.api.objects[one].values())), rig.now)
    engine.run(rig.now, 50)
    engine.handle(Leading(active=True), rig.now + 1.0)
    later = [each for second in range(12) for each in engine.run(rig.now + 1.0 + second, 50)]

    about = [one.path for one in later if isinstance(one, Call)]
    assert any("/g" in path for path in about), about


@pytest.mark.parametrize("kind", SOURCES)
def test_members_of_an_incomplete_group_release_their_reserved_capacity(kind: str):
    """Two of four had nominations, and the others were deleted: the nominations are kept for a
    minute, no longer.
    """
    source = SOURCES[kind]
    rig = Killer(kinds=(*KINDS, "AppGroup"))
    rig.api.put("Node", make_node("n0", cpu=2))
    rig.api.put(source.kind, source.group)
    for number in range(2):
        member = source.member(number)
        status = msgspec.structs.replace(member.status, nominated_node_name="n0")
        rig.api.put("Pod", msgspec.structs.replace(member, status=status))
    rig.live()
    rig.api.put("Pod", make_pod("alone"))
    rig.live()
    assert [] == [pod for pod in rig.api.pods.values() if pod.spec.node_name]
    rig.pass_time(61.0)
    rig.live()
    rig.pass_time(61.0)
    rig.live()

    assert "n0" == rig.api.pods["default/alone"].spec.node_name
    assert not any(pod.status.nominated_node_name for pod in rig.api.pods.values())
