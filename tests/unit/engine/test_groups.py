"""Groups in the engine: other pods go on while the solver works, and nobody outruns it twice."""

from __future__ import annotations

import json

from scheduler.config import default_config
from scheduler.engine import groups
from scheduler.engine.effects import Answer, Bind, Effects, Leading, SetStatus, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queues import Where
from scheduler.framework.registry import Registry
from scheduler.objects.configmap import GROUP_KEY, ConfigMap
from scheduler.objects.meta import ObjectMeta
from scheduler.plugins.intree import IN_TREE
from scheduler.solver.questions import answer
from tests.property.making import make_node, make_pod

REGISTRY = Registry(IN_TREE)
PROFILES = default_config(REGISTRY).profiles
NOW = 1_767_225_600.0


class Floor:
    """An engine with nodes of four CPUs, and a group `g` in which every member asks for one."""

    def __init__(self, nodes: int, size: int) -> None:
        self.engine = Engine(PROFILES, REGISTRY)
        self.now = NOW
        self.effects: list[Effects] = []
        self.hear(Leading(active=True))
        for number in range(nodes):
            self.hear(Watched("Node", "ADDED", make_node(f"n{number}")))
        data = {"name": "g", "size": str(size), "constraints": json.dumps({})}
        meta = ObjectMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
        self.hear(Watched("GroupConfigMap", "ADDED", ConfigMap(meta, data)))
        for number in range(size):
            labels = {"sakkara.group.name": "g"}
            self.hear(Watched("Pod", "ADDED", make_pod(f"g-{number}", labels=labels)))

    def hear(self, event: object) -> None:
        self.engine.handle(event, self.now)  # type: ignore[arg-type]

    def run(self, cycles: int = 50) -> list[Effects]:
        effects = list(self.engine.run(self.now, cycles))
        self.effects += effects
        return effects

    def single(self, name: str, cpu: int = 1) -> None:
        self.hear(Watched("Pod", "ADDED", make_pod(name, cpu=cpu)))

    def solve(self, effect: Solve) -> None:
        self.hear(Answer(effect.id, 200, body=answer(effect.instance)))


def the_solve(effects: list[Effects]) -> Solve:
    (found,) = (one for one in effects if isinstance(one, Solve))
    return found


def bound(effects: list[Effects]) -> set[str]:
    return {one.name for one in effects if isinstance(one, Bind)}


def test_other_pods_go_on_while_the_solver_works():
    """The group waits for its answer, a single pod does not wait for the group."""
    floor = Floor(nodes=4, size=6)
    question = the_solve(floor.run())
    floor.single("s")
    meanwhile = floor.run()

    assert {"s"} == bound(meanwhile)
    floor.solve(question)
    assert {f"g-{n}" for n in range(6)} == bound(floor.run())


def test_a_large_group_goes_in_turns_and_others_in_between(monkeypatch):
    """Its room is booked at once; the binds come some in a turn, and the engine asks for the next one."""
    monkeypatch.setattr(groups, "AT_A_TIME", 3)
    floor = Floor(nodes=2, size=8)
    floor.solve(the_solve(floor.run()))
    floor.single("s")

    assert floor.engine.next_wakeup() == floor.now
    turns = [bound(floor.run()) for _ in range(3)]
    assert [3, 3, 2] == [len(turn) for turn in turns]
    assert {f"g-{n}" for n in range(8)} == set().union(*turns)
    assert not floor.engine.has_work()
    assert floor.engine.next_wakeup() != floor.now


def test_a_busy_cluster_cannot_keep_a_group_waiting_beyond_its_second_answer():
    """What takes the chosen room meanwhile costs one more question, during which nothing is placed."""
    floor = Floor(nodes=4, size=6)
    first = the_solve(floor.run())
    for number in range(8):
        floor.single(f"s{number}")
    floor.run()
    floor.solve(first)
    second = the_solve(floor.run())
    for number in range(8, 16):
        floor.single(f"s{number}")

    assert set() == bound(floor.run())
    assert not floor.engine.has_work()
    floor.solve(second)
    done = floor.run()
    assert {f"g-{n}" for n in range(6)} <= bound(done)
    assert bound(floor.run()) | bound(done) > {f"g-{n}" for n in range(6)}


def test_a_lost_lease_puts_the_members_back():
    """Nothing is carried out for an answer to a question of another time."""
    floor = Floor(nodes=2, size=3)
    question = the_solve(floor.run())
    floor.hear(Leading(active=False))
    floor.solve(question)

    assert set() == bound(floor.run())
    floor.hear(Leading(active=True))
    floor.solve(the_solve(floor.run()))
    assert 3 == len(bound(floor.run()))


def test_a_solver_that_does_not_answer_lets_the_members_try_again():
    """They say why they wait; the next attempt asks anew."""
    floor = Floor(nodes=2, size=3)
    floor.run()
    deadline = floor.engine.next_wakeup()
    assert deadline is not None
    floor.now = deadline
    effects = floor.run()

    told = [one.condition for one in effects if isinstance(one, SetStatus) and one.condition]
    assert 3 == len(told)
    assert {"the group default/g waits: no answer came from the solver"} == {
        one.message for one in told
    }


def test_a_member_that_goes_while_the_solver_works_ends_the_attempt():
    """The others wait for a replacement; nothing is placed."""
    floor = Floor(nodes=2, size=3)
    question = the_solve(floor.run())
    floor.hear(Watched("Pod", "DELETED", make_pod("g-1", labels={"sakkara.group.name": "g"})))
    floor.solve(question)

    assert set() == bound(floor.run())
    queued = floor.engine.queues.get("uid-g-0")
    assert queued is not None
    assert queued.where is Where.GATED
    floor.hear(Watched("Pod", "ADDED", make_pod("g-9", labels={"sakkara.group.name": "g"})))
    floor.solve(the_solve(floor.run()))
    assert {"g-0", "g-2", "g-9"} == bound(floor.run())
