"""Nominations: which pods respect them, when they end, and the reports."""

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engine.binding.nominated import NominatedPods
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Bind, SetStatus
from scheduler.engine.queue.pod import Where
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod, with_status
from tests.property.rig import Rig


def rig_with(*pods: Pod, cpu: int = 2, nodes: int = 1) -> Rig:
    """Return a rig whose engine has received nodes and pods, and has tried none."""
    rig = Rig()
    for number in range(nodes):
        rig.api.put("Node", make_node(f"n{number}", cpu=cpu))
    for pod in pods:
        rig.api.put("Pod", pod)
    rig.watch("Node")
    rig.watch("Pod")
    return rig


def patches(rig: Rig) -> list[tuple[str, str | None]]:
    """Return (pod, nomination) of the status patches on the wire."""
    return [(e.name, e.nominated_node) for e in rig.wire if isinstance(e, SetStatus)]


def binds(rig: Rig) -> list[tuple[str, str]]:
    """Return (pod, node) of the binds on the wire."""
    return [(e.name, e.node) for e in rig.wire if isinstance(e, Bind)]


def test_nominations_by_node_and_pod():
    """One nomination per pod; an empty node removes it."""
    found = Nominations()
    pod = make_pod("p")
    found.put(pod, "a")
    found.put(pod, "b")
    assert ("b", ["b"], {}) == (found.node_of("uid-p"), list(found.nodes()), found.on("a"))
    found.put(pod, "")
    assert (0, [], "") == (len(found), list(found.nodes()), found.drop("uid-p"))


def test_a_nomination_counts_for_lower_and_equal_priority():
    """The nomination of a gated pod counts for lower and equal priorities."""
    rig = rig_with(
        make_pod("boss", priority=5, nominated="n0", gates=["g"]),
        make_pod("same", priority=5),
        make_pod("high", priority=6),
        cpu=1,
    )
    rig.run()

    assert [("high", "n0")] == binds(rig)
    assert Where.UNSCHEDULABLE is rig.where("same")


def test_the_nominated_node_is_tried_first_and_alone():
    """A pod is placed on its nominated node without scoring, however low its score would be."""
    rig = rig_with(make_pod("p", nominated="n0"), cpu=8, nodes=3)
    for number in range(3):
        pod = make_pod(f"f{number}", node="n0", scheduler="another")
        rig.api.put("Pod", pod)
    rig.watch("Pod")
    decisions: list[Decision] = []
    rig.engine.observation.on_decision = lambda _queued, decision: decisions.append(decision)
    rig.run()

    assert [("p", "n0")] == binds(rig)
    assert () == decisions[0].scores


@pytest.mark.parametrize("nominated", ["ghost", "n0"])
def test_an_unfit_or_unknown_nominated_node_is_ignored(nominated: str):
    """If the nominated node does not fit, all others are evaluated."""
    rig = rig_with(make_pod("p", nominated=nominated, cpu=2), nodes=2)
    rig.api.put("Pod", make_pod("f", node="n0", scheduler="another"))
    rig.watch("Pod")
    rig.run()

    assert [("p", "n1")] == binds(rig)


def test_a_nomination_ends_with_the_last_node():
    """Without nodes no pod fits.

    A kept nomination would block the node when it returns.
    """
    rig = rig_with(make_pod("p", nominated="n0"), nodes=0)
    rig.run()

    assert [("p", "")] == patches(rig)
    assert 0 == len(rig.engine.nominations)


def test_an_ending_without_a_word_on_the_nomination_clears_it():
    """Only a post-filter plugin keeps a nomination; every other result clears it."""
    assert "" == Decision().nominated_node


def test_an_assumed_pod_counts_once():
    """A pod that is being bound to its nominated node must not be counted there twice."""
    rig = rig_with(make_pod("boss", priority=5, nominated="n0"), cpu=2)
    rig.run()
    rig.api.put("Pod", make_pod("small"))
    rig.watch("Pod")
    rig.run()

    assert [("boss", "n0"), ("small", "n0")] == binds(rig)


def test_a_nominated_pod_bound_elsewhere_wakes_waiting_pods():
    """The nominated pod is placed on another node: its nominated capacity is free for others."""
    rig = rig_with(make_pod("boss", priority=5, cpu=2, nominated="n0", gates=["g"]), nodes=1)
    rig.api.put("Pod", make_pod("low", cpu=2))
    rig.watch("Pod")
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("low")

    rig.api.bind_foreign("default/boss", "ghost")
    rig.watch("Pod")

    assert Where.UNSCHEDULABLE is not rig.where("low")


def test_the_nomination_of_a_deleted_pod_wakes_waiting_pods():
    """A terminating nominated pod releases its capacity when its turn comes."""
    rig = rig_with(make_pod("boss", priority=5, cpu=2, nominated="n0", gates=["g"]))
    rig.api.put("Pod", make_pod("low", cpu=2))
    rig.watch("Pod")
    rig.run()
    rig.api.remove("Pod", "default/boss")
    rig.watch("Pod")

    assert 0 == len(rig.engine.nominations)
    assert Where.UNSCHEDULABLE is not rig.where("low")


def test_a_terminating_pod_loses_its_nomination_at_its_turn():
    """A pod that is popped while it is terminating keeps no nomination."""
    rig = rig_with(make_pod("boss", priority=5, cpu=2, nominated="n0"))
    rig.api.terminate("default/boss")
    rig.watch("Pod")
    rig.run()

    assert Where.GONE is rig.where("boss")
    assert 0 == len(rig.engine.nominations)


def test_a_retracted_nomination_wakes_others():
    """Another client clears a nomination: lower pods may use the capacity."""
    boss = make_pod("boss", priority=5, cpu=2, nominated="n0", gates=["g"])
    rig = rig_with(boss, make_pod("low", cpu=2))
    rig.run()
    assert Where.UNSCHEDULABLE is rig.where("low")
    rig.api.put("Pod", with_status(rig.api.pods["default/boss"], nominated_node_name=""))
    rig.watch("Pod")

    assert Where.UNSCHEDULABLE is not rig.where("low")
    assert "" == rig.engine.nominations.node_of("uid-boss")


def test_a_nomination_is_written_before_waiting_and_cleared_after_a_failure():
    """The clearing patch is sent although the watch has not shown the nomination yet."""
    rig = rig_with(make_pod("p", labels={"permit": "wait"}))
    rig.run()
    assert [("p", "n0")] == patches(rig)
    rig.pass_time(30)
    rig.run(0)

    assert [("p", "n0"), ("p", "")] == patches(rig)
    rig.settle()
    assert "" == rig.api.pods["default/p"].status.nominated_node_name


def test_a_nomination_that_is_there_already_is_not_patched():
    """A pod that brings the right nomination needs no patch before its permit."""
    rig = rig_with(make_pod("p", nominated="n0", labels={"permit": "wait"}))
    rig.run()

    assert [] == patches(rig)


class Groups:
    """Groups by the label `g`: the number in a group's key is its priority; odd ones evict."""

    def group_of(self, pod: Pod) -> str:
        return pod.metadata.labels.get("g", "")

    def group_priority(self, key: str, _pods: Sequence[Pod]) -> int:
        return int(key)

    def group_may_evict(self, key: str, _pods: Sequence[Pod]) -> bool:
        return int(key) % 2 == 1


@given(st.integers(0, 10**9))
def test_the_nominations_that_an_attempt_respects_are_those_of_the_rules(seed: int):
    """After any nominations, changes and ends of them: a pod respects those of its priority and
    above, members that do not evict all, and a single pod that does not evict those of groups.
    Rules about other pods connect with members of other groups alone.
    """
    random, cluster, nominations = Random(seed), Cluster(), Nominations(Groups())
    for name in "abc":
        cluster.put_node(make_node(name))
    profile: Any = SimpleNamespace(
        scheduler_name="s",
        filter=(SimpleNamespace(name="Rule", is_affected=lambda _pod, _other: True),),
    )
    nominated = NominatedPods(cluster, nominations)

    def new(name: str) -> Pod:
        labels = {"g": random.choice("1234")} if random.random() < 0.6 else {}
        policy = random.choice(("Never", "PreemptLowerPriority"))
        return make_pod(
            name, cpu=random.randint(1, 3), priority=random.randint(1, 4), labels=labels,
            preemption_policy=policy,
        )  # fmt: skip

    pods = {f"uid-{name}": new(name) for name in "klmnop"}
    for _ in range(8):
        uid = random.choice(sorted(pods))
        if random.random() < 0.3:
            pods[uid] = new(pods[uid].metadata.name)
        if random.random() < 0.8:
            nominations.put(pods[uid], random.choice("abc"))
        else:
            nominations.drop(uid)
        at = dict(nominations)
        there = {one: nominations.on(node)[one] for one, node in at.items()}
        rank = {one: int(pod.metadata.labels.get("g", pod.priority)) for one, pod in there.items()}
        asking = new("asking") if random.random() < 0.7 else there.get(uid, new("asking"))
        own = asking.metadata.labels.get("g", "")
        evicts = int(own) % 2 == 1 if own else asking.spec.preemption_policy != "Never"
        least = int(own or asking.priority) if evicts or not own else 0
        keeps_groups = not own and not evicts

        found = nominated.for_pod(asking, profile)
        members = {one for one, pod in there.items() if pod.metadata.labels}
        respected = {
            one for one in there if rank[one] >= least or (keeps_groups and one in members)
        }
        on = found.on(found.rows)
        assert {cluster.table.rows[at[one]] for one in respected} == set(found.rows.tolist())
        assert respected - {asking.metadata.uid} == {
            one.pod.metadata.uid for _, one in on.everybody()
        }
        connected = {
            one
            for one in members
            if there[one].metadata.labels.get("g") != own and (keeps_groups or rank[one] >= least)
        }
        apart = {one.pod.metadata.uid: one for some in found.apart().values() for one in some}
        assert connected == apart.keys()
        for one, placed in apart.items():
            assert (there[one], at[one]) == (placed.pod, placed.node)


def test_a_change_of_its_node_wakes_a_nominated_pod_and_no_other():
    """The nomination may be stale after a change of its node, whatever the hints of the plugins
    that rejected the pod.
    """
    rig = rig_with(make_pod("p", nominated="n0", cpu=9), make_pod("q", cpu=9), cpu=1, nodes=2)
    rig.run()
    assert [Where.UNSCHEDULABLE] * 2 == [rig.where("p"), rig.where("q")]
    for node, wakes in (("n1", False), ("n0", True)):
        rig.api.put("Node", make_node(node, cpu=1, labels={"changed": "yes"}))
        rig.watch("Node")
        rig.run(0)
        assert wakes == (rig.where("p") is not Where.UNSCHEDULABLE)
        assert Where.UNSCHEDULABLE is rig.where("q")
