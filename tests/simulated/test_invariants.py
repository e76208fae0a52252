"""Invariants of eviction, each in a small cluster that certainly checks it."""

import pytest

from scheduler.kube.api import Response
from tests.simulated.audit import PROTECTED
from tests.simulated.cluster import SimulatedCluster
from tests.simulated.groupcapacity import POD_GROUP
from tests.unit.kube.memoryapi import Accident

pytestmark = pytest.mark.looptime
URGENT = {"priorityClassName": "urgent"}


async def test_a_victims_event_names_the_preemptor_and_no_budget_is_violated_needlessly():
    """Full nodes, half of the pods protected by a budget: urgent pods preempt the others."""
    cluster = SimulatedCluster(1)
    cluster.protect()
    async with cluster.running():
        for number in range(4):
            cluster.node(f"n{number}", cpu="4")
        for number in range(16):
            labels = PROTECTED if number % 2 else {}
            cluster.pod(f"p{number:02}", labels=labels)
        await cluster.until(lambda: not cluster.unbound())
        await cluster.pass_time(10)
        for number in range(4):
            cluster.pod(f"urgent-{number}", spec=URGENT)
            await cluster.pass_time(15)
        left = cluster.unbound()

    assert [] == cluster.history.broken
    assert [] == cluster.audit.needless
    assert [] == left
    names = {pod["metadata"]["name"] for pod in cluster.pods().values()}
    assert {f"p{number:02}" for number in range(1, 16, 2)} < names
    assert 4 == cluster.audit.checked["eviction events"] == cluster.audit.checked["priorities"]


async def test_a_protected_pod_is_evicted_only_without_another_victim():
    """All pods are protected by the budget: as in kube-scheduler it does not forbid, and the event
    exists.
    """
    cluster = SimulatedCluster(2)
    cluster.protect()
    async with cluster.running():
        cluster.node("n", cpu="2")
        for number in range(2):
            cluster.pod(f"protected-{number}", labels=PROTECTED)
        await cluster.until(lambda: not cluster.unbound())
        await cluster.pass_time(10)
        cluster.pod("urgent", spec=URGENT)
        await cluster.until(lambda: not cluster.unbound())

    assert [] == cluster.history.broken
    assert 1 == cluster.audit.checked["budgets"]


async def test_no_pod_is_evicted_before_its_event_is_written():
    """Events take seconds to arrive, and evictions wait for theirs."""
    cluster = SimulatedCluster(3)
    cluster.protect()
    async with cluster.running():
        cluster.node("n", cpu="2")
        for number in range(2):
            cluster.pod(f"p{number}")
        await cluster.until(lambda: not cluster.unbound())
        for replica in cluster.replicas:
            replica.wiring.late["/events"] = 3.0
        await cluster.pass_time(10)
        cluster.pod("urgent", spec=URGENT)
        await cluster.until(lambda: not cluster.unbound())

    assert [] == cluster.history.broken
    assert 1 == cluster.audit.checked["eviction events"]


async def test_no_pod_is_evicted_for_equal_or_lower_priority():
    """All nodes are full of urgent pods: other pods, urgent or not, stay pending."""
    cluster = SimulatedCluster(4)
    cluster.protect()
    async with cluster.running():
        cluster.node("n", cpu="2")
        for number in range(2):
            cluster.pod(f"first-{number}", spec=URGENT)
        await cluster.until(lambda: not cluster.unbound())
        await cluster.pass_time(10)
        cluster.pod("late", spec=URGENT)
        cluster.pod("plain")
        await cluster.pass_time(30)

    assert [] == cluster.history.broken
    assert ["late", "plain"] == cluster.unbound()
    assert 0 == cluster.audit.checked["eviction events"]


@pytest.mark.parametrize(
    "answer",
    [
        Response(429, reason="TooManyRequests", retry_after_s=5.0),
        Response(504, reason="Timeout", message="unknown outcome"),
    ],
)
async def test_a_bind_that_is_put_off_does_not_reach_a_node_that_is_too_small_by_then(
    answer: Response,
):
    """The server delays binds while the chosen node shrinks: the pods go to nodes with capacity."""
    cluster = SimulatedCluster(7)
    cluster.node("n0", cpu="8")
    async with cluster.running():
        await cluster.pass_time(10)
        refused = Accident(answer)
        for replica in cluster.replicas:
            replica.wiring.accident = lambda _, path: refused if "/binding" in path else None
        for number in range(4):
            cluster.pod(f"p{number}", "2")
        await cluster.pass_time(3)
        cluster.resize("n0", cpu="3")
        cluster.node("n1", cpu="8")
        await cluster.pass_time(5)
        for replica in cluster.replicas:
            replica.wiring.accident = cluster.refusal
        await cluster.until(lambda: not cluster.unbound(), 200)

    assert [] == cluster.history.broken
    nodes = sorted(pod["spec"]["nodeName"] for pod in cluster.pods().values())
    assert nodes in (["n0", "n1", "n1", "n1"], ["n1"] * 4)


async def test_a_group_does_not_begin_with_a_bind_that_was_put_off():
    """Binds are rejected except one without an answer.

    Its group's capacity is used when it is sent again.
    """
    cluster = SimulatedCluster(8)
    cluster.protect()
    cluster.node("n0", cpu="8")
    forbidden = Accident(Response(403, reason="Forbidden", message="no"))
    lost = Accident(Response(504, reason="Timeout", message="unknown outcome"))
    async with cluster.running(1):
        await cluster.pass_time(10)
        (replica,) = cluster.replicas

        def refusal(_: str, path: str) -> Accident | None:
            return None if "/binding" not in path else lost if "g-3/" in path else forbidden

        replica.wiring.accident = refusal
        cluster.gang("g")
        await cluster.pass_time(0.5)
        for number in range(4):
            cluster.pod(f"urgent-{number}", spec=URGENT)
        replica.wiring.accident = cluster.refusal
        await cluster.pass_time(200)

    assert [] == cluster.history.broken
    assert [] == cluster.history.partial({"g": 8}, POD_GROUP, cluster.pods())


async def test_a_leader_that_cannot_renew_writes_nothing_once_another_leads():
    """Only the leader's lease writes fail; its last write is before the next leader starts."""
    cluster = SimulatedCluster(5)
    cluster.node("n", cpu="64")
    async with cluster.running():
        leader, standby = cluster.replicas
        refused = Accident(Response(500, reason="InternalError", message="no quorum"))
        leader.wiring.accident = lambda _, path: refused if "/leases/" in path else None
        for number in range(40):
            cluster.pod(f"p{number:02}")
            await cluster.pass_time(1)
        await cluster.until(lambda: not cluster.unbound())
        assert standby.daemon.engine.is_leading
        assert leader.task is not None
        assert (1, "") == (leader.task.result(), leader.fault())

    assert [] == cluster.history.broken
    assert cluster.audit.holder == standby.number
    assert cluster.audit.checked["leases"] >= 40


async def test_a_request_sent_in_time_cannot_be_recalled():
    """A bind that the leader sent before its lease expired may arrive after the standby leads; that
    violates no invariant.
    """
    cluster = SimulatedCluster(8)
    cluster.node("n", cpu="64")
    down = Accident(Response(500, reason="InternalError", message="no quorum"))
    async with cluster.running():
        leader, standby = cluster.replicas
        leader.wiring.late["/binding"] = 20.0
        leader.wiring.accident = lambda _, path: down if "/leases/" in path else None
        standby.wiring.accident = lambda _, path: down if path.endswith("/binding") else None
        await cluster.pass_time(5)
        cluster.pod("p")
        await cluster.until(lambda: not cluster.unbound())
        assert cluster.audit.holder == standby.number
        asked = cluster.audit.checked["known"]

    assert 1 == asked
    assert [] == cluster.history.broken


async def test_what_is_written_changes_something():
    """In a cluster without faults, where gangs arrive member by member and some do not fit, no
    write is needless.
    """
    cluster = SimulatedCluster(6)
    cluster.node("n", cpu="12")
    async with cluster.running():
        for number in range(3):
            cluster.gang(f"g{number}")
            await cluster.pass_time(20)
        for number in range(8):
            cluster.remove_pod(f"g0-{number}")
        await cluster.pass_time(60)

    assert [] == cluster.history.broken
    assert [] == cluster.audit.needless
    assert 8 == len(cluster.unbound())


async def test_no_pod_is_evicted_for_a_pod_that_may_not_evict():
    """A more important pod that cannot evict stays pending: the cluster is quiet meanwhile."""
    cluster = SimulatedCluster(7)
    cluster.node("n", cpu="1")
    cluster.protect()
    async with cluster.running():
        cluster.pod("low")
        await cluster.until(lambda: not cluster.unbound())
        cluster.pod("patient", spec={"priorityClassName": "patient"})
        await cluster.pass_time(5)
        assert cluster.is_settled({})
        assert ["patient"] == cluster.unbound()

    assert [] == cluster.history.broken


@pytest.mark.parametrize("taker", ["plain", "patient", "urgent", "foreign"])
def test_a_group_is_excused_only_where_others_were_free_to_use_its_capacity(taker: str):
    """One of three members is bound, and another pod uses the capacity of the others. That is
    permitted if that pod can evict or is of another scheduler, and only while it uses the capacity.
    """
    cluster = SimulatedCluster(10)
    cluster.protect()
    cluster.node("n", cpu="3")
    cluster.group("g", 3)
    for number in range(3):
        cluster.pod(f"g-{number}", labels={POD_GROUP: "g"})

    def bind(name: str) -> None:
        target = {"target": {"kind": "Node", "name": "n"}}
        cluster.outside.put(f"/api/v1/namespaces/default/pods/{name}/binding", target)

    bind("g-0")
    assert ["g"] == cluster.partial({"g": 3})
    uid = cluster.pod(
        "other", "2", spec={"priorityClassName": taker} if taker in ("patient", "urgent") else {}
    )
    if taker == "foreign":
        cluster.history.foreign.add(uid)
    bind("other")
    assert (["g"] if taker in ("plain", "patient") else []) == cluster.partial({"g": 3})
    cluster.remove_pod("other")
    assert ["g"] == cluster.partial({"g": 3})


@pytest.mark.parametrize("comes_first", [True, False])
async def test_a_group_is_excused_where_its_capacity_was_lost_with_a_node_after_its_arrival(
    *, comes_first: bool
):
    """Two of three are bound on a node that became too small for the third.

    Once it is large enough no group is excused.
    """
    cluster = SimulatedCluster(10)
    cluster.node("n", cpu="3")
    if not comes_first:
        cluster.resize("n", "2")
    cluster.group("g", 3)
    for number in range(3):
        cluster.pod(f"g-{number}", labels={POD_GROUP: "g"})
    if comes_first:
        await cluster.pass_time(1)
        cluster.resize("n", "2")
    target = {"target": {"kind": "Node", "name": "n"}}
    for name in ("g-0", "g-1"):
        cluster.outside.put(f"/api/v1/namespaces/default/pods/{name}/binding", target)
    assert ([] if comes_first else ["g"]) == cluster.partial({"g": 3})
    cluster.resize("n", "3")
    assert ["g"] == cluster.partial({"g": 3})
