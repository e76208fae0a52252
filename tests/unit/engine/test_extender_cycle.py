"""The effect of extenders' answers on a pod, and events while an answer is awaited."""

from collections.abc import Callable
from typing import Any

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
from scheduler.engine.queue.pod import Where
from scheduler.framework.calls import Offer
from scheduler.framework.registry import Registry
from scheduler.objects.node import Node
from scheduler.objects.pod import Container, ResourceRequirements
from tests.property.making import make_node, make_pod, node_with
from tests.property.rig import Rig
from tests.property.tinyplugins import ALL, settings_with, spec_of, tiny_engine

FILTER = ConfiguredExtender(0, "http://f", filters=True)


class Talk:
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
        """Take the questions off the wire."""
        found = [effect for effect in self.rig.wire if isinstance(effect, AskExtender)]
        self.rig.wire = [e for e in self.rig.wire if not isinstance(e, AskExtender)]
        return found

    def question(self) -> AskExtender:
        """Remove the only question in flight."""
        (found,) = self.asked()
        return found

    def say(self, question: AskExtender, **answer: Any) -> None:
        """Answer a request."""
        body = ExtenderAnswer(**answer)
        self.rig.hear(Answer(question.id, 200, body=body))
        self.rig.run()

    def fail(self, question: AskExtender, message: str = "no") -> None:
        """Leave a question unanswered, as the executor reports it."""
        self.rig.hear(Answer(question.id, 0, "ExtenderFailed", message))
        self.rig.run()

    def bound(self) -> str:
        """Return the node of the bind on the wire, or an empty text."""
        return next((e.node for e in self.rig.wire if isinstance(e, Bind)), "")

    def told(self) -> str:
        """Return the message of the last event about the pod."""
        return [e.note for e in self.rig.wire if isinstance(e, Record)][-1]


# Filtering.


def test_a_filter_sees_what_the_plugins_left():
    """Names of feasible nodes are sent; only those that pass may be chosen."""
    talk = Talk(FILTER, nodes=4)
    question = talk.question()
    assert ("filter", "uid-p", ("n0", "n1", "n2", "n3")) == (
        question.verb,
        question.uid,
        question.nodes,
    )
    talk.say(question, nodes=("n2",))

    assert "n2" == talk.bound()


def test_a_node_without_room_is_not_shown():
    """Plugins filter before extenders."""
    talk = Talk(FILTER, nodes=3, cpu=3, requests={"cpu": 2})

    assert ("n0", "n1") == talk.question().nodes


def test_extenders_are_asked_one_after_the_other():
    """The second receives the nodes that the first passed; for the third none is left."""
    talk = Talk(
        FILTER,
        ConfiguredExtender(1, "http://g", filters=True),
        ConfiguredExtender(2, "http://h", filters=True),
    )
    talk.say(talk.question(), nodes=("n1",), failed={"n0": "too old"})
    second = talk.question()
    assert (1, ("n1",)) == (second.extender, second.nodes)
    talk.say(second, nodes=(), unresolvable={"n1": "too new"})

    assert [] == talk.asked()
    assert talk.told().startswith("0/2 nodes are available: 1 too new, 1 too old.")
    assert ("Extender",) == talk.rig.queued("p").rejected_by
    waiting = talk.engine.observation.meters.unschedulable_pods.samples()
    assert ("Extender", "trellis") in [sample.labels for sample in waiting]


def test_nodes_of_which_nothing_is_said_have_no_reason():
    """The sentence counts all nodes and names no reason for them."""
    talk = Talk(FILTER)
    talk.say(talk.question(), nodes=None)

    assert talk.told().startswith("0/2 nodes are available: not asked to")


def test_an_error_ends_the_attempt():
    """The pod fails with the extender's message and waits its back-off."""
    talk = Talk(FILTER)
    talk.say(talk.question(), error="database is away")

    assert "database is away" == talk.told()
    assert Where.ERROR_BACKOFF is talk.rig.where("p")


def test_a_node_that_nobody_asked_about_is_an_error():
    """An extender may only choose among the nodes it received."""
    talk = Talk(FILTER)
    talk.say(talk.question(), nodes=("n0", "nx"))

    assert talk.told() == (
        'extender "http://f" claims a filtered node "nx" which is not found in the input node list'
    )


def test_an_ignorable_extender_that_fails_is_passed_over():
    """The pod is scheduled as without it, and the fault is reported."""
    talk = Talk(ConfiguredExtender(0, "http://f", filters=True, ignorable=True))
    talk.fail(talk.question())

    assert "n0" == talk.bound()
    assert [("http://f", "Filter")] == talk.rig.faults


def test_an_extender_that_is_not_interested_is_not_asked():
    """Its managed resources decide, in requests and limits of all containers."""
    gpu = ConfiguredExtender(0, "http://f", filters=True, managed=frozenset({"e.io/gpu"}))
    assert [] == Talk(gpu).asked()

    for resources in (
        ResourceRequirements(requests={"e.io/gpu": 1}),
        ResourceRequirements(limits={"e.io/gpu": 1}),
    ):
        container = Container(resources=resources)
        assert gpu.is_interested(make_pod("q", init_containers=(container,)))
    assert not gpu.is_interested(make_pod("q", requests={"e.io/other": 1}))


# Scoring.


def test_scores_are_added_on_the_plugins_scale():
    """Ten times the score times the weight; all scoring extenders are called at once."""
    talk = Talk(
        ConfiguredExtender(0, "http://f", prioritizes=True, weight=2),
        ConfiguredExtender(1, "http://g", prioritizes=True, weight=1),
        nodes=3,
    )
    decisions: list[Any] = []
    talk.engine.observation.on_decision = lambda _queued, decision: decisions.append(decision)
    first, second = talk.asked()
    assert ("prioritize", ("n0", "n1", "n2")) == (first.verb, second.nodes)
    talk.say(second, scores=(("n1", 10), ("n2", 1), ("gone", 10)))
    talk.say(first, scores=(("n2", 9),))

    assert "n2" == talk.bound()
    (decision,) = decisions
    scores = {one.plugin: (one.raw.tolist(), one.weight) for one in decision.scores[-2:]}
    assert {"http://f": ([0, 0, 9], 2), "http://g": ([0, 10, 1], 1)} == scores
    plugins = decision.scores[:-2]
    own = sum(one.normalized * one.weight for one in plugins)
    assert [0, 100, 190] == (decision.total - own).tolist()


def test_one_node_alone_is_not_scored():
    """No extender is called for scores."""
    talk = Talk(FILTER, ConfiguredExtender(1, "http://g", prioritizes=True))
    talk.say(talk.question(), nodes=("n1",))

    assert ("n1", []) == (talk.bound(), talk.asked())


def test_a_failing_scorer_gives_no_scores():
    """kube-scheduler: only filtering and binding can fail a pod."""
    talk = Talk(ConfiguredExtender(0, "http://g", prioritizes=True))
    talk.fail(talk.question())

    assert "n0" == talk.bound()
    assert [("http://g", "Prioritize")] == talk.rig.faults


def test_any_number_may_come_as_a_score():
    """Negative totals still beat infeasible nodes, and huge ones do not overflow."""
    talk = Talk(ConfiguredExtender(0, "http://g", prioritizes=True, weight=100), nodes=3)
    talk.say(talk.question(), scores=(("n0", -(2**70)), ("n1", -(10**6)), ("n2", -(2**63))))

    assert "n1" == talk.bound()


# While the answer is awaited.


def test_the_profile_waits():
    """No other pod of the profile is tried, no work is left, and the engine has a deadline."""
    talk = Talk(FILTER)
    talk.rig.api.put("Pod", make_pod("q"))
    talk.rig.watch("Pod")
    talk.rig.run()
    assert not talk.engine.has_work()
    assert talk.rig.now + FILTER.timeout_s + GRACE_S == talk.engine.next_wakeup()
    talk.say(talk.question(), nodes=("n0",))

    assert "uid-q" == talk.question().uid


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
    """After the extender's time limit and a margin the attempt fails; a late answer changes
    nothing.
    """
    talk = Talk(FILTER)
    question = talk.question()
    talk.rig.pass_time(FILTER.timeout_s + GRACE_S)
    talk.rig.run(cycles=0)
    assert "context deadline exceeded" == talk.told()
    talk.rig.pass_time(1.0)  # the back-off, counted from the failure
    talk.rig.run()
    again = talk.question()
    talk.say(question, nodes=("n0",))
    assert "" == talk.bound()
    talk.say(again, nodes=("n1",))

    assert "n1" == talk.bound()


def test_the_pod_is_deleted():
    """Its cycle is dropped, and the next pod is tried."""
    talk = Talk(FILTER)
    talk.rig.api.put("Pod", make_pod("q"))
    talk.rig.api.remove("Pod", "default/p")
    talk.rig.watch("Pod")
    talk.rig.run()
    late, following = talk.asked()
    assert ("uid-p", "uid-q") == (late.uid, following.uid)
    talk.say(late, nodes=("n0",))
    assert "" == talk.bound()
    talk.say(following, nodes=("n1",))

    assert "n1" == talk.bound()


def test_the_pod_is_asked_to_go():
    """A pod that is being deleted is not bound any more."""
    talk = Talk(FILTER)
    talk.rig.api.terminate("default/p")
    talk.rig.watch("Pod")
    talk.say(talk.question(), nodes=("n0",))

    assert "skip schedule deleting pod: default/p" == talk.told()
    assert Where.GONE is talk.rig.where("p")


def test_somebody_else_binds_the_pod():
    """The cycle ends without a decision."""
    talk = Talk(FILTER)
    talk.rig.api.bind_foreign("default/p", "n1")
    talk.rig.watch("Pod")
    talk.say(talk.question(), nodes=("n0",))

    assert ("", Where.GONE) == (talk.bound(), talk.rig.where("p"))


def shrink(talk: Talk) -> None:
    """Leave no capacity on `n0`."""
    node: Node = talk.rig.api.nodes["n0"]
    talk.rig.api.put("Node", node_with(node, allocatable={"cpu": 0, "pods": 110}))


def replace(talk: Talk) -> None:
    """Create new nodes in the rows of the old ones."""
    talk.rig.api.remove("Node", "n0")
    for name in ("n8", "n9"):
        talk.rig.api.put("Node", make_node(name, cpu=64))


@pytest.mark.parametrize("change", [shrink, replace])
def test_the_nodes_change(change: Callable[[Talk], None]):
    """The plugins filter again; a node that no extender has seen is not chosen."""
    talk = Talk(FILTER)
    change(talk)
    talk.rig.watch("Node")
    talk.say(talk.question(), nodes=("n0", "n1"))

    assert "n1" == talk.bound()


def test_a_node_that_came_meanwhile_is_shown_before_the_pod_is_given_up():
    """Once: a node added after that causes a retry of the pod."""
    talk = Talk(FILTER, nodes=1)
    for name in ("n1", "n2"):
        talk.rig.api.put("Node", make_node(name))
        talk.rig.watch("Node")
        question = talk.question()
        talk.say(question, nodes=(), failed=dict.fromkeys(question.nodes, "no"))
    assert talk.told().startswith("0/3 nodes are available: 2 no.")
    talk.rig.pass_time(1)
    talk.rig.run()

    assert ("n0", "n1", "n2") == talk.question().nodes


def test_all_nodes_go():
    """The message is that of a cluster without nodes."""
    talk = Talk(FILTER)
    for name in ("n0", "n1"):
        talk.rig.api.remove("Node", name)
    talk.rig.watch("Node")
    talk.say(talk.question(), nodes=("n0", "n1"))

    assert "no nodes available to schedule pods" == talk.told()


def test_the_lease_is_lost():
    """No further call is made.

    With the lease regained the pod is tried again, other answers are late.
    """
    talk = Talk(FILTER)
    before = talk.question()
    talk.rig.lead(active=False)
    talk.rig.run()
    assert (0, Where.ACTIVE) == (len(talk.engine.suspended), talk.rig.where("p"))
    talk.rig.hear(Answer(before.id, 200, body=ExtenderAnswer(nodes=("n0",))))
    talk.rig.lead(active=True)
    talk.rig.run()
    talk.say(talk.question(), nodes=("n1",))

    assert "n1" == talk.bound()


# A nominated pod.


def test_the_promised_node_is_asked_about_alone():
    """If it passes, the pod is placed there and no other node is sent."""
    talk = Talk(FILTER, nodes=3, nominated="n2")
    question = talk.question()
    assert ("n2",) == question.nodes
    talk.say(question, nodes=("n2",))

    assert ("n2", []) == (talk.bound(), talk.asked())


@pytest.mark.parametrize("fails", [True, False])
def test_the_others_are_asked_about_when_it_does_not_pass(*, fails: bool):
    """Rejection and failure of the extender have the same effect: as in kube-scheduler, all nodes
    are tried next.
    """
    talk = Talk(FILTER, nominated="n1")
    if fails:
        talk.fail(talk.question())
    else:
        talk.say(talk.question(), nodes=(), failed={"n1": "no"})
    question = talk.question()
    assert ("n0", "n1") == question.nodes
    talk.say(question, nodes=("n0",))

    assert "n0" == talk.bound()


def test_a_nomination_ends_with_the_last_node():
    """An extender is not called without nodes; the nomination is cleared as without extenders."""
    talk = Talk(FILTER, nodes=0, nominated="n0")
    talk.rig.run()
    patches = [e.nominated_node for e in talk.rig.wire if isinstance(e, SetStatus)]

    assert ([""], 0) == (patches, len(talk.engine.nominations))


# Preemption.

PREEMPT = ConfiguredExtender(0, "http://e", preempts=True)


def full(*extenders: ConfiguredExtender) -> Talk:
    """Return a talk about a pod that fits only after an eviction: `low-a` on n0, `low-b` on n1."""
    talk = Talk(*extenders, nodes=0, cpu=2, priority=5, labels={"preempt": "yes"})
    for name, node in (("low-a", "n0"), ("low-b", "n1")):
        talk.rig.api.put("Node", make_node(node, cpu=1))
        talk.rig.api.put("Pod", make_pod(name, node=node))
    talk.rig.watch("Node")
    talk.rig.watch("Pod")
    talk.rig.pass_time(1)
    talk.rig.run()
    return talk


def evicted(talk: Talk) -> list[str]:
    """Return the names of the pods that are being evicted."""
    return [effect.name for effect in talk.rig.wire if isinstance(effect, Evict)]


def test_an_extender_chooses_among_the_candidates():
    """It receives each node with its victims, and the pods that it drops are not evicted."""
    talk = full(PREEMPT)
    question = talk.question()
    offers = (Offer("n0", ("uid-low-a",)), Offer("n1", ("uid-low-b",)))
    assert ("preempt", offers) == (question.verb, question.offers)
    talk.say(question, offers=offers[1:])

    assert ["low-b"] == evicted(talk)
    assert "n1" == talk.engine.nominations.node_of("uid-p")
    assert talk.told().endswith(" goes to n1")


def test_nothing_is_left_of_the_candidates():
    """The pod waits, with that message."""
    talk = full(PREEMPT)
    talk.say(talk.question(), offers=())

    assert [] == evicted(talk)
    assert talk.told().endswith("preemption: no candidate node for preemption")


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
    """An ignorable extender is skipped, another one ends the preemption."""
    talk = full(ConfiguredExtender(0, "http://e", preempts=True, ignorable=ignorable))
    talk.say(talk.question(), offers=offers)

    if ignorable and offers[0].victims:
        assert ["low-a"] == evicted(talk)
    elif ignorable:
        assert talk.told().endswith("no candidate node for preemption")
    else:
        assert [] == evicted(talk)
        assert f"preemption: {text}" in talk.told() or text in talk.told()
        assert Where.UNSCHEDULABLE is talk.rig.where("p")


def test_the_victim_goes_while_the_extender_thinks():
    """No pod is evicted; the next attempt finds the capacity that it left."""
    talk = full(PREEMPT)
    question = talk.question()
    talk.rig.api.remove("Pod", "default/low-a")
    talk.rig.watch("Pod")
    talk.say(question, offers=(Offer("n0", ("uid-low-a",)),))
    assert [] == evicted(talk)
    assert talk.told().endswith("preemption: no candidate node for preemption")
    talk.rig.pass_time(10)
    talk.rig.run()

    assert "n0" == talk.bound()


# Binding.

BIND = ConfiguredExtender(0, "http://b", binds=True)


def test_an_extender_binds_instead_of_the_plugins():
    """It receives pod and node; no other bind is sent, and the pod gets its event."""
    talk = Talk(BIND)
    question = talk.question()
    assert ("bind", "default", "p", "uid-p", ("n0",)) == (
        question.verb,
        question.namespace,
        question.name,
        question.uid,
        question.nodes,
    )
    talk.say(question)

    assert "Successfully assigned default/p to n0" == talk.told()
    assert "" == talk.bound()


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_failed_bind_is_looked_up(*, is_bound: bool):
    """Whatever the extender answers, the pod may be bound: it is looked up before its capacity is
    released.
    """
    talk = Talk(BIND)
    question = talk.question()
    if is_bound:
        talk.rig.api.perform(Bind(0, "default", "p", "uid-p", "n0"))
    talk.fail(question, "cannot bind")
    (place,) = [i for i, e in enumerate(talk.rig.wire) if isinstance(e, Look)]
    talk.rig.perform(place)
    talk.rig.deliver(0)
    talk.rig.run()

    assert ("Successfully" in talk.told()) is is_bound
    assert is_bound or "cannot bind" == talk.told()


def test_an_ignorable_binder_that_fails_leaves_it_to_the_plugins():
    """The pod is bound by the plugins."""
    talk = Talk(ConfiguredExtender(0, "http://b", binds=True, ignorable=True))
    talk.fail(talk.question())
    talk.rig.perform(next(i for i, e in enumerate(talk.rig.wire) if isinstance(e, Look)))
    talk.rig.deliver(0)
    talk.rig.run()

    assert "n0" == talk.bound()


def test_plugins_before_the_bind_are_carried_out():
    """A call of a pre-bind plugin is sent first, and its fault ends the attempt as usual."""
    talk = Talk(BIND, labels={"prebind": "call"})
    assert [] == talk.asked()
    place = next(i for i, e in enumerate(talk.rig.wire) if type(e).__name__ == "Call")
    talk.rig.perform(place)
    talk.rig.deliver(0)
    talk.rig.run()
    assert "bind" == talk.question().verb

    broken = Talk(BIND, labels={"raise": "pre_bind", "times": "1"})
    assert 'running PreBind plugin "Trouble": broken at pre_bind' == broken.told()
