"""Execution of MovePlans: whatever ends the daemon, every plan ends and no rule is violated."""

import asyncio
from random import Random

import pytest

from scheduler.base.clock import rfc3339
from scheduler.objects.moves.moveplan import DONE, PlannedMove
from scheduler.objects.moves.movewire import MoveCheck
from tests.property.movecluster import CPUS, MoveCluster

ENDED = ("Completed", "Aborted", "Impossible", "Invalid")


def small(random: Random) -> MoveCluster:
    """Return three nodes with two ReplicaSets; both tolerate that one pod is missing."""
    cluster = MoveCluster(random)
    for owner, cpu, on in (("web", 1, "n0"), ("web", 1, "n1"), ("api", 2, "n0"), ("api", 2, "n1")):
        cluster.owners[owner] = 1
        cluster.create(owner, cpu, on)
    return cluster


async def approved(cluster: MoveCluster) -> None:
    """Wait until the plan is calculated, and approve it."""
    cluster.put_plan()
    for _ in range(8):  # the daemon may be killed meanwhile
        await cluster.step()
    cluster.put_plan(approved=cluster.status.plan_hash)


async def finish(cluster: MoveCluster, rounds: int = 400) -> None:
    """Run the cluster until the plan has ended; check the rules after every step."""
    for _ in range(rounds):
        await cluster.step()
        check(cluster)
        if cluster.status.phase in ENDED:
            return
    raise AssertionError(f"the plan does not end: {cluster.status}")


def check(cluster: MoveCluster) -> None:
    """No budget is violated, no excluded pod is moved, none twice, no node is over capacity."""
    assert cluster.excluded.isdisjoint(cluster.evicted)
    assert len(cluster.evicted) == len(set(cluster.evicted))
    assert all(cluster.used()[name] <= CPUS for name in cluster.nodes)
    planned = {move.uid for move in cluster.status.moves}
    assert planned >= set(cluster.evicted) or cluster.status.replans
    if not cluster.is_broken:
        assert all(cluster.ready(owner) >= least for owner, least in cluster.owners.items())


def check_end(cluster: MoveCluster) -> None:
    """No reservation is left, and every pod is bound."""
    for _ in range(30):
        cluster.turn(10)
    assert not cluster.engine.nominations
    assert all(raw["spec"]["nodeName"] for raw in cluster.pods.values())


async def test_an_approved_plan_moves_its_pods_to_their_destinations():
    """The moves run one after the other; each replacement is on the planned node."""
    cluster = small(Random(1))
    await approved(cluster)
    assert cluster.status.phase == "Proposed"
    planned = [(move.owner.uid, move.target) for move in cluster.status.moves]

    await finish(cluster)

    assert cluster.status.phase == "Completed"
    assert all(move.state == DONE for move in cluster.status.moves)
    found = {move.replacement: move.target for move in cluster.status.moves}
    assert found == {uid: cluster.pods[uid]["spec"]["nodeName"] for uid in found}
    assert len(cluster.evicted) == len(planned)
    of_move = ["MoveReserved", "MoveEvicted", "MoveDone"] * len(planned)
    expected = ["MovePlanCalculated", "MovePlanApproved", *of_move, "MovePlanCompleted"]
    assert [reason for kind, reason, _ in cluster.events if kind == "MovePlan"] == expected
    check_end(cluster)


async def test_each_evicted_pod_has_an_event_that_names_the_plan_and_the_nodes():
    """Every evicted pod has the event before its deletion."""
    cluster = small(Random(1))
    await approved(cluster)
    await finish(cluster)

    notes = [note for kind, _, note in cluster.events if kind == "Pod"]
    for move, note in zip(cluster.status.moves, notes, strict=True):
        assert note.startswith(f"MovePlan defragment: evicted from {move.source} to {move.target},")


@pytest.mark.parametrize("spec", [{}, {"approved": "another"}, {"paused": True}])
async def test_without_its_own_approval_nothing_is_evicted(spec):
    """The plan has no approval, that of another plan, or is paused."""
    cluster = small(Random(1))
    await approved(cluster)
    cluster.put_plan(**({"approved": ""} | spec))
    if "paused" in spec:
        cluster.put_plan(approved=cluster.status.plan_hash)
    for _ in range(20):
        await cluster.step()

    assert cluster.evicted == []
    assert cluster.status.phase == "Proposed"


async def test_plans_of_one_time_do_not_move_an_owner_twice_within_its_cool_down():
    """The second plan was calculated before the moves of the first one, and is approved after."""
    cluster = small(Random(1))
    first, second, *others = cluster.pods
    cluster.name, cluster.excluded = "second", {first, *others}
    cluster.put_plan()
    await cluster.step()
    cluster.name, cluster.excluded = "first", {second, *others}
    await approved(cluster)
    await finish(cluster)
    assert cluster.evicted == [first]
    cluster.name, cluster.excluded = "second", set()
    assert [move.uid for move in cluster.status.moves] == [second]
    cluster.put_plan(approved=cluster.status.plan_hash)
    for _ in range(20):
        await cluster.step()

    assert cluster.evicted == [first]
    assert cluster.status.replans == 1
    assert {move.owner.uid for move in cluster.status.moves} == {"api"}


async def test_a_plan_whose_pod_has_left_is_calculated_again():
    """Before its first eviction a plan reserves nothing for a pod that is gone."""
    cluster = small(Random(1))
    await approved(cluster)
    before = cluster.status
    cluster.delete(before.moves[0].uid)
    while cluster.dying:
        cluster.turn(5)
    for _ in range(3):
        await cluster.step()

    assert cluster.evicted == []
    assert (cluster.status.replans, cluster.status.phase) == (1, "Proposed")
    assert cluster.status.plan_hash != before.plan_hash
    assert not cluster.engine.nominations


async def test_a_changed_goal_needs_another_approval():
    """The approval of one plan does not approve another one."""
    cluster = small(Random(1))
    await approved(cluster)
    old = cluster.status.plan_hash
    cluster.put_plan(goal={"freeNodes": {"number": 1}})
    for _ in range(20):
        await cluster.step()

    assert cluster.status.plan_hash not in ("", old)
    assert cluster.evicted == []


async def test_pause_resume_and_abort():
    """A paused plan finishes the move whose pod is evicted; an aborted one ends."""
    cluster = small(Random(1))
    await approved(cluster)
    while not cluster.evicted:
        await cluster.step()
    cluster.put_plan(paused=True)
    for _ in range(60):
        await cluster.step()
    assert len(cluster.evicted) == 1
    assert cluster.status.moves[0].state == DONE
    cluster.put_plan(paused=False)
    while len(cluster.evicted) < 2:
        await cluster.step()
    cluster.put_plan(aborted=True)
    await finish(cluster)

    assert cluster.status.phase == "Aborted"
    assert len(cluster.evicted) == 2
    check_end(cluster)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"check": MoveCheck(stale="node n2 rejects it")}, "PlanStale"),
        ({"check": MoveCheck(later="the budget allows no disruption")}, "StepTimedOut"),
        ({"owners": {"web": 2, "api": 2}}, "StepTimedOut"),
        ({"is_broken": True}, "StepTimedOut"),
        ({"check": MoveCheck(over="it fits")}, "GoalReached"),
    ],
)
async def test_a_plan_that_cannot_go_on_ends_with_its_reason(change, reason):
    """A stale plan is planned again twice; each of the new plans needs an approval."""
    cluster = small(Random(1))
    await approved(cluster)
    for name, value in change.items():
        setattr(cluster, name, value)
    for _ in range(400):
        await cluster.step(20)
        cluster.put_plan(approved=cluster.status.plan_hash)
        if cluster.status.phase in ENDED:
            break

    finished = {one.type: one.reason for one in cluster.status.conditions}
    assert finished["Finished"] == reason


async def until_evicted(cluster: MoveCluster) -> PlannedMove:
    """Run the cluster until the first pod is evicted; return its move."""
    await approved(cluster)
    while not cluster.evicted:
        await cluster.step(1)
    return next(move for move in cluster.status.moves if move.uid == cluster.evicted[0])


async def aborted_after(cluster: MoveCluster) -> float:
    """Wait until the plan ends with ReplacementMissing; return the seconds that this takes."""
    started = cluster.clock.now()
    await finish(cluster)
    finished = {one.type: one.reason for one in cluster.status.conditions}
    assert finished["Finished"] == "ReplacementMissing"
    return cluster.clock.now() - started


async def test_a_destination_that_is_filled_after_the_eviction_ends_the_plan():
    """The replacement returns to the node that it left, whatever waits for that node."""
    for seed in range(8):
        cluster = small(Random(seed))
        cluster.owners["rude"] = 0
        await approved(cluster)
        before = cluster.used()
        while not cluster.evicted:
            before = cluster.used()
            await cluster.operator.look()
        moved = next(move for move in cluster.status.moves if move.uid == cluster.evicted[0])
        if before[moved.target] < CPUS:
            cluster.create("rude", CPUS - before[moved.target], moved.target)
        cluster.create("rude", CPUS - before[moved.source] + 1)
        seconds = await aborted_after(cluster)

        assert seconds < 120
        owner = moved.owner.uid
        placed = [raw for uid, raw in cluster.pods.items() if uid.startswith(f"{owner}-")]
        assert len(placed) == 2
        assert all(raw["spec"]["nodeName"] for raw in placed)


async def test_a_rollout_or_scale_down_ends_the_plan():
    """No controller creates the replacement: the reservation ends before the deadline."""
    cluster = small(Random(1))
    cluster.is_rollout = True
    await until_evicted(cluster)

    assert await aborted_after(cluster) < 120
    for _ in range(10):
        cluster.turn(1)
    assert not cluster.engine.nominations


DELETED = "ReplicaSet web or another client deleted it, without an eviction"
BY_WHICH = [
    (0, {}, DELETED),
    (2, {}, DELETED),
    (1, {}, "ReplicaSet web wants 1 pod now (a rollout or a scale-down)"),
    (
        0,
        {"reason": "DeletionByTaintManager", "message": "Taint manager: deleting"},
        "DeletionByTaintManager: Taint manager: deleting",
    ),
    (
        0,
        {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"},
        "EvictionByEvictionAPI: Eviction API: evicting",
    ),
    (None, {}, "ReplicaSet web is deleted"),
]


@pytest.mark.parametrize(("size", "mark", "why"), BY_WHICH)
async def test_a_reserved_pod_that_another_component_ends_is_reported(size, mark, why):
    """The event names the component and its reason, and no eviction by the plan."""
    cluster = small(Random(1))
    await approved(cluster)
    cluster.check = MoveCheck(later="wait")
    while cluster.status.moves[0].state != "Reserved":
        await cluster.step()
    first = cluster.status.moves[0]
    assert first.owner.name == "web"
    cluster.workloads = {"web": {"spec": {"replicas": size}}} if size else {}
    cluster.hides_workloads = size == 0
    for uid, raw in cluster.pods.items():
        raw["metadata"]["creationTimestamp"] = rfc3339(cluster.clock.now() - 1000)
        cluster.show_pod(uid)
    if mark:
        marked = {"type": "DisruptionTarget", "status": "True", **mark}
        cluster.pods[first.uid]["status"]["conditions"].append(marked)
    cluster.delete(first.uid)
    cluster.events.clear()
    await cluster.step()

    (event,) = [(found, note) for kind, found, note in cluster.events if kind == "MovePlan"]
    left = f"{first.pod} left {first.source} without an eviction by this plan: {why}"
    assert event == ("MovePodLeft", left)
    assert cluster.evicted == []


@pytest.mark.parametrize("is_marked", [True, False])
async def test_an_eviction_before_a_restart_is_distinguished_from_a_deletion(is_marked):
    """If a pod is gone after a restart, its DisruptionTarget condition shows whether the killed
    daemon evicted it.
    """
    cluster = small(Random(1))
    await approved(cluster)
    cluster.check = MoveCheck(later="wait")
    while cluster.status.moves[0].state != "Reserved":
        await cluster.step()
    first = cluster.status.moves[0]
    cluster.hides_workloads = True
    if is_marked:
        marked = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        cluster.pods[first.uid]["status"]["conditions"].append(marked)
    cluster.delete(first.uid)
    cluster.events.clear()
    cluster.start()
    await cluster.step()

    reasons = {kind: (found, note) for kind, found, note in cluster.events}
    by_plan = "by this plan before a restart, or by another client"
    note = f"(the Eviction API was called {by_plan})"
    if is_marked:
        assert reasons["MovePlan"][0] == reasons["Pod"][0] == "MoveEvicted"
        assert reasons["MovePlan"][1].endswith(note)
        assert reasons["Pod"][1].endswith(note)
    else:
        assert reasons["MovePlan"][0] == "MovePodLeft"
        assert "Pod" not in reasons


async def test_a_scale_up_before_the_eviction_is_no_replacement():
    """A pod of the owner arrives on the destination while the moved pod still runs."""
    cluster = small(Random(1))
    cluster.nodes.remove("n1")  # no destination: n2 has free capacity for both pods
    cluster.put_plan()
    await cluster.step()
    cluster.add_node("n1")
    cluster.check = MoveCheck(later="wait")
    await approved(cluster)
    while cluster.status.moves[0].state != "Reserved":
        await cluster.step()
    first = cluster.status.moves[0]
    extra = cluster.create(first.owner.uid, 1, first.target)
    cluster.check = MoveCheck()
    await finish(cluster)

    assert cluster.status.phase == "Completed"
    assert cluster.status.moves[0].replacement != extra
    check_end(cluster)


async def ended_everywhere(seed: int) -> int:
    """Kill the daemon at every write of a plan's lifecycle, before and after the write."""
    number = writes = 0
    while writes >= number:
        number += 1
        for after in (False, True):
            cluster = small(Random(seed))
            cluster.kill_at = (number, after)
            await approved(cluster)
            await finish(cluster)
            assert cluster.status.phase == "Completed", cluster.status
            check_end(cluster)
            writes = cluster.writes
    return number


async def test_the_daemon_may_be_killed_at_every_write():
    """Three moves take 18 writes: 3 of the plan, and of each move reserved, the eviction, evicted,
    the binding, done.
    """
    assert await ended_everywhere(1) > 18


def with_gang(cluster: MoveCluster) -> MoveCluster:
    """Add a gang of three and an empty node that has capacity for it."""
    cluster.gang("train", 1, "n0", "n1", "n2")
    for name in ("n3", "n4"):
        cluster.add_node(name)
    return cluster


async def test_a_group_is_moved_whole():
    """The pods of a group are reserved, evicted and Ready together, each on its destination."""
    cluster = with_gang(MoveCluster(Random(3)))
    await approved(cluster)
    seen = set()
    for _ in range(100):
        await cluster.step()
        check(cluster)
        seen.add(tuple(move.state for move in cluster.status.moves))
        if cluster.status.phase in ENDED:
            break

    assert cluster.status.phase == "Completed"
    assert {(state,) * 3 for state in ("Planned", "Reserved", "Evicted", "Done")} >= seen
    found = {move.replacement: move.target for move in cluster.status.moves}
    assert found == {uid: cluster.pods[uid]["spec"]["nodeName"] for uid in found}
    assert len(found) == 3
    check_end(cluster)


BACKING_OFF = {"spec": {"parallelism": 3, "completions": 4}, "status": {"active": 0}}


@pytest.mark.parametrize(
    ("job", "is_kept"),
    [
        (BACKING_OFF, True),
        ({**BACKING_OFF, "status": {"active": 3}}, False),
        ({**BACKING_OFF, "status": {"active": 1, "succeeded": 3}}, False),
        ({"spec": {"parallelism": 3, "suspend": True}}, False),
        ({**BACKING_OFF, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}, False),
        (None, False),
    ],
)
async def test_a_job_that_backs_off_keeps_its_reservations(job, is_kept):
    """A Job in back-off creates the replacements minutes later; without such a Job the plan ends
    sooner.
    """
    cluster = with_gang(MoveCluster(Random(3)))
    cluster.is_rollout = True
    cluster.workloads = {"train": job} if job else {}
    await approved(cluster)
    while len(cluster.evicted) < 3:
        await cluster.step()
    for _ in range(40):
        await cluster.step()

    assert cluster.status.phase == ("Executing" if is_kept else "Aborted")
    if is_kept:
        targets = {move.target for move in cluster.status.moves}
        assert targets <= set(cluster.engine.nominations.nodes())
        for _ in cluster.status.moves:
            cluster.create("train", 1)
        await finish(cluster)
        assert cluster.status.phase == "Completed"


async def test_the_daemon_may_be_killed_at_every_write_of_a_group():
    """If the daemon is killed at any of the 12 writes for a group, also between two of its
    evictions or bindings, the remaining steps follow.
    """
    number = writes = 0
    while writes >= number:
        number += 1
        for after in (False, True):
            cluster = with_gang(MoveCluster(Random(3)))
            cluster.kill_at = (number, after)
            await approved(cluster)
            await finish(cluster)
            assert cluster.status.phase == "Completed", cluster.status
            assert len(cluster.evicted) == 3
            check_end(cluster)
            writes = cluster.writes
    assert number > 12


async def troubled(seed: int) -> None:
    """Run with all faults, at random."""
    random = Random(seed)
    cluster = MoveCluster(random, nodes=random.choice((2, 3, 4)))
    for owner in ("web", "api", "db")[: random.choice((1, 2, 3))]:
        cluster.owners[owner] = random.choice((0, 1))
        for _ in range(random.choice((2, 3))):
            cpu = random.choice((1, 2))
            free = [n for n in cluster.nodes if cluster.used()[n] + cpu <= CPUS]
            if free:
                cluster.create(owner, cpu, random.choice(free))
    if random.random() < 0.5:
        free = [n for n in cluster.nodes for _ in range(CPUS - cluster.used()[n])]
        cluster.gang("train", 1, *random.sample(free, min(len(free), 2)))
    cluster.excluded = {uid for uid in cluster.pods if random.random() < 0.2}
    cluster.kills = random.choice((0.0, 0.1, 0.3))
    cluster.put_plan()
    cluster.owners |= {
        owner: min(least, cluster.ready(owner) - 1) for owner, least in cluster.owners.items()
    }
    cluster.owners["rude"] = 0
    for _ in range(600):
        chance = random.random()
        if chance < 0.02:
            cluster.put_plan(paused=random.random() < 0.5)
        elif chance < 0.03:
            cluster.check = random.choice((MoveCheck(), MoveCheck(later="x"), MoveCheck(stale="x")))
        elif chance < 0.04 and len(cluster.pods) < 12:
            cluster.create("rude", random.choice((1, 2)))  # takes any capacity that is not reserved
        elif chance < 0.043:
            cluster.put_plan(aborted=True)
        elif chance < 0.2 and cluster.status.plan_hash:
            cluster.put_plan(approved=cluster.status.plan_hash)
        await cluster.step(random.choice((1, 5, 60)))
        check(cluster)
        if cluster.status.phase in ENDED:
            break
    else:
        cluster.put_plan(paused=False, approved=cluster.status.plan_hash)
        cluster.check = MoveCheck()
        await finish(cluster)
    assert not cluster.engine.nominations or cluster.status.phase not in ENDED


@pytest.mark.parametrize("seed", range(12))
async def test_plans_end_whatever_happens(seed):
    """Plans end despite kills, rejections, stale plans, pauses, and pods that compete for the
    nodes.
    """
    await troubled(seed)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_plans_end_whatever_happens_often(part):
    """The invariant holds in a thousand runs."""
    for seed in range(100 * part, 100 * part + 100):
        asyncio.run(troubled(1000 + seed))
