"""A group's life, with the process killed at every write of it: nothing that runs is taken away.

The life is played once without a misfortune to count its writes, then once for each of them and for each
way in which it can be cut off (the write arrived or not, a standby begins at once or after the loss).
Whatever was decided must follow from objects alone: memory dies with the process.
"""

import json

import pytest

from scheduler.config import default_config
from scheduler.engine.effects import Bind, Call, Effects, Evict, Record, SetStatus
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.objects.configmap import GROUP_KEY, ConfigMap
from scheduler.objects.meta import ObjectMeta
from scheduler.plugins.intree import IN_TREE
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig

REGISTRY = Registry(IN_TREE)
PROFILES = default_config(REGISTRY).profiles
LABELS = {"sakkara.group.name": "g"}
SIZE = 4


def build() -> Engine:
    """Return an engine as `trellis run` makes it without a file."""
    return Engine(PROFILES, REGISTRY)


class Killer(Rig):
    """A rig that dies at the n-th write of its life; `writes` counts what reached the server."""

    def __init__(self, kill_at: int = -1, *, arrives: bool = True) -> None:
        self.kill_at, self.arrives = kill_at, arrives
        self.writes = 0
        self.performed: list[Effects] = []
        super().__init__(build)

    def live(self) -> None:
        """Let everything happen in order until nothing moves, and die at the appointed write."""
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
        """Be killed while a write is under way: it arrived, or it did not; the rest never left."""
        if self.arrives:
            self.api.perform(self.wire.pop(0))
        self.wire = []
        self.restart()
        self.strays = []


def member(rig: Rig, number: int) -> None:
    """Somebody creates a member."""
    rig.api.put("Pod", make_pod(f"g-{number}", labels=LABELS))


def life(rig: Killer) -> None:
    """A group becomes whole, loses a member with its node, and the new one fits nowhere."""
    for number in range(2):
        rig.api.put("Node", make_node(f"n{number}", cpu=2))
    meta = ObjectMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
    data = {"name": "g", "size": str(SIZE), "constraints": json.dumps({})}
    rig.api.put("GroupConfigMap", ConfigMap(meta, data))
    for number in range(SIZE):
        member(rig, number)
    rig.live()
    rig.pass_time(5.0)
    lost = rig.api.pods["default/g-3"].spec.node_name
    rig.api.put("Node", make_node(lost, cpu=2, unschedulable=True))
    rig.api.remove("Pod", "default/g-3")
    member(rig, 7)
    rig.live()
    rig.pass_time(5.0)
    rig.restart()
    rig.live()


def whole_life(kill_at: int = -1, *, arrives: bool = True) -> Killer:
    """Return a rig that has lived through it."""
    rig = Killer(kill_at, arrives=arrives)
    life(rig)
    return rig


WRITES = 46  # more than a life has; those beyond its end kill nobody and cost little


def test_the_life_is_what_it_is_meant_to_be():
    """It has fewer writes than are tried, three members stay, the fourth is told that it has to wait."""
    rig = whole_life()

    assert rig.writes < WRITES, rig.writes
    survivors(rig)
    told = rig.api.pods["default/g-7"].condition("PodScheduled")
    assert told is not None
    assert "Unschedulable" == told.reason


@pytest.mark.parametrize("arrives", [True, False])
def test_nothing_that_runs_is_deleted_whenever_the_process_dies(arrives):
    """At every write of the life, of which every other one arrives: who was bound stays bound."""
    for kill_at in range(0 if arrives else 1, WRITES, 2):
        survivors(whole_life(kill_at, arrives=arrives))


@pytest.mark.long
@pytest.mark.parametrize("arrives", [True, False])
def test_nothing_that_runs_is_deleted_whether_a_write_arrives_or_not(arrives):
    """At every write of the life, both ways."""
    for kill_at in range(WRITES):
        survivors(whole_life(kill_at, arrives=arrives))


def survivors(rig: Rig) -> None:
    """The members that were not lost run, none of them was asked to go."""
    running = {pod.metadata.name for pod in rig.api.pods.values() if pod.spec.node_name}
    leaving = [pod.metadata.name for pod in rig.api.pods.values() if pod.is_terminating]

    assert {"g-0", "g-1", "g-2"} <= running
    assert [] == leaving


def torn(rig: Killer) -> None:
    """A group of which one member is refused while the others are bound, and then has no room."""
    rig.api.put("Node", make_node("n0", cpu=4))
    meta = ObjectMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
    data = {"name": "g", "size": str(SIZE), "constraints": json.dumps({})}
    rig.api.put("GroupConfigMap", ConfigMap(meta, data))
    for number in range(SIZE):
        member(rig, number)
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
    """Let what is under way arrive."""
    while rig.wire:
        rig.perform(0)
    while rig.answers:
        rig.deliver(0)
    for kind in rig.position:
        rig.watch(kind)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_group_that_was_never_whole_says_who_goes_and_why_before_they_go(restarted):
    """First the group, then each victim; a process that starts anew decides the same."""
    rig = Killer()
    torn(rig)
    if restarted:
        rig.restart()
    rig.pass_time(60.0)
    rig.live()

    seen = rig.performed
    told = [one for one in seen if isinstance(one, Record) and one.reason == "GroupReleased"]
    gone = [one for one in seen if isinstance(one, Evict)]
    assert ["ConfigMap", "Pod", "Pod", "Pod"] == [one.kind for one in told]
    assert 3 == len(gone)
    assert {one.name for one in gone} == {one.name for one in told[1:]}
    for one in gone:
        (record,) = [record for record in told if record.name == one.name]
        assert seen.index(record) < seen.index(one)
        assert "has never been whole" in record.note
        assert "does not fit" in record.note
