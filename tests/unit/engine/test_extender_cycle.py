"""The effect of extenders' answers on a pod, and events while an answer is awaited."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from scheduler.engine.attempt.suspended import GRACE_S
from scheduler.engine.effects import (
    Answer,
    AskExtender,
    Bind,
    Evict,
    ExtenderAnswer,
    Look,
    Record,
    SetStatus,
)
from scheduler.engine.engine import Engine
from scheduler.engine.extender.extenders import ConfiguredExtender
from scheduler.engine.extender.protocol import FilterVerdict, rejection_of
from scheduler.engine.queue.pod import Where
from scheduler.framework.calls import Offer
from scheduler.framework.nodes import Nodes
from scheduler.framework.registry import Registry
from scheduler.objects.node import Node
from scheduler.objects.pod import Container, ResourceRequirements
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod, node_with
from tests.property.rig import Rig
from tests.property.tinyplugins import ALL, settings_with, spec_of, tiny_engine

FILTER = ConfiguredExtender(0, "http://f", filters=True)


class Exchange:
    """A rig whose requests to extenders are answered by the test."""

    def __init__(
        self, *extenders: ConfiguredExtender, nodes: int = 2, cpu: int = 4, **pod: Any
    ) -> None:
        build = self.build = lambda: tiny_engine(settings_with(extenders=extenders))
        self.rig = Rig(build)
        self.engine: Engine = self.rig.engine
        for number in range(nodes):
            self.rig.api.put("Node", make_node(f"n{number}", cpu=cpu - number))
        self.rig.api.put("Pod", make_pod("p", **pod))
        self.rig.watch("Node")
        self.rig.watch("Pod")
        self.rig.run()

    def asked(self) -> list[AskExtender]:
        """Remove all extender calls in flight and return them."""
        found = [effect for effect in self.rig.wire if isinstance(effect, AskExtender)]
        self.rig.wire = [e for e in self.rig.wire if not isinstance(e, AskExtender)]
        return found

    def question(self) -> AskExtender:
        """Remove the only extender call in flight and return it."""
        (found,) = self.asked()
        return found

    def say(self, question: AskExtender, **answer: Any) -> None:
        """Answer a call."""
        body = ExtenderAnswer(**answer)
        self.rig.handle(Answer(question.id, 200, body=body))
        self.rig.run()

    def fail(self, question: AskExtender, message: str = "no") -> None:
        """End a call without an answer, as the executor reports it."""
        self.rig.handle(Answer(question.id, 0, "ExtenderFailed", message))
        self.rig.run()

    def bound(self) -> str:
        """Return the node of the bind in flight, or ''."""
        return next((e.node for e in self.rig.wire if isinstance(e, Bind)), "")

    def last_message(self) -> str:
        """Return the message of the last event about the pod."""
        return [e.note for e in self.rig.wire if isinstance(e, Record)][-1]


# Filtering.


def test_a_filter_sees_what_the_plugins_left():
    """The names of feasible nodes are sent, and only nodes that the extender passes may be
    chosen.
    """
    exchange = Exchange(FILTER, nodes=4)
    question = exchange.question()
    assert ("filter", "uid-p", ("n0", "n1", "n2", "n3")) == (
        question.verb,
        question.uid,
        question.nodes,
    )
    exchange.say(question, nodes=("n2",))

    assert "n2" == exchange.bound()


def test_a_node_without_capacity_is_not_sent():
    """Plugins filter before extenders, so an extender receives no node that lacks capacity."""
    exchange = Exchange(FILTER, nodes=3, cpu=3, requests={"cpu": 2})

    assert ("n0", "n1") == exchange.question().nodes


def test_extenders_are_asked_one_after_the_other():
    """The second extender receives the nodes that the first passed. The third is not called,
    because no node is left.
    """
    exchange = Exchange(
        FILTER,
        ConfiguredExtender(1, "http://g", filters=True),
        ConfiguredExtender(2, "http://h", filters=True),
    )
    exchange.say(exchange.question(), nodes=("n1",), failed={"n0": "too old"})
    second = exchange.question()
    assert (1, ("n1",)) == (second.extender, second.nodes)
    exchange.say(second, nodes=(), unresolvable={"n1": "too new"})

    assert [] == exchange.asked()
    assert exchange.last_message().startswith("0/2 nodes are available: 1 too new, 1 too old.")
    assert ("Extender",) == exchange.rig.queued("p").rejected_by
    waiting = exchange.engine.observation.meters.unschedulable_pods.samples()
    assert ("Extender", "trellis") in [sample.labels for sample in waiting]


def test_nodes_without_a_message_have_no_reason():
    """The message counts all nodes, and names no reason for nodes that the extender rejected
    without one.
    """
    exchange = Exchange(FILTER)
    exchange.say(exchange.question(), nodes=None)

    assert exchange.last_message().startswith("0/2 nodes are available: not asked to")


def test_an_error_ends_the_attempt():
    """The pod fails with the extender's message and waits its back-off."""
    exchange = Exchange(FILTER)
    exchange.say(exchange.question(), error="database is away")

    assert "database is away" == exchange.last_message()
    assert Where.ERROR_BACKOFF is exchange.rig.where("p")


def test_an_unrequested_node_in_a_response_is_an_error():
    """An extender may only choose among the nodes it received."""
    exchange = Exchange(FILTER)
    exchange.say(exchange.question(), nodes=("n0", "nx"))

    assert exchange.last_message() == (
        'extender "http://f" claims a filtered node "nx" which is not found in the input node list'
    )


def test_an_ignorable_extender_that_fails_is_passed_over():
    """If an ignorable extender fails, the pod is scheduled without it, and the fault is
    reported.
    """
    exchange = Exchange(ConfiguredExtender(0, "http://f", filters=True, ignorable=True))
    exchange.fail(exchange.question())

    assert "n0" == exchange.bound()
    assert [("http://f", "Filter")] == exchange.rig.faults


def test_an_extender_that_is_not_interested_is_not_asked():
    """An extender is called only for pods whose containers request or limit one of its managed
    resources.
    """
    gpu = ConfiguredExtender(0, "http://f", filters=True, managed=frozenset({"e.io/gpu"}))
    assert [] == Exchange(gpu).asked()

    for resources in (
        ResourceRequirements(requests={"e.io/gpu": 1}),
        ResourceRequirements(limits={"e.io/gpu": 1}),
    ):
        container = Container(resources=resources)
        assert gpu.is_interested(make_pod("q", init_containers=(container,)))
    assert not gpu.is_interested(make_pod("q", requests={"e.io/other": 1}))


# Scoring.


def test_scores_are_added_on_the_plugins_scale():
    """An extender adds ten times its score times its weight. All scoring extenders are called at
    once.
    """
    exchange = Exchange(
        ConfiguredExtender(0, "http://f", prioritizes=True, weight=2),
        ConfiguredExtender(1, "http://g", prioritizes=True, weight=1),
        nodes=3,
    )
    decisions: list[Any] = []
    exchange.engine.observation.on_decision = lambda _queued, decision: decisions.append(decision)
    first, second = exchange.asked()
    assert ("prioritize", ("n0", "n1", "n2")) == (first.verb, second.nodes)
    exchange.say(second, scores=(("n1", 10), ("n2", 1), ("gone", 10)))
    exchange.say(first, scores=(("n2", 9),))

    assert "n2" == exchange.bound()
    (decision,) = decisions
    scores = {one.plugin: (one.raw.tolist(), one.weight) for one in decision.scores[-2:]}
    assert {"http://f": ([0, 0, 9], 2), "http://g": ([0, 10, 1], 1)} == scores
    plugins = decision.scores[:-2]
    own = sum(one.normalized * one.weight for one in plugins)
    assert [0, 100, 190] == (decision.total - own).tolist()


def test_one_node_alone_is_not_scored():
    """With one feasible node no extender is called for scores."""
    exchange = Exchange(FILTER, ConfiguredExtender(1, "http://g", prioritizes=True))
    exchange.say(exchange.question(), nodes=("n1",))

    assert ("n1", []) == (exchange.bound(), exchange.asked())


def test_a_failing_scorer_gives_no_scores():
    """kube-scheduler: only filtering and binding can fail a pod."""
    exchange = Exchange(ConfiguredExtender(0, "http://g", prioritizes=True))
    exchange.fail(exchange.question())

    assert "n0" == exchange.bound()
    assert [("http://g", "Prioritize")] == exchange.rig.faults


def test_any_number_may_come_as_a_score():
    """A node with a negative total precedes infeasible nodes, and large scores do not overflow."""
    exchange = Exchange(ConfiguredExtender(0, "http://g", prioritizes=True, weight=100), nodes=3)
    exchange.say(exchange.question(), scores=(("n0", -(2**70)), ("n1", -(10**6)), ("n2", -(2**63))))

    assert "n1" == exchange.bound()


# While the answer is awaited.


def test_the_profile_waits():
    """While an extender is called, no other pod of the profile is tried, the engine has no work,
    and its deadline is set.
    """
    exchange = Exchange(FILTER)
    exchange.rig.api.put("Pod", make_pod("q"))
    exchange.rig.watch("Pod")
    exchange.rig.run()
    assert not exchange.engine.has_work()
    assert exchange.rig.now + FILTER.timeout_s + GRACE_S == exchange.engine.next_wakeup()
    exchange.say(exchange.question(), nodes=("n0",))

    assert "uid-q" == exchange.question().uid


def test_another_profile_goes_on():
    """A waiting profile does not block another one."""
    gpu = ConfiguredExtender(0, "http://f", filters=True, managed=frozenset({"e.io/gpu"}))
    specs = [spec_of(*ALL), spec_of(*ALL, name="other")]
    rig = Rig(lambda: Engine(specs, Registry(ALL), settings=settings_with(extenders=(gpu,))))
    rig.api.put("Node", make_node("n0", allocatable={"e.io/gpu": 1}))
    rig.api.put("Pod", make_pod("p", requests={"e.io/gpu": 1}))
    rig.watch("Node")
    rig.watch("Pod")
    rig.run()
    rig.api.put("Pod", make_pod("q"))
    rig.api.put("Pod", make_pod("r", scheduler="other"))
    rig.watch("Pod")
    rig.run()

    assert ["uid-r"] == [e.uid for e in rig.wire if isinstance(e, Bind)]
    assert Where.ACTIVE is rig.where("q")


def test_no_answer_at_all():
    """Without an answer, the attempt fails after the extender's time limit and a margin. A late
    answer has no effect.
    """
    exchange = Exchange(FILTER)
    question = exchange.question()
    exchange.rig.pass_time(FILTER.timeout_s + GRACE_S)
    exchange.rig.run(cycles=0)
    assert "context deadline exceeded" == exchange.last_message()
    exchange.rig.pass_time(1.0)  # the back-off, counted from the failure
    exchange.rig.run()
    again = exchange.question()
    exchange.say(question, nodes=("n0",))
    assert "" == exchange.bound()
    exchange.say(again, nodes=("n1",))

    assert "n1" == exchange.bound()


def test_the_pod_is_deleted():
    """The cycle of a deleted pod is dropped, and the next pod is tried."""
    exchange = Exchange(FILTER)
    exchange.rig.api.put("Pod", make_pod("q"))
    exchange.rig.api.remove("Pod", "default/p")
    exchange.rig.watch("Pod")
    exchange.rig.run()
    late, following = exchange.asked()
    assert ("uid-p", "uid-q") == (late.uid, following.uid)
    exchange.say(late, nodes=("n0",))
    assert "" == exchange.bound()
    exchange.say(following, nodes=("n1",))

    assert "n1" == exchange.bound()


def test_the_pod_is_asked_to_go():
    """A pod with a deletion timestamp is not bound."""
    exchange = Exchange(FILTER)
    exchange.rig.api.terminate("default/p")
    exchange.rig.watch("Pod")
    exchange.say(exchange.question(), nodes=("n0",))

    assert "skip schedule deleting pod: default/p" == exchange.last_message()
    assert Where.GONE is exchange.rig.where("p")


def test_another_scheduler_binds_the_pod():
    """The cycle ends without a decision."""
    exchange = Exchange(FILTER)
    exchange.rig.api.bind_foreign("default/p", "n1")
    exchange.rig.watch("Pod")
    exchange.say(exchange.question(), nodes=("n0",))

    assert ("", Where.GONE) == (exchange.bound(), exchange.rig.where("p"))


def shrink(exchange: Exchange) -> None:
    """Leave no capacity on `n0`."""
    node: Node = exchange.rig.api.nodes["n0"]
    exchange.rig.api.put("Node", node_with(node, allocatable={"cpu": 0, "pods": 110}))


def replace(exchange: Exchange) -> None:
    """Create new nodes in the rows of the old ones."""
    exchange.rig.api.remove("Node", "n0")
    for name in ("n8", "n9"):
        exchange.rig.api.put("Node", make_node(name, cpu=64))


@pytest.mark.parametrize("change", [shrink, replace])
def test_the_nodes_change(change: Callable[[Exchange], None]):
    """The plugins filter again; a node that no extender has seen is not chosen."""
    exchange = Exchange(FILTER)
    change(exchange)
    exchange.rig.watch("Node")
    exchange.say(exchange.question(), nodes=("n0", "n1"))

    assert "n1" == exchange.bound()


def test_a_node_that_came_meanwhile_is_shown_before_the_pod_is_given_up():
    """A node added during the call is sent to the extenders once. A node added after that causes a
    retry of the pod.
    """
    exchange = Exchange(FILTER, nodes=1)
    for name in ("n1", "n2"):
        exchange.rig.api.put("Node", make_node(name))
        exchange.rig.watch("Node")
        question = exchange.question()
        exchange.say(question, nodes=(), failed=dict.fromkeys(question.nodes, "no"))
    assert exchange.last_message().startswith("0/3 nodes are available: 2 no.")
    exchange.rig.pass_time(1)
    exchange.rig.run()

    assert ("n0", "n1", "n2") == exchange.question().nodes


def test_all_nodes_go():
    """If all nodes are deleted during the call, the message is that of a cluster without nodes."""
    exchange = Exchange(FILTER)
    for name in ("n0", "n1"):
        exchange.rig.api.remove("Node", name)
    exchange.rig.watch("Node")
    exchange.say(exchange.question(), nodes=("n0", "n1"))

    assert "no nodes available to schedule pods" == exchange.last_message()


def test_the_lease_is_lost():
    """Without the lease no further extender is called. When it is regained, the pod is tried again
    and earlier answers are ignored.
    """
    exchange = Exchange(FILTER)
    before = exchange.question()
    exchange.rig.lead(active=False)
    exchange.rig.run()
    assert (0, Where.ACTIVE) == (len(exchange.engine.suspended), exchange.rig.where("p"))
    exchange.rig.handle(Answer(before.id, 200, body=ExtenderAnswer(nodes=("n0",))))
    exchange.rig.lead(active=True)
    exchange.rig.run()
    exchange.say(exchange.question(), nodes=("n1",))

    assert "n1" == exchange.bound()


# A nominated pod.


def test_the_nominated_node_is_sent_alone():
    """The nominated node is sent first, alone. If it passes, the pod is placed there without
    another call.
    """
    exchange = Exchange(FILTER, nodes=3, nominated="n2")
    question = exchange.question()
    assert ("n2",) == question.nodes
    exchange.say(question, nodes=("n2",))

    assert ("n2", []) == (exchange.bound(), exchange.asked())


@pytest.mark.parametrize("fails", [True, False])
def test_the_others_are_asked_about_when_it_does_not_pass(*, fails: bool):
    """Rejection and failure of the extender have the same effect: as in kube-scheduler, all nodes
    are tried next.
    """
    exchange = Exchange(FILTER, nominated="n1")
    if fails:
        exchange.fail(exchange.question())
    else:
        exchange.say(exchange.question(), nodes=(), failed={"n1": "no"})
    question = exchange.question()
    assert ("n0", "n1") == question.nodes
    exchange.say(question, nodes=("n0",))

    assert "n0" == exchange.bound()


def test_a_nomination_ends_with_the_last_node():
    """An extender is not called without nodes; the nomination is cleared as without extenders."""
    exchange = Exchange(FILTER, nodes=0, nominated="n0")
    exchange.rig.run()
    patches = [e.nominated_node for e in exchange.rig.wire if isinstance(e, SetStatus)]

    assert ([""], 0) == (patches, len(exchange.engine.nominations))


# Preemption.

PREEMPT = ConfiguredExtender(0, "http://e", preempts=True)


def full(*extenders: ConfiguredExtender) -> Exchange:
    """Return an exchange about a pod that needs an eviction: `low-a` is on n0, `low-b` on n1."""
    exchange = Exchange(*extenders, nodes=0, cpu=2, priority=5, labels={"preempt": "yes"})
    for name, node in (("low-a", "n0"), ("low-b", "n1")):
        exchange.rig.api.put("Node", make_node(node, cpu=1))
        exchange.rig.api.put("Pod", make_pod(name, node=node))
    exchange.rig.watch("Node")
    exchange.rig.watch("Pod")
    exchange.rig.pass_time(1)
    exchange.rig.run()
    return exchange


def evicted(exchange: Exchange) -> list[str]:
    """Return the names of the pods that are being evicted."""
    return [effect.name for effect in exchange.rig.wire if isinstance(effect, Evict)]


def test_an_extender_chooses_among_the_candidates():
    """The extender receives each node with its victims, and the pods that it drops are not
    evicted.
    """
    exchange = full(PREEMPT)
    question = exchange.question()
    offers = (Offer("n0", ("uid-low-a",)), Offer("n1", ("uid-low-b",)))
    assert ("preempt", offers) == (question.verb, question.offers)
    exchange.say(question, offers=offers[1:])

    assert ["low-b"] == evicted(exchange)
    assert "n1" == exchange.engine.nominations.node_of("uid-p")
    assert exchange.last_message().endswith(" goes to n1")


def test_an_extender_may_add_a_victim_that_runs_on_the_node():
    """As in kube-scheduler, the extender may name a pod that was not among the victims sent to
    it.
    """
    exchange = full(PREEMPT)
    question = exchange.question()
    exchange.rig.api.put("Pod", make_pod("low-c", node="n0"))
    exchange.rig.watch("Pod")
    exchange.say(question, offers=(Offer("n0", ("uid-low-a", "uid-low-c")),))

    assert ["low-a", "low-c"] == sorted(evicted(exchange))


def test_nothing_is_left_of_the_candidates():
    """If the extender drops all candidates, the pod waits with a message that states it."""
    exchange = full(PREEMPT)
    exchange.say(exchange.question(), offers=())

    assert [] == evicted(exchange)
    assert exchange.last_message().endswith("preemption: no candidate node for preemption")


@pytest.mark.parametrize(
    ("offers", "text"),
    [
        ((Offer("n0", ("uid-x",)),), "claims to preempt pod (UID: uid-x) on node: n0"),
        ((Offer("n0", ()),), 'expected at least one victim pod on node "n0"'),
        ((Offer("nx", ("uid-low-a",)),), 'nodeinfo not found for node name "nx"'),
    ],
)
@pytest.mark.parametrize("ignorable", [True, False])
def test_an_answer_about_victims_that_makes_no_sense(
    offers: tuple[Offer, ...], text: str, *, ignorable: bool
):
    """For an invalid answer about victims, an ignorable extender is skipped; another one ends the
    preemption.
    """
    exchange = full(ConfiguredExtender(0, "http://e", preempts=True, ignorable=ignorable))
    exchange.say(exchange.question(), offers=offers)

    if ignorable and offers[0].victims:
        assert ["low-a"] == evicted(exchange)
    elif ignorable:
        assert exchange.last_message().endswith("no candidate node for preemption")
    else:
        assert [] == evicted(exchange)
        assert f"preemption: {text}" in exchange.last_message() or text in exchange.last_message()
        assert Where.UNSCHEDULABLE is exchange.rig.where("p")


def test_the_victim_goes_while_the_extender_thinks():
    """If the victim terminates during the call, no pod is evicted; the next attempt finds the freed
    capacity.
    """
    exchange = full(PREEMPT)
    question = exchange.question()
    exchange.rig.api.remove("Pod", "default/low-a")
    exchange.rig.watch("Pod")
    exchange.say(question, offers=(Offer("n0", ("uid-low-a",)),))
    assert [] == evicted(exchange)
    assert exchange.last_message().endswith("preemption: no candidate node for preemption")
    exchange.rig.pass_time(10)
    exchange.rig.run()

    assert "n0" == exchange.bound()


# Binding.

BIND = ConfiguredExtender(0, "http://b", binds=True)


def test_an_extender_binds_instead_of_the_plugins():
    """The extender receives pod and node; no other bind is sent, and the pod gets its event."""
    exchange = Exchange(BIND)
    question = exchange.question()
    assert ("bind", "default", "p", "uid-p", ("n0",)) == (
        question.verb,
        question.namespace,
        question.name,
        question.uid,
        question.nodes,
    )
    exchange.say(question)

    assert "Successfully assigned default/p to n0" == exchange.last_message()
    assert "" == exchange.bound()


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_failed_bind_is_looked_up(*, is_bound: bool):
    """Whatever the extender answers, the pod may be bound: it is looked up before its capacity is
    released.
    """
    exchange = Exchange(BIND)
    question = exchange.question()
    if is_bound:
        exchange.rig.api.perform(Bind(0, "default", "p", "uid-p", "n0"))
    exchange.fail(question, "cannot bind")
    (place,) = [i for i, e in enumerate(exchange.rig.wire) if isinstance(e, Look)]
    exchange.rig.perform(place)
    exchange.rig.deliver(0)
    exchange.rig.run()

    assert ("Successfully" in exchange.last_message()) is is_bound
    assert is_bound or "cannot bind" == exchange.last_message()


def test_an_ignorable_binder_that_fails_leaves_it_to_the_plugins():
    """The pod is bound by the plugins."""
    exchange = Exchange(ConfiguredExtender(0, "http://b", binds=True, ignorable=True))
    exchange.fail(exchange.question())
    exchange.rig.perform(next(i for i, e in enumerate(exchange.rig.wire) if isinstance(e, Look)))
    exchange.rig.deliver(0)
    exchange.rig.run()

    assert "n0" == exchange.bound()


def test_plugins_before_the_bind_are_carried_out():
    """A call of a pre-bind plugin is sent first, and its fault ends the attempt as usual."""
    exchange = Exchange(BIND, labels={"prebind": "call"})
    assert [] == exchange.asked()
    place = next(i for i, e in enumerate(exchange.rig.wire) if type(e).__name__ == "Call")
    exchange.rig.perform(place)
    exchange.rig.deliver(0)
    exchange.rig.run()
    assert "bind" == exchange.question().verb

    broken = Exchange(BIND, labels={"raise": "pre_bind", "times": "1"})
    assert 'running PreBind plugin "Raiser": broken at pre_bind' == broken.last_message()


def test_only_nodes_with_a_reason_that_is_not_final_may_get_capacity_by_evictions():
    """Nodes that an extender rejects without a reason, or as unresolvable, are no candidates;
    unresolvable takes precedence. Rejected nodes are grouped by reason.
    """
    cluster = Cluster()
    for name in "sabcde":
        cluster.put_node(make_node(name))
    nodes = Nodes(cluster.table, cluster.pods)
    verdict = FilterVerdict(
        (), failed={"a": "full", "b": "full", "c": "full", "e": "full"},
        unresolvable={"c": "full", "d": "gone"},
    )  # fmt: skip
    refused = np.array([True, True, True, True, True, False])

    found = rejection_of(nodes, refused, verdict).rejected
    assert [True, False, False, True, True, False] == found.final.tolist()
    assert {("ab", "full"), ("c", "full"), ("d", "gone")} == {
        ("".join(nodes.name(row) for row in np.flatnonzero(one.rows).tolist()), one.text)
        for one in found.reasons
    }
    silent = rejection_of(nodes, refused, FilterVerdict(())).rejected
    assert refused.tolist() == silent.final.tolist()
    assert () == silent.reasons
