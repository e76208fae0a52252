"""Groups in the engine: pods that do not compete for the group's nodes are scheduled while the
solver runs; later pods do not overtake a group.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler.engine.effects import (
    OUTDATED,
    Answer,
    Bind,
    Call,
    Effects,
    Leading,
    Look,
    SetStatus,
    Solve,
    Watched,
)
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.groups.cycle import bindings as groupflights
from scheduler.groups.cycle import refusals
from scheduler.groups.problem.answer import SolverAnswer as Answered
from scheduler.groups.solver.questions import Solution, answer
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.podgroup import (
    GangPolicy,
    PodGroup,
    PodGroupSpec,
    PodResourceClaim,
    SchedulingGroup,
    SchedulingPolicy,
    WorkloadGroup,
    WorkloadGroupSpec,
)
from scheduler.objects.meta import AnnotatedMeta
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod, with_spec

NOW = 1_767_225_600.0
LABELS = {"sakkara.group.name": "g"}


class Floor:
    """An engine with nodes of four CPUs, and a group `g` whose members request one each."""

    def __init__(self, nodes: int, size: int) -> None:
        self.engine = Engine(PROFILES, REGISTRY)
        self.now = NOW
        self.effects: list[Effects] = []
        self.handle(Leading(active=True))
        for number in range(nodes):
            self.handle(Watched("Node", "ADDED", make_node(f"n{number}")))
        data = {"name": "g", "size": str(size), "constraints": json.dumps({})}
        meta = ConfigMapMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
        self.handle(Watched("GroupConfigMap", "ADDED", ConfigMap(meta, data)))
        for number in range(size):
            self.handle(Watched("Pod", "ADDED", make_pod(f"g-{number}", labels=LABELS)))

    def another(self, name: str, size: int) -> None:
        """Add a second group of this many members."""
        data = {"name": name, "size": str(size), "constraints": json.dumps({})}
        meta = ConfigMapMeta(name=name, namespace="default", uid=name, labels={GROUP_KEY: ""})
        self.handle(Watched("GroupConfigMap", "ADDED", ConfigMap(meta, data)))
        for number in range(size):
            labels = {"sakkara.group.name": name}
            self.handle(Watched("Pod", "ADDED", make_pod(f"{name}-{number}", labels=labels)))

    def handle(self, event: object) -> None:
        self.engine.handle(event, self.now)  # type: ignore[arg-type]

    def run(self, cycles: int = 50) -> list[Effects]:
        effects = list(self.engine.run(self.now, cycles))
        self.effects += effects
        return effects

    def single(self, name: str, cpu: int = 1) -> None:
        self.handle(Watched("Pod", "ADDED", make_pod(name, cpu=cpu)))

    def solve(self, effect: Solve) -> None:
        self.handle(Answer(effect.id, 200, body=answer(effect.instance)))


def the_solve(effects: list[Effects]) -> Solve:
    (found,) = (one for one in effects if isinstance(one, Solve))
    return found


def bound(effects: list[Effects]) -> set[str]:
    return {one.name for one in effects if isinstance(one, Bind)}


def test_pods_that_do_not_compete_go_on_while_the_solver_works():
    """While the solver runs, a later pod may use the capacity of a node that exceeds what the group
    could use. A pod created earlier may use any node.
    """
    floor = Floor(nodes=4, size=6)
    floor.handle(Watched("Node", "ADDED", make_node("large", cpu=8)))
    question = the_solve(floor.run())
    for number in range(4):
        floor.single(f"s{number}")
    floor.handle(Watched("Pod", "ADDED", make_pod("important", priority=1)))
    meanwhile = floor.run()

    # Six members could use the large node, so two CPUs of it are for others.
    assert {"important", "s0", "s1"} == bound(meanwhile) | {"s0", "s1"}
    singles = [one for one in meanwhile if isinstance(one, Bind) and one.name.startswith("s")]
    assert {"large"} == {one.node for one in singles}
    assert len(singles) <= 2
    floor.solve(question)
    assert {f"g-{n}" for n in range(6)} <= bound(floor.run())
    assert {f"s{n}" for n in range(4)} <= bound(floor.effects)


def test_members_that_arrive_together_get_no_waiting_condition():
    """The gate's verdict is reported after a turn has processed all arrivals, so only an incomplete
    group gets the condition.
    """
    floor = Floor(nodes=4, size=6)
    assert [] == [one for one in floor.run() if isinstance(one, SetStatus)]
    floor.another("h", 3)
    floor.handle(Watched("Pod", "DELETED", make_pod("h-2", labels={"sakkara.group.name": "h"})))

    reported = [one for one in floor.run() if isinstance(one, SetStatus)]
    assert {"h-0", "h-1"} == {one.name for one in reported}


def test_groups_are_planned_one_after_the_other():
    """The second group is sent to the solver after the first is placed, so that no answer
    is stale.
    """
    floor = Floor(nodes=4, size=6)
    floor.another("h", 6)
    first = the_solve(floor.run())

    assert [] == [one for one in floor.run() if isinstance(one, Solve)]
    floor.solve(first)
    effects = floor.run()
    floor.solve(the_solve(effects))
    effects += floor.run()
    assert {f"{name}-{n}" for name in "gh" for n in range(6)} == bound(effects)


def test_a_group_in_the_line_is_put_back_with_a_lost_lease():
    """When the lease is lost, the members of a planned and of a waiting group return to the queue,
    and the next leader finds all of them pending.
    """
    floor = Floor(nodes=4, size=6)
    floor.another("h", 6)
    floor.run()
    floor.handle(Leading(active=False))
    waiting = [floor.engine.queues.get(f"uid-{name}-{n}") for name in "gh" for n in range(6)]
    assert all(one is not None and one.where is not Where.IN_FLIGHT for one in waiting)

    floor.handle(Leading(active=True))
    effects = floor.run()
    for _ in range(2):
        floor.solve(the_solve(effects))
        effects = floor.run()
        floor.effects += effects
    assert 12 == len(bound(floor.effects))


def test_whom_an_unproven_answer_leaves_out_is_tried_again():
    """Members that an unproven answer leaves out are retried without a change in the cluster."""
    floor = Floor(nodes=0, size=0)
    floor.handle(Watched("Node", "ADDED", make_node("n0")))
    spec = WorkloadGroupSpec(SchedulingPolicy(gang=GangPolicy(2)))
    meta = AnnotatedMeta(name="w", namespace="default", uid="pg-w")
    floor.handle(Watched("PodGroup.v1alpha2", "ADDED", WorkloadGroup(meta, spec)))
    for number in range(3):
        pod = with_spec(make_pod(f"w-{number}"), scheduling_group=SchedulingGroup("w"))
        floor.handle(Watched("Pod", "ADDED", pod))
    question = the_solve(floor.run())
    found = json.loads(msgspec.json.encode(answer(question.instance)))
    assert [3] == found["placed"]["counts"]
    found["placed"]["counts"] = [2]
    found["placed"]["stages"][0] |= {"value": 1}
    floor.handle(Answer(question.id, 200, body=found))
    effects = floor.run()

    reported = [one.condition for one in effects if isinstance(one, SetStatus) and one.condition]
    text = "has its minimum; no free capacity was found in time for 1 more of it"
    assert [f"the group default/w {text}"] == [one.message for one in reported]
    binds = [one for one in effects if isinstance(one, Bind)]
    assert 2 == len(binds)
    for bind in binds:
        floor.handle(Answer(bind.id, 201))
    for bind in binds:
        pod = with_spec(make_pod(bind.name), scheduling_group=SchedulingGroup("w"))
        floor.handle(Watched("Pod", "MODIFIED", with_spec(pod, node_name="n0")))
    floor.now += 20.0
    floor.solve(the_solve(floor.run()))
    assert {"w-0", "w-1", "w-2"} == bound(effects) | bound(floor.run())


def test_a_member_deleted_while_its_group_is_queued_affects_no_other():
    """If a member is deleted while its group waits to be planned, the other members return to the
    queue.
    """
    floor = Floor(nodes=4, size=6)
    floor.another("h", 6)
    first = the_solve(floor.run())
    gone = make_pod("h-5", labels={"sakkara.group.name": "h"})
    floor.handle(Watched("Pod", "DELETED", gone))
    floor.solve(first)

    effects = floor.run() + floor.run()

    assert [] == [one for one in effects if isinstance(one, Solve)]
    assert {f"g-{n}" for n in range(6)} == bound(effects)


def in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process at most three members in one turn of the engine."""
    monkeypatch.setattr(groupflights, "AT_A_TIME", 3)
    monkeypatch.setattr(refusals, "AT_A_TIME", 3)


def test_a_large_group_goes_in_turns_and_others_in_between(monkeypatch):
    """All members of a large group are assumed at once and reserved in several turns. The first
    bind is sent after the last reserve, the binds again in several turns.
    """
    in_turns(monkeypatch)
    floor = Floor(nodes=2, size=7)
    floor.solve(the_solve(floor.run()))
    for number in range(2):
        floor.single(f"s-{number}")

    assert floor.engine.next_wakeup() == floor.now
    turns = [bound(floor.run()) for _ in range(8)]
    # Two nodes of four have capacity for one pod beside the group, wherever its members are placed
    # by then.
    assert {"s-0"} == turns[0]
    # Three turns of pre-bind, then three of binds.
    assert [0, 0, 0, 0, 3, 3, 1] == [len(turn) for turn in turns[1:]]
    assert {f"g-{n}" for n in range(7)} == set().union(*turns[1:])
    assert not floor.engine.has_work()
    assert floor.engine.next_wakeup() != floor.now


@pytest.mark.parametrize("turns", range(8))
def test_a_member_that_fails_recalls_all_that_have_not_been_let_go(monkeypatch, turns):
    """If a member fails before the first bind, no member is bound. If it fails later, no further
    member is bound and the rest return to the queue.
    """
    in_turns(monkeypatch)
    floor = Floor(nodes=2, size=8)
    floor.solve(the_solve(floor.run()))
    gone = set().union(*(bound(floor.run()) for _ in range(turns)))
    assert min(8, max(0, 3 * (turns - 5))) == len(gone)

    floor.handle(Watched("Pod", "DELETED", make_pod("g-7", labels=LABELS)))
    assert set() == set().union(*(bound(floor.run()) for _ in range(5)))
    for number in range(7):
        queued = floor.engine.queues.get(f"uid-g-{number}")
        assert queued is not None
        assert (f"g-{number}" in gone) == (queued.where is Where.IN_FLIGHT)
    assert len(gone) == len(floor.engine.cluster.pods)


def test_a_member_that_is_asked_to_go_before_its_reserve_recalls_the_others(monkeypatch):
    """A member is deleted before its reserve: no member is bound, and the others return to the
    queue.
    """
    in_turns(monkeypatch)
    floor = Floor(nodes=2, size=8)
    floor.solve(the_solve(floor.run()))
    leaving = make_pod("g-7", labels=LABELS)
    meta = msgspec.structs.replace(leaving.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    floor.handle(Watched("Pod", "MODIFIED", msgspec.structs.replace(leaving, metadata=meta)))

    assert set() == set().union(*(bound(floor.run()) for _ in range(6)))
    assert 0 == len(floor.engine.cluster.pods)


def test_a_large_group_is_refused_in_turns_and_comes_back_whole(monkeypatch):
    """A large group is rejected over several turns. Changes in between wake all members, also those
    rejected first.
    """
    in_turns(monkeypatch)
    floor = Floor(nodes=1, size=8)
    floor.solve(the_solve(floor.run()))
    floor.handle(Watched("Node", "ADDED", make_node("n1")))
    turns = [floor.run() for _ in range(2)]

    reported = [[one for one in turn if isinstance(one, SetStatus)] for turn in turns]
    assert [6, 2] == [
        len(one) for one in reported
    ]  # the first three had their word with the answer
    floor.solve(the_solve(turns[1]))
    assert {f"g-{n}" for n in range(8)} == set().union(*(bound(floor.run()) for _ in range(10)))


def test_the_gate_checks_a_group_once_when_all_its_members_change(monkeypatch):
    """When a thousand members change, their group is counted once, not a thousand times."""
    floor = Floor(nodes=1, size=8)
    floor.solve(the_solve(floor.run()))
    for number in range(8):
        floor.handle(Watched("Pod", "MODIFIED", make_pod(f"g-{number}", labels=LABELS)))
    (planner,) = floor.engine.group_planners()
    asked: list[str] = []
    wanted = planner.group_wanted

    def counted(key, pods):
        asked.append(key)
        return wanted(key, pods)

    monkeypatch.setattr(planner, "group_wanted", counted)
    floor.handle(Watched("Node", "ADDED", make_node("n1")))
    floor.now += 20.0
    floor.solve(the_solve(floor.run()))

    assert {f"g-{n}" for n in range(8)} == bound(floor.run())
    assert len(asked) <= 3


def test_later_pods_cannot_keep_a_group_waiting():
    """Later pods that compete wait until the group has its nodes, and keep their order."""
    floor = Floor(nodes=4, size=6)
    first = the_solve(floor.run())
    for number in range(16):
        floor.single(f"s{number:02}")
    assert set() == bound(floor.run())
    assert not floor.engine.has_work()
    floor.solve(first)

    names = [one.name for one in floor.run() if isinstance(one, Bind)]
    assert [f"g-{n}" for n in range(6)] + [f"s{n:02}" for n in range(10)] == names


def test_while_a_second_answer_is_awaited_later_pods_leave_the_group_its_nodes():
    """An earlier pod may take a chosen node; then the group is solved again, and later pods may not
    use its nodes meanwhile.
    """
    floor = Floor(nodes=4, size=6)
    floor.handle(Watched("Node", "ADDED", make_node("large", cpu=5)))
    first = the_solve(floor.run())
    for node in ("n0", "n1", "large"):
        pod = make_pod(f"important-{node}", cpu=4, priority=1, nominated=node)
        floor.handle(Watched("Pod", "ADDED", pod))
    assert 3 == len(bound(floor.run()))
    floor.solve(first)
    second = the_solve(floor.run())
    floor.single("s")

    assert set() == bound(floor.run())
    floor.solve(second)
    assert {f"g-{n}" for n in range(6)} < bound(floor.run())


def test_a_lost_lease_puts_the_members_back():
    """When the lease is lost, members return to the queue; a solver answer of the earlier term has
    no effect.
    """
    floor = Floor(nodes=2, size=3)
    question = the_solve(floor.run())
    floor.handle(Leading(active=False))
    floor.solve(question)

    assert set() == bound(floor.run())
    floor.handle(Leading(active=True))
    floor.solve(the_solve(floor.run()))
    assert 3 == len(bound(floor.run()))


def test_a_solver_that_does_not_answer_lets_the_members_try_again():
    """If the solver does not answer, the members' condition states it, and the next attempt calls
    the solver again.
    """
    floor = Floor(nodes=2, size=3)
    floor.run()
    deadline = floor.engine.next_wakeup()
    assert deadline is not None
    floor.now = deadline
    effects = floor.run()

    reported = [one.condition for one in effects if isinstance(one, SetStatus) and one.condition]
    assert 3 == len(reported)
    assert {"the group default/g waits: no answer came from the solver"} == {
        one.message for one in reported
    }


def test_a_member_that_goes_while_the_solver_works_ends_the_attempt():
    """If a member is deleted while the solver runs, no member is placed; the others wait for a
    replacement.
    """
    floor = Floor(nodes=2, size=3)
    question = the_solve(floor.run())
    floor.handle(Watched("Pod", "DELETED", make_pod("g-1", labels=LABELS)))
    floor.solve(question)

    assert set() == bound(floor.run())
    queued = floor.engine.queues.get("uid-g-0")
    assert queued is not None
    assert queued.where is Where.GATED
    floor.handle(Watched("Pod", "ADDED", make_pod("g-9", labels=LABELS)))
    floor.solve(the_solve(floor.run()))
    assert {"g-0", "g-2", "g-9"} == bound(floor.run())


def test_a_member_whose_bind_is_refused_keeps_its_capacity():
    """When a bind is rejected and half of the group is bound, the remaining capacity stays
    reserved. Otherwise another pod could take it and the group would stay partially bound.
    """
    floor = Floor(nodes=2, size=8)
    floor.solve(the_solve(floor.run()))
    binds = {one.name: one for one in floor.run() if isinstance(one, Bind)}
    for number in range(8):
        name = f"g-{number}"
        code, node = (201, binds[name].node) if number % 2 else (403, "")
        floor.handle(Answer(binds[name].id, code))
        if node:
            pod = make_pod(name, labels=LABELS)
            spec = msgspec.structs.replace(pod.spec, node_name=node)
            floor.handle(Watched("Pod", "MODIFIED", msgspec.structs.replace(pod, spec=spec)))
    floor.single("late", cpu=1)
    assert set() == bound(floor.run())

    floor.now += 20
    effects = floor.run()
    floor.solve(the_solve(effects))
    again = {one.name: one.node for one in [*effects, *floor.run()] if isinstance(one, Bind)}
    assert {f"g-{number}": binds[f"g-{number}"].node for number in range(0, 8, 2)} == again


@pytest.mark.parametrize("is_begun", [False, True])
def test_gated_members_keep_their_capacity_in_a_started_group(*, is_begun: bool):
    """A bind is in flight when another one is rejected. The other members are put on hold, and keep
    their nominations until these are reported.
    """
    floor = Floor(nodes=1, size=4)
    floor.solve(the_solve(floor.run()))
    binds = [one for one in floor.run() if isinstance(one, Bind)]
    assert not floor.engine.objection(binds[0])  # it leaves
    floor.handle(Answer(binds[1].id, 403, "", "no"))
    for bind in binds[2:]:
        why = floor.engine.objection(bind)
        assert "must not begin" in why
        floor.handle(Answer(bind.id, 503, OUTDATED, why))
    for look in [one for one in floor.run() if isinstance(one, Look)]:
        floor.handle(Answer(look.id, 200, body={"uid": f"uid-{look.name}", "nodeName": ""}))
    floor.single("late", cpu=1)
    assert set() == bound(floor.run())
    floor.handle(Answer(binds[0].id, 201 if is_begun else 403))

    nominations = floor.engine.nominations
    taken = bound(floor.run()) & {"late"}
    nominated = {bind.uid for bind in binds[2:] if nominations.node_of(bind.uid)}
    assert nominated == ({bind.uid for bind in binds[2:]} if is_begun else set())
    # A bind that the API server refused was sent: its member keeps the nomination.
    refused = {bind.uid for bind in binds[:2] if nominations.node_of(bind.uid)}
    assert refused == {bind.uid for bind in binds[:2]} - ({binds[0].uid} if is_begun else set())
    assert taken == (set() if is_begun else {"late"})


@pytest.mark.parametrize("first_is_bound", [False, True])
def test_no_member_is_bound_when_all_others_were_refused(first_is_bound: bool):
    """If all other binds were rejected, the last bind is not sent or retried, because it would
    leave the group partially bound.
    """
    floor = Floor(1, 4)
    floor.solve(the_solve(floor.run()))
    binds = [one for one in floor.run() if isinstance(one, Bind)]
    assert 4 == len(binds)
    assert [""] * 4 == [floor.engine.objection(bind) for bind in binds]
    codes = [201 if first_is_bound else 403, 403, 403]
    for bind, code in zip(binds, codes, strict=False):
        floor.handle(Answer(bind.id, code, "", "no"))

    objection = floor.engine.objection(binds[-1])
    wanted = "the group default/g must not begin: it needs 4 members by now, 1 have a place"
    assert objection == ("" if first_is_bound else wanted)


def test_members_who_are_still_to_be_recalled_have_no_place():
    """64 of 140 binds are in flight when one is rejected. The group needs 70 members, so none of
    the 63 others is bound, in whatever order members are recalled.
    """
    floor = Floor(0, 0)
    for name in ("n0", "n1"):
        floor.handle(Watched("Node", "ADDED", make_node(name, cpu=70)))
    meta = AnnotatedMeta(name="e", namespace="default", uid="e")
    floor.handle(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(70))))
    for number in range(140):
        labels = {"scheduling.x-k8s.io/pod-group": "e"}
        floor.handle(Watched("Pod", "ADDED", make_pod(f"e-{number}", labels=labels)))
    floor.solve(the_solve(floor.run()))
    binds: list[Bind] = []
    while not binds:
        binds = [one for one in floor.run() if isinstance(one, Bind)]
    assert groupflights.AT_A_TIME == len(binds)
    assert not floor.engine.objection(binds[-1])
    floor.handle(Answer(binds[0].id, 403, "", "no"))

    wanted = "the group default/e must not begin: it needs 70 members by now, 63 have a place"
    assert wanted == floor.engine.objection(binds[-1])


@pytest.mark.parametrize("what", ["DELETED", "MODIFIED"])
def test_members_whose_node_goes_or_becomes_smaller_have_no_place(what: str):
    """If a node for half of the group is lost before the first bind, no member is bound to the
    other node.
    """
    floor = Floor(2, 8)
    floor.solve(the_solve(floor.run()))
    binds = [one for one in floor.run() if isinstance(one, Bind)]
    assert 8 == len(binds)
    here = next(one for one in binds if one.node == "n0")
    assert not floor.engine.objection(here)
    floor.handle(Watched("Node", what, make_node("n1", cpu=2)))

    wanted = "the group default/g must not begin: it needs 8 members by now, 4 have a place"
    assert wanted == floor.engine.objection(here)


def test_a_member_that_something_else_holds_is_not_counted():
    """A member whose resource claim is missing does not count: the group is incomplete, and the
    condition of the other member states it.
    """
    floor = Floor(nodes=1, size=2)
    gone = make_pod("g-1", labels=LABELS)
    floor.handle(Watched("Pod", "DELETED", gone))
    nominated = make_pod("g-2", labels=LABELS)
    entry = PodResourceClaim("d", "missing")
    floor.handle(Watched("Pod", "ADDED", with_spec(nominated, resource_claims=(entry,))))

    effects = floor.run()
    assert not [one for one in effects if isinstance(one, Solve)]
    reported = {one.name: one.condition for one in effects if isinstance(one, SetStatus)}
    assert ["g-0"] == list(reported)
    assert "the group default/g is not complete: it needs 2 members" in str(reported["g-0"])


@pytest.mark.parametrize("stands", [False, True])
def test_an_undecided_group_keeps_reserved_capacity_only_for_bound_members(
    stands: bool,
):
    """If the solver reaches its time limit without an answer, nominations are kept only for a
    partially bound group; otherwise they would block other pods.
    """
    floor = Floor(nodes=1, size=4)
    for number in range(4):
        member = make_pod(f"g-{number}", labels=LABELS, nominated="n0")
        if number == 0 and stands:
            member = with_spec(member, node_name="n0")
        floor.handle(Watched("Pod", "MODIFIED", member))
    question = the_solve(floor.run())
    silent = Solution(Answered("unknown"))
    floor.handle(Answer(question.id, 200, body=silent))
    floor.single("s", cpu=3)  # before the group is tried again

    assert (set() if stands else {"s"}) == bound(floor.run())


@pytest.mark.parametrize(("size", "is_reported"), [("2", True), ("none", False), ("0", False)])
def test_a_bound_group_whose_description_becomes_unreadable_is_not_reported(
    size: str, is_reported: bool
):
    """After an edit that removes the status and makes the size invalid, no status is written; with
    a valid size it is written again.
    """
    floor = Floor(1, 2)
    floor.solve(the_solve(floor.run()))
    for bind in [one for one in floor.run() if isinstance(one, Bind)]:
        floor.handle(Answer(bind.id, 201))
        pod = make_pod(bind.name, node=bind.node, labels=LABELS)
        floor.handle(Watched("Pod", "MODIFIED", pod))
    assert [one for one in floor.run() if isinstance(one, Call)]
    floor.now += 60.0
    meta = ConfigMapMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
    data = {"name": "g", "size": size, "constraints": "{}"}
    floor.handle(Watched("GroupConfigMap", "MODIFIED", ConfigMap(meta, data)))

    assert is_reported == any(isinstance(one, Call) for one in floor.run())
