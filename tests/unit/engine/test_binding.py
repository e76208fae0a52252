"""From a chosen node to a bound pod: waits, deadlines, and plugins that fail in between."""

from collections import Counter
from collections.abc import Generator
from typing import Any, ClassVar

import pytest

from scheduler.engine.effects import Answer, Bind, Call, Look
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.framework.args import NoArgs
from scheduler.framework.calls import BindStep, CallResult, WaitUntil
from scheduler.framework.cycle import Cycle
from scheduler.framework.plugin import Plugin
from scheduler.framework.registry import Registry
from scheduler.framework.status import SUCCESS, Status, unschedulable
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Service
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig
from tests.property.tinyplugins import ALL, spec_of


class LastLeaves(Plugin[NoArgs]):
    """Before binding, waits until the pod `first` uses no capacity. The pod `first` itself never
    gets there.
    """

    reads = ("pod.deleted",)

    def pre_bind(self, cycle: Cycle, node: str) -> Generator[BindStep, CallResult, Status]:
        name = cycle.pod.metadata.name

        def alone() -> bool:
            return name != "first" and self.handle.pods.get("uid-first") is None

        answer = yield WaitUntil(alone, ("pod.deleted",), 20.0)
        return SUCCESS if answer.ok else unschedulable("waited in vain")


class Evaluated(Plugin[NoArgs]):
    """Wait before binding for the fact that the pod's label names; count the evaluations."""

    reads = ("Service", "pod.deleted")
    counts: ClassVar[Counter[str]] = Counter()

    def pre_bind(self, cycle: Cycle, node: str) -> Generator[BindStep, CallResult, Status]:
        fact = cycle.pod.metadata.labels["fact"]

        def count() -> bool:
            self.counts[fact] += 1
            return False

        answer = yield WaitUntil(count, (fact,), 20.0)
        return SUCCESS if answer.ok else unschedulable("waited in vain")


class Babbler(Plugin[NoArgs]):
    """A plugin that yields an invalid value."""

    def pre_bind(self, cycle: Cycle, node: str) -> Generator[Any, Any, Status]:
        yield "please"
        return SUCCESS


def rig_of(
    *more: type[Plugin[Any]], pods: tuple[str, ...] = ("p",), labels: dict[str, str] | None = None
) -> Rig:
    """Return a rig whose engine has tried these pods on one large node."""

    def build() -> Engine:
        return Engine([spec_of(*ALL, *more)], Registry((*ALL, *more)))

    rig = Rig(build)
    rig.api.put("Node", make_node("n0", cpu=16))
    for name in pods:
        rig.api.put("Pod", make_pod(name, labels=labels))
    rig.watch("Node")
    rig.watch("Pod")
    rig.run()
    return rig


def bind_of(rig: Rig) -> Bind:
    """Return the only bind in flight."""
    (bind,) = [effect for effect in rig.wire if isinstance(effect, Bind)]
    return bind


def test_a_wait_that_ends_another_wait_is_reported_once():
    """Two waits time out together. The end of the first fulfils the second, whose pod is then bound
    once.
    """
    rig = rig_of(LastLeaves, pods=("first", "second"))
    rig.pass_time(20)
    rig.run(0)

    effects = [e for e in rig.wire if isinstance(e, Bind | Look)]
    assert [("Bind", "second")] == [(type(e).__name__, e.name) for e in effects]
    assert Where.IN_FLIGHT is rig.where("second")


def test_a_change_that_ends_one_wait_moves_the_next_only_once():
    """A plugin never receives an answer to a call that it did not make."""
    rig = rig_of(LastLeaves, pods=("first", "second", "third"))
    rig.api.remove("Pod", "default/first")
    rig.watch("Pod")
    rig.run(0)

    assert ["second", "third"] == [e.name for e in rig.wire if isinstance(e, Bind)]
    assert {Where.IN_FLIGHT} == {rig.where("second"), rig.where("third")}


@pytest.mark.parametrize("fact", Evaluated.reads)
def test_a_change_evaluates_the_predicates_that_read_it_and_no_other(fact: str):
    """Thousands of pods may wait in pre-bind while other pods come and go."""
    rig = Rig(lambda: Engine([spec_of(*ALL, Evaluated)], Registry((*ALL, Evaluated))))
    rig.api.put("Node", make_node("n0", cpu=16))
    rig.api.put("Pod", make_pod("other", node="n0"))
    for read in Evaluated.reads:
        rig.api.put("Pod", make_pod(read.lower(), labels={"fact": read}))
    rig.watch("Node")
    rig.watch("Pod")
    rig.run()
    before = Counter(Evaluated.counts)
    if fact == "Service":
        rig.api.put("Service", Service(ObjectMeta("s", "default")))
        rig.watch("Service")
    else:
        rig.api.remove("Pod", "default/other")
        rig.watch("Pod")
    rig.run(0)

    assert {fact: 1} == Evaluated.counts - before


def test_a_pod_leaves_its_place_in_pre_bind_when_its_bind_is_sent():
    """A bind without an answer must not block the next pod that waits for its volumes."""
    rig = rig_of(labels={"prebind": "wait"})
    assert 1 == len(rig.engine.bindings.pre_bind)
    rig.api.put("Service", Service(ObjectMeta("p", "default")))
    rig.watch("Service")
    rig.run(0)

    assert "p" == bind_of(rig).name
    assert 0 == len(rig.engine.bindings.pre_bind)


@pytest.mark.parametrize(
    ("point", "named"),
    [
        ("reserve", "Reserve"),
        ("permit", "Permit"),
        ("pre_bind", "PreBind"),
        ("predicate", "PreBind"),
    ],
)
def test_a_fault_before_the_bind_ends_that_attempt(point: str, named: str):
    """The condition names the failed plugin and point; the pod is in error back-off, and uses no
    capacity.
    """
    rig = rig_of(labels={"raise": point})

    assert Where.ERROR_BACKOFF is rig.where("p")
    assert [("Raiser", named)] == rig.faults
    reported = rig.queued("p").reported
    assert ("SchedulerError", f'running {named} plugin "Raiser": broken at {point}') == reported
    assert 0 == len(rig.engine.cluster.pods)


def smaller(rig: Rig) -> None:
    """Reduce the node to half a core."""
    rig.api.put("Node", make_node("n0", allocatable={"cpu": "500m"}))
    rig.watch("Node")
    rig.run(0)


def gone(rig: Rig) -> None:
    """Delete the node."""
    rig.api.remove("Node", "n0")
    rig.watch("Node")
    rig.run(0)


def taken(rig: Rig) -> None:
    """Bind a pod that uses all of the node, as another client."""
    rig.api.put("Pod", make_pod("foreign", cpu="16", node="n0"))
    rig.watch("Pod")
    rig.run(0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (smaller, "node n0 has no free capacity left since it was chosen: cpu"),
        (gone, "node n0 has gone since it was chosen"),
        (taken, "node n0 has no free capacity left since it was chosen: cpu"),
    ],
)
def test_a_bind_whose_node_is_another_by_now_is_not_sent(change: Any, why: str):
    """A bind to a node that was replaced meanwhile is not sent. The executor gets the reason, and
    the pod returns to the queue with it.
    """
    rig = rig_of()
    bind = bind_of(rig)
    assert "" == rig.engine.objection(bind)
    change(rig)
    assert why == rig.engine.objection(bind)

    rig.perform(rig.wire.index(bind))
    rig.deliver(0)
    rig.run(0)
    rig.perform(next(i for i, effect in enumerate(rig.wire) if isinstance(effect, Look)))
    rig.deliver(0)
    rig.run(0)
    assert "p" not in {pod.metadata.name for pod in rig.api.pods.values() if pod.spec.node_name}
    assert rig.queued("p").reported == ("SchedulerError", f'running Bind plugin "Binder": {why}')
    assert None is rig.engine.cluster.pods.get(rig.queued("p").uid)
    assert "no binding waits for this request any more" == rig.engine.objection(bind)


def test_a_bind_that_may_still_arrive_is_not_repeated_on_a_node_that_is_too_small_by_now():
    """The pod's capacity stays reserved until the first bind can no longer arrive; then the pod
    returns to the queue.
    """
    rig = rig_of()
    rig.delay(rig.wire.index(bind_of(rig)))
    rig.deliver(0)
    smaller(rig)
    for _ in range(90):
        rig.pass_time(1)
        rig.run(0)
        for effect in [one for one in rig.wire if isinstance(one, Bind | Look)]:
            rig.perform(rig.wire.index(effect))
            rig.deliver(0)
            rig.run(0)

    assert [] == [pod for pod in rig.api.pods.values() if pod.spec.node_name]
    assert "no free capacity left" in str(rig.queued("p").reported)


def test_a_resource_that_no_plugin_checked_is_not_checked_later():
    """No plugin of this profile checks memory, so a node with too little memory does not reject the
    pod.
    """
    rig = rig_of(pods=())
    rig.api.put("Pod", make_pod("p", requests={"cpu": "1", "memory": "65Gi"}))
    rig.watch("Pod")
    rig.run()

    assert "" == rig.engine.objection(bind_of(rig))


def test_a_fault_while_a_wait_is_closed_does_not_lose_the_pod():
    """A pod that is deleted during a plugin's wait is dropped even if the plugin fails when it is
    closed.
    """
    rig = rig_of(labels={"raise": "close"})
    rig.api.remove("Pod", "default/p")
    rig.watch("Pod")

    assert Where.GONE is rig.where("p")
    assert 0 == len(rig.engine.bindings)
    assert [("Raiser", "PreBind")] == rig.faults


def test_what_is_no_question_is_a_fault():
    """If a plugin yields an invalid value, the pod fails and the condition names the plugin."""
    rig = rig_of(Babbler)

    reported = rig.queued("p").reported
    assert ("SchedulerError", 'running PreBind plugin "Babbler": yielded a str') == reported


def test_not_found_is_looked_up_before_a_pod_is_given_up():
    """A 404 that is not about the pod (a proxy, a starting server) does not drop the pod."""
    rig = rig_of()
    rig.refuse(rig.wire.index(bind_of(rig)), 404)
    rig.deliver(0)
    rig.run(0)
    assert isinstance(rig.wire[-1], Look)

    rig.settle()

    assert "n0" == rig.api.pods["default/p"].spec.node_name


def test_a_call_without_an_answer_fails_after_a_minute():
    """A plugin's call without an answer does not block its pod forever."""
    rig = rig_of(labels={"prebind": "call"})
    (call,) = [place for place, e in enumerate(rig.wire) if isinstance(e, Call)]
    rig.swallow(call)
    rig.pass_time(59.9)
    rig.run(0)
    assert Where.IN_FLIGHT is rig.where("p")
    rig.pass_time(0.1)
    rig.run(0)

    reported = rig.queued("p").reported
    assert reported == (
        "SchedulerError",
        'running PreBind plugin "Preparer": context deadline exceeded',
    )


def test_a_bind_without_an_answer_is_looked_up_after_a_minute():
    """A bind without an answer is looked up, and sent again if it was not carried out."""
    rig = rig_of()
    rig.swallow(rig.wire.index(bind_of(rig)))
    rig.pass_time(60)
    rig.run(0)
    assert isinstance(rig.wire[-1], Look)

    rig.settle()
    assert "n0" == rig.api.pods["default/p"].spec.node_name


def test_a_look_that_fails_is_repeated():
    """While the outcome of a bind is unknown, its capacity stays reserved."""
    rig = rig_of()
    bind = bind_of(rig)
    rig.delay(rig.wire.index(bind))
    rig.deliver(0)
    rig.run(0)
    for _ in range(3):
        rig.refuse(len(rig.wire) - 1, 503)
        rig.deliver(0)
        rig.run(0)
        assert [] == [one for one in rig.wire if isinstance(one, Look)], "not at once"
        rig.pass_time(1)
        rig.run(0)
        assert isinstance(rig.wire[-1], Look)
        assert 1 == len(rig.engine.cluster.pods)


def test_an_answer_without_a_waiting_binding_is_ignored():
    """Late and unknown answers change nothing."""
    rig = rig_of()
    rig.settle()
    before = rig.api.bound_by.copy()
    for number in range(5):
        rig.handle(Answer(number, 500))

    assert () == rig.run()
    assert before == rig.api.bound_by
