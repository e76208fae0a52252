"""The result of each extension point from its plugins' answers (kube-scheduler's status
semantics).
"""

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from scheduler.base.errors import PluginError
from scheduler.framework.calls import ApiCall, BindPod, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import EACH_POD, Plugin
from scheduler.framework.postfilter import PostFiltered
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Narrow,
    Status,
    reject,
    unresolvable,
    unschedulable,
    wait,
)
from tests.property.making import make_pod
from tests.unit.framework.runnerrig import RunnerRig, made

ERROR = Status(Code.ERROR, ("went wrong",))
PENDING = Status(Code.PENDING, ("wait for a friend",))


def answering(name: str, point: str, answer: Any) -> type[Plugin[Any]]:
    """Return a plugin that answers a point with a value, and counts its calls."""

    def call(self: Any, *args: Any) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        self.seen = args
        return answer(args[1]) if callable(answer) else answer

    return made(name, **{point: call}, calls=0)


def twice(*classes: type[Plugin[Any]]) -> RunnerRig:
    """Return a stage on which two pods of one shape passed all points."""
    rig = RunnerRig(*classes)
    for _ in range(2):
        states = States()
        rig.runner.pre_filter(rig.cycle, rig.nodes, states)
        rig.runner.filter(rig.cycle, rig.nodes, states, rig.nodes.exists)
        rig.runner.score(rig.cycle, rig.nodes, states)
        rig.runner.reserve(rig.cycle, "n0", states)
        rig.states = states
    return rig


class TestKeys:
    """Whether a plugin applies to a pod is computed once per shape."""

    def test_who_has_no_key_is_not_asked(self):
        """A plugin whose key is None for a pod is called at no point that evaluates nodes or
        reserves.
        """
        refuse = {
            point: lambda *_: pytest.fail("it was called")
            for point in ("pre_filter", "filter", "pre_score", "score", "reserve", "pre_bind")
        }
        cls = made("A", key=called(lambda: None), calls=0, **refuse)
        rig = twice(cls)

        assert 1 == rig.plugin(cls).calls
        assert {"A"} == rig.states.skipped == rig.states.skipped_scoring

    def test_a_key_is_asked_for_again_when_something_moved(self):
        """After a change of what `key` reads, a plugin that applies to the pod now is called."""
        bell, calls = Bell(), []
        cls = made(
            "A",
            key=lambda _self, _pod: EACH_POD if bell.version else None,
            filter=lambda *_: calls.append("filter"),
            key_follows=(bell,),
        )
        rig = twice(cls)
        assert [] == calls
        bell.version = 1
        for _ in range(2):
            states = States()
            rig.runner.pre_filter(rig.cycle, rig.nodes, states)
            rig.runner.filter(rig.cycle, rig.nodes, states, rig.nodes.exists)

        assert ["filter", "filter"] == calls

    def test_hypothetical_nodes_are_passed_to_plugins_that_follow_pods(self):
        """The plugin is called because its data lacks hypothetical pods."""
        calls: list[str] = []
        follows = made(
            "A",
            key=lambda *_: None,
            key_follows=(Bell(),),
            pre_filter=lambda *_: calls.append("A"),
        )
        settled = made("B", key=lambda *_: None, pre_filter=lambda *_: calls.append("B"))
        rig = RunnerRig(follows, settled)
        rig.runner.pre_filter(rig.cycle, rig.nodes.hypothetical(), rig.states)

        assert ["A"] == calls

    def test_who_lost_its_pre_filter_is_asked_in_any_case(self):
        """The plugin has to return Skip itself, as kube-scheduler's plugins do."""
        cls = made(
            "A",
            unread={"pre_filter": "no state"},
            key=lambda *_: None,
            pre_filter=lambda *_: SKIP,
            filter=lambda *_: None,
        )
        rig = RunnerRig(cls, points={"filter": ["A"]})
        rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)

        with pytest.raises(PluginError, match="no state"):
            rig.runner.filter(rig.cycle, rig.nodes, rig.states, rig.nodes.exists)

    def test_a_pod_that_names_its_node(self):
        """Shapes have no node, so no result is cached with the shape."""
        cls = made("A", key=lambda _self, pod: pod.spec.node_name or None, filter=lambda *_: None)
        rig = twice(cls)
        pod = make_pod("q", node="n1")
        shape = rig.cluster.shapes.of(pod)
        assert shape is rig.cycle.shape
        states = States()
        cycle = Cycle(pod, shape, 0.0, rig.cycle.random)
        rig.runner.pre_filter(cycle, rig.nodes, states)

        assert ["A"] == list(states.kinds)

    @pytest.mark.parametrize("answer", [SKIP, 7])
    def test_pre_filter_is_asked_each_time(self, answer: Any):
        """The result may differ for the next pod."""
        cls = made("A", pre_filter=called(lambda: answer), calls=0)
        rig = twice(cls)

        assert 2 == rig.plugin(cls).calls


class Bell:
    """Data whose version changes."""

    def __init__(self) -> None:
        self.version = 0


def called(answer: Callable[[], Any]) -> Callable[..., Any]:
    """Return a method that answers, and counts its calls."""

    def call(self: Any, *_: Any) -> Any:
        self.calls += 1
        return answer()

    return call


class TestPreFilter:
    """Skip, U, UAU, Pending, Error, states and narrowing."""

    def run(self, *classes: type[Plugin[Any]]) -> tuple[RunnerRig, Any]:
        rig = RunnerRig(*classes)
        return rig, rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)

    def test_states_are_kept_by_plugin(self):
        """Whatever a plugin returns that is no status arrives at its later points."""
        rig, result = self.run(answering("A", "pre_filter", 7), answering("B", "pre_filter", None))

        assert SUCCESS == result.status
        assert {"A": 7, "B": None} == rig.states.by_plugin

    def test_skip_takes_the_filter_out(self):
        """A plugin that skips does not filter in this attempt."""
        cls = made(
            "A",
            pre_filter=lambda *_: SKIP,
            filter=lambda *_: pytest.fail("filter was called"),
        )
        rig, result = self.run(cls)
        feasible, rejections = rig.runner.filter(rig.cycle, rig.nodes, rig.states, rig.nodes.exists)

        assert result.status.is_success
        assert feasible.all()
        assert [] == rejections

    def test_unschedulable_lets_the_others_run(self):
        """Preemption needs the state of the plugins after it."""
        after = answering("B", "pre_filter", 1)
        rig, result = self.run(answering("A", "pre_filter", unschedulable("no")), after)

        assert Status(Code.UNSCHEDULABLE, ("no",), "A") == result.status
        assert 1 == rig.plugin(after).calls

    @pytest.mark.parametrize("status", [unresolvable("never"), PENDING])
    def test_a_final_answer_stops_at_once(self, status: Status):
        """After UnschedulableAndUnresolvable and Pending no further plugin runs."""
        after = answering("B", "pre_filter", 1)
        rig, result = self.run(answering("A", "pre_filter", status), after)

        assert (status.code, "A") == (result.status.code, result.status.plugin)
        assert 0 == rig.plugin(after).calls

    def test_the_last_unschedulable_status_is_reported(self):
        """Of several plain rejections the last one stays, as in kube-scheduler."""
        _, result = self.run(
            answering("A", "pre_filter", unschedulable("first")),
            answering("B", "pre_filter", unschedulable("second")),
        )

        assert ("B", ("second",)) == (result.status.plugin, result.status.reasons)

    def test_an_error_status_is_a_fault(self):
        """A status of code Error fails the cycle, named like an exception."""
        with pytest.raises(PluginError, match='running PreFilter plugin "A": went wrong'):
            self.run(answering("A", "pre_filter", ERROR))

    def test_narrowed_rows_are_intersected(self):
        """Each plugin can only take rows away."""
        rig, result = self.run(
            answering("A", "pre_filter", lambda n: Narrow(n.rows_named(["n0", "n1"]), "a")),
            answering("B", "pre_filter", lambda n: Narrow(n.rows_named(["n1", "n2"]))),
        )

        assert rig.rows("n1") == result.rows.tolist()
        assert ("A", "B") == result.narrowed_by
        assert {"A": "a", "B": None} == rig.states.by_plugin

    def test_plugins_that_exclude_each_other_reject_the_pod(self):
        """Without a common row both are named, and later plugins do not run."""
        after = answering("C", "pre_filter", 1)
        rig, result = self.run(
            answering("A", "pre_filter", lambda n: Narrow(n.rows_named(["n0"]))),
            answering("B", "pre_filter", lambda n: Narrow(n.rows_named(["n1"]))),
            after,
        )

        text = "node(s) didn't satisfy plugin(s) [A B] simultaneously"
        assert unresolvable(text) == result.status
        assert 0 == rig.plugin(after).calls

    def test_a_plugin_that_narrows_to_no_node_rejects_the_pod(self):
        """An empty set of names is reported with the plugin's name alone."""
        _, result = self.run(
            answering("A", "pre_filter", lambda n: Narrow(n.rows_named([]), is_empty=True))
        )

        assert unresolvable("node(s) didn't satisfy plugin A") == result.status

    def test_unknown_names_are_no_empty_set(self):
        """Names of missing nodes leave all nodes excluded, and the pod not rejected yet."""
        rig, result = self.run(
            answering("A", "pre_filter", lambda n: Narrow(n.rows_named(["ghost"])))
        )

        assert SUCCESS == result.status
        assert rig.rows() == result.rows.tolist()


class TestFilter:
    """Attribution to the first rejecting plugin, row by row."""

    def run(self, *classes: type[Plugin[Any]], **kwargs: Any) -> tuple[RunnerRig, Any, Any]:
        rig = RunnerRig(*classes, **kwargs)
        feasible, rejections = rig.runner.filter(rig.cycle, rig.nodes, rig.states, rig.nodes.exists)
        return rig, feasible, rejections

    def test_the_first_plugin_gets_the_row(self):
        """A row belongs to the first plugin that rejects it; later ones get the remaining rows."""
        rig, feasible, rejections = self.run(
            made("A", filter=lambda _s, _c, n: reject(n.rows_named(["n0"]), "a")),
            made("B", filter=lambda _s, _c, n: reject(n.rows_named(["n0", "n1"]), "b")),
        )

        assert rig.rows("n2") == feasible.tolist()
        assert [("A", rig.rows("n0")), ("B", rig.rows("n1"))] == [
            (r.plugin, r.rows.tolist()) for r in rejections
        ]

    def test_it_ends_when_nothing_is_left(self):
        """No plugin is called for rows that are all rejected."""
        after = answering("B", "filter", None)
        rig, feasible, _ = self.run(
            made("A", filter=lambda _s, _c, n: reject(n.exists, "all")), after
        )

        assert not feasible.any()
        assert 0 == rig.plugin(after).calls

    def test_no_plugin_is_called_without_nodes(self):
        """If no row is feasible, no filter is called, also none that would raise."""
        cls = made("A", pre_filter=lambda *_: 1, filter=lambda *_: None)
        rig = RunnerRig(cls, points={"filter": ["A"]})

        nothing = np.zeros(rig.nodes.size, dtype=np.bool_)
        feasible, rejections = rig.runner.filter(rig.cycle, rig.nodes, rig.states, nothing)

        assert not feasible.any()
        assert [] == rejections

    def test_a_filter_sees_what_those_before_it_have_left(self):
        """A filter sees in `nodes.feasible` only the rows that are still feasible."""
        seen = []
        first = made("A", filter=lambda _s, _c, n: reject(n.rows_named(["n1"]), "x"))
        second = made("B", filter=lambda _s, _c, n: seen.append(n.feasible.tolist()))
        rig, _, _ = self.run(first, second)

        assert [rig.rows("n0", "n2")] == seen

    def test_a_disabled_pre_filter_is_an_error(self):
        """A plugin that needs its state has an error text of its own."""
        unread = {"pre_filter": "no state"}
        cls = made("A", unread=unread, pre_filter=lambda *_: 1, filter=lambda *_: None)
        with pytest.raises(PluginError) as caught:
            self.run(cls, points={"filter": ["A"]})

        text = 'running "A" filter plugin: no state'
        assert text == str(caught.value)

    def test_a_state_is_made_on_the_spot(self):
        """A plugin that can do without its pre-filter computes the state when it is needed."""
        cls = made(
            "A",
            pre_filter=lambda _s, _c, n: Narrow(n.exists, "n1"),
            filter=lambda _s, _c, n, name: reject(n.rows_named([name]), "x"),
        )
        rig, feasible, _ = self.run(cls, points={"filter": ["A"]})

        assert rig.rows("n0", "n2") == feasible.tolist()

    def test_on_the_spot_skip_means_nothing_to_filter(self):
        """A pre-filter that would skip takes the filter out here too."""
        cls = made(
            "A",
            pre_filter=lambda *_: SKIP,
            filter=lambda *_: pytest.fail("filter was called"),
        )
        _, feasible, _ = self.run(cls, points={"filter": ["A"]})

        assert feasible.all()

    def test_on_the_spot_errors_are_errors(self):
        """A pre-filter that fails on the spot fails the filter."""
        cls = made("A", pre_filter=lambda *_: ERROR, filter=lambda *_: None)
        with pytest.raises(PluginError, match='running "A" filter plugin: went wrong'):
            self.run(cls, points={"filter": ["A"]})

    def test_a_column_of_the_wrong_length_is_a_fault(self):
        """A column of the wrong size ends the attempt with the plugin's name."""
        cls = made("A", filter=lambda *_: reject(np.zeros(9, dtype=np.bool_), "x"))
        with pytest.raises(PluginError, match='running "A" filter plugin'):
            self.run(cls)


class TestPostFilter:
    """The first success ends it; all texts are kept."""

    def test_the_first_success_ends_it(self):
        """Plugins after the successful one do not run."""
        found = PostFiltered(SUCCESS, nominated_node="n0")
        after = answering("C", "post_filter", found)
        rig = RunnerRig(
            answering("A", "post_filter", PostFiltered(unschedulable(), text="a")),
            answering("B", "post_filter", found),
            after,
        )
        answers = rig.runner.post_filter(rig.cycle, rig.nodes, None)  # type: ignore[arg-type]

        assert ["a", ""] == [answer.text for answer in answers]
        assert 0 == rig.plugin(after).calls


class TestScore:
    """Tests of pre-score, weights, normalisation and range."""

    def score(self, *classes: type[Plugin[Any]], **kwargs: Any) -> tuple[RunnerRig, Any, Any]:
        rig = RunnerRig(*classes, **kwargs)
        total, scores = rig.runner.score(rig.cycle, rig.nodes, rig.states)
        return rig, total, scores

    def test_skip_takes_the_plugin_out_of_the_total(self):
        """A plugin that skips contributes nothing to any node."""
        cls = made("A", pre_score=lambda *_: SKIP, score=lambda *_: pytest.fail("score was called"))
        _, total, scores = self.score(cls)

        assert [0, 0, 0] == total.tolist()
        assert [] == scores

    def test_an_error_status_of_pre_score_is_a_fault(self):
        """Any other status than success and skip fails the cycle."""
        cls = made("A", pre_score=lambda *_: ERROR, score=lambda _s, _c, n, _x: n.constant(0))
        with pytest.raises(PluginError, match='running PreScore plugin "A": went wrong'):
            self.score(cls)

    def test_the_state_of_pre_score_replaces_the_one_of_pre_filter(self):
        """`score` gets the newer state, or the older one if pre-score returned nothing."""
        seen = {}

        def plugin(name: str, state: Any) -> type[Plugin[Any]]:
            def score(_self: Any, _cycle: Cycle, nodes: Nodes, state: Any) -> Any:
                seen[name] = state
                return nodes.constant(1)

            return made(name, pre_filter=lambda *_: "old", pre_score=lambda *_: state, score=score)

        rig = RunnerRig(plugin("A", "new"), plugin("B", None))
        rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)
        rig.runner.score(rig.cycle, rig.nodes, rig.states)

        assert {"A": "new", "B": "old"} == seen

    def test_a_disabled_pre_score_is_an_error(self):
        """If pre-score is disabled, a score that needs its state raises PluginError."""
        cls = made(
            "A",
            unread={"pre_score": "no state"},
            pre_score=lambda *_: 1,
            score=lambda _s, _c, n, _x: n.constant(0),
        )
        with pytest.raises(PluginError, match="no state"):
            self.score(cls, points={"score": ["A"]})

    def test_pre_score_on_the_spot_gets_its_state(self):
        """A plugin with both pre-filter and pre-score gets its earlier state."""
        cls = made(
            "A",
            pre_filter=lambda *_: 3,
            pre_score=lambda _s, _c, _n, state: state + 1,
            score=lambda _s, _c, n, state: n.constant(state),
        )
        rig = RunnerRig(cls, points={"preFilter": ["A"], "score": ["A"]})
        rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)
        total, _ = rig.runner.score(rig.cycle, rig.nodes, rig.states)

        assert [4, 4, 4] == total.tolist()

    @pytest.mark.parametrize(
        "column", [np.zeros(3, dtype=np.int32), np.zeros(2, dtype=np.int64), [0, 0, 0], None]
    )
    def test_only_int64_columns_are_scores(self, column: Any):
        """Another type or length is a fault of the plugin."""
        cls = made("A", score=lambda *_: column)
        with pytest.raises(PluginError, match="expected is an int64 column of 3 rows"):
            self.score(cls)

    def test_a_score_out_of_range_is_an_error(self):
        """The error has kube-scheduler's text with the offending number."""
        cls = made("A", score=lambda _s, _c, n: n.constant(0) + np.int64(101))
        text = r'plugin "A" returns an invalid score 101, it should in the range of \[0, 100\]'
        with pytest.raises(PluginError, match=text):
            self.score(cls)

    def test_no_plugin_means_zero_for_all(self):
        """Without score plugins all nodes are equal."""
        _, total, scores = self.score(made("A", filter=lambda *_: None))

        assert ([0, 0, 0], []) == (total.tolist(), scores)


class TestReserveAndPermit:
    """Tests of order, early end and waiting."""

    def test_reserve_ends_at_the_first_rejection(self):
        """Later plugins do not run; the status has the plugin's name."""
        after = answering("B", "reserve", None)
        rig = RunnerRig(answering("A", "reserve", unschedulable("full")), after)

        status = rig.runner.reserve(rig.cycle, "n0", rig.states)
        assert Status(Code.UNSCHEDULABLE, ("full",), "A") == status
        assert 0 == rig.plugin(after).calls

    @pytest.mark.parametrize(("point", "named"), [("reserve", "Reserve"), ("permit", "Permit")])
    def test_an_error_status_is_a_fault(self, point: str, named: str):
        """Code Error is reported like an exception."""
        rig = RunnerRig(answering("A", point, ERROR))
        args = (rig.states,) if point == "reserve" else ()
        with pytest.raises(PluginError, match=f'running {named} plugin "A": went wrong'):
            getattr(rig.runner, point)(rig.cycle, "n0", *args)

    def test_permit_waits_for_all_and_for_fifteen_minutes_at_most(self):
        """Each waiting plugin's patience is kept, capped."""
        rig = RunnerRig(
            answering("A", "permit", wait(10)),
            answering("B", "permit", None),
            answering("C", "permit", wait(99999)),
        )

        status, waits = rig.runner.permit(rig.cycle, "n0")
        assert Code.WAIT is status.code
        assert {"A": 10, "C": 900} == waits

    def test_a_rejection_beats_waiting(self):
        """A pod that one plugin rejects does not wait for another."""
        after = answering("C", "permit", None)
        rig = RunnerRig(
            answering("A", "permit", wait(10)),
            answering("B", "permit", unschedulable("no")),
            after,
        )

        status, waits = rig.runner.permit(rig.cycle, "n0")
        assert (Status(Code.UNSCHEDULABLE, ("no",), "B"), {}) == (status, waits)
        assert 0 == rig.plugin(after).calls

    def test_unreserve_goes_backwards(self):
        """The last reservation is undone first."""
        order: list[str] = []

        def plugin(name: str) -> type[Plugin[Any]]:
            return made(name, reserve=lambda *_: None, unreserve=lambda *_: order.append(name))

        rig = RunnerRig(plugin("A"), plugin("B"), plugin("C"))
        rig.runner.unreserve(rig.cycle, "n0", rig.states)

        assert ["C", "B", "A"] == order


def drive(
    steps: Generator[Any, CallResult, Status], *answers: CallResult
) -> tuple[list[Any], Status | None]:
    """Run a generator with these answers; return its questions and its outcome."""
    asked = []
    try:
        asked.append(next(steps))
        for answer in answers:
            asked.append(steps.send(answer))
    except StopIteration as stop:
        return asked, stop.value
    return asked, None


class TestBind:
    """Pre-bind in order, then the first binder that does not skip."""

    def binder(self, name: str, status: Status | None) -> type[Plugin[Any]]:
        def bind(_self: Any, cycle: Cycle, node: str) -> Generator[Any, CallResult, Any]:
            if status is SKIP:
                return SKIP
            yield BindPod(cycle.pod, node)
            return status

        return made(name, bind=bind)

    def test_pre_bind_comes_before_bind(self):
        """Each call is sent in order, each answer reaches its caller."""

        def pre_bind(_self: Any, cycle: Cycle, node: str) -> Generator[Any, CallResult, Any]:
            answer = yield ApiCall("GET", "/x")
            assert 200 == answer.code
            return SKIP

        rig = RunnerRig(made("P", pre_bind=pre_bind), self.binder("B", None))
        steps = rig.runner.bind(rig.cycle, "n0", rig.states)
        asked, status = drive(steps, CallResult(200), CallResult(201))

        assert [ApiCall("GET", "/x"), BindPod(rig.pod, "n0")] == asked
        assert status is not None
        assert status.is_success

    def test_a_binder_may_skip(self):
        """The next one runs; if all skip, that is an error."""
        rig = RunnerRig(self.binder("A", SKIP), self.binder("B", None))
        asked, status = drive(rig.runner.bind(rig.cycle, "n0", rig.states), CallResult(201))
        assert status is not None
        assert ("B", 1) == (status.plugin, len(asked))

        rig = RunnerRig(self.binder("A", SKIP))
        _, status = drive(rig.runner.bind(rig.cycle, "n0", rig.states))
        assert status is not None
        assert Code.ERROR is status.code

    @pytest.mark.parametrize("point", ["PreBind", "Bind"])
    def test_failures_name_plugin_and_point(self, point: str):
        """An Error status is wrapped as kube-scheduler does it; a rejection keeps its own text."""

        def answering_with(status: Status) -> Status | None:
            def call(_self: Any, *_: Any) -> Generator[Any, CallResult, Any]:
                yield ApiCall("GET", "/x")
                return status

            method = "pre_bind" if point == "PreBind" else "bind"
            rig = RunnerRig(made("P", **{method: call}))
            steps = rig.runner.bind(rig.cycle, "n0", rig.states)
            return drive(steps, CallResult(200))[1]

        wrapped = f'running {point} plugin "P": went wrong'
        assert Status(Code.ERROR, (wrapped,), "P") == answering_with(ERROR)
        assert Status(Code.UNSCHEDULABLE, ("full",), "P") == answering_with(unschedulable("full"))


class Ticking:
    """Instruments whose stopwatch advances by one at each reading."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, str]] = []
        self.plugins: list[tuple[str, str, str]] = []
        self.evaluated: list[tuple[str, str]] = []
        self.preemptions: list[tuple[float, str]] = []
        self._ticks = iter(range(10_000))

    @property
    def stopwatch(self):
        return lambda: float(next(self._ticks))

    def point(self, *args) -> None:
        self.points.append(args)

    def plugin(self, point, plugin, seconds, status) -> None:
        self.plugins.append((point, plugin, status))

    def preemption(self, *args) -> None:
        self.preemptions.append(args)

    def evaluations(self, point, plugin):
        return lambda: self.evaluated.append((point, plugin))


def measured_rig(*plugins) -> tuple[RunnerRig, Ticking]:
    """Return a rig whose runner has instruments."""
    rig, ticking = RunnerRig(*plugins), Ticking()
    rig.runner = Runner(rig.runner.profile, ticking)
    return rig, ticking


def test_every_point_is_timed_once_with_its_outcome():
    """Each call of a point is measured once, regardless of the number of plugins."""
    rig, ticking = measured_rig(
        answering("A", "pre_filter", unschedulable("x")),
        made("B", reserve=lambda *_: 1 / 0, pre_filter=lambda *_: None),
    )
    rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)
    with pytest.raises(PluginError, match="division by zero"):
        rig.runner.reserve(rig.cycle, "n0", rig.states)

    assert [("pre_filter", 1.0, "Unschedulable"), ("reserve", 1.0, "Error")] == ticking.points


def test_each_call_is_counted_and_one_attempt_in_ten_is_timed_by_plugin():
    """Twenty attempts: forty evaluations, and two attempts' worth of single timings."""
    rig, ticking = measured_rig(
        answering("A", "pre_filter", None), answering("B", "pre_filter", None)
    )
    for _ in range(20):
        rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)

    assert 20 * [("pre_filter", "A"), ("pre_filter", "B")] == ticking.evaluated
    timed = [("pre_filter", "A", "Success"), ("pre_filter", "B", "Success")]
    assert 2 * timed == ticking.plugins
