"""Filtering hypothetical rows: local plugins in columns, others row by row."""

from typing import Any

import numpy as np
import pytest

from scheduler.base.errors import PluginError, StateError
from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.status import SKIP, Code, Status, reject, unresolvable
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed, place
from tests.property.making import make_pod
from tests.property.tinyplugins import Apart, Fit
from tests.unit.framework.runnerrig import RunnerRig, made

ALL_ROWS = np.arange(3, dtype=np.intp)


def placed(rig: RunnerRig, pod: Pod, node: str) -> Placed:
    """Return the record of a pod on a node, without counting it."""
    return place(pod, rig.cluster.shapes.of(pod), node)


def what_if(rig: RunnerRig) -> Attempted:
    """Run pre-filter and return the filter runner on changed rows."""
    rig.runner.pre_filter(rig.cycle, rig.nodes, rig.states)
    return Attempted(rig.runner, rig.cycle, rig.nodes, rig.states)


def test_a_local_plugin_answers_for_all_rows_at_once():
    """Each row is judged with its own pods added or removed."""
    rig = RunnerRig(Fit, pod=make_pod("p", cpu=3))
    old = make_pod("old", cpu=2, node="n0")
    rig.cluster.put_pod(old)
    nodes = what_if(rig)
    gone = rig.cluster.pods.get("uid-old")
    assert gone is not None
    new = placed(rig, make_pod("new", cpu=2), "n1")

    passed, rejections = nodes.filter(ALL_ROWS, removed=[(gone, 0)], added=[(new, 1)])
    assert rig.rows("n0", "n2") == passed.tolist()
    assert [("Fit", rig.rows("n1"))] == [(r.plugin, r.rows.tolist()) for r in rejections]
    assert "Insufficient cpu" == rejections[0].rejected.status(1).message


def test_rows_that_were_not_requested_are_excluded():
    """Only the requested rows can pass, and pods on other rows change nothing."""
    rig = RunnerRig(Fit, pod=make_pod("p"))
    new = placed(rig, make_pod("new", cpu=4), "n0")

    passed, rejections = what_if(rig).filter(np.array([2, 1]), added=[(new, 0)])
    assert rig.rows("n1", "n2") == passed.tolist()
    assert [] == rejections


def test_a_plugin_brings_its_own_state_up_to_date():
    """`add_pod` and `remove_pod` work on a clone; the attempt's own state stays as it was."""
    rig = RunnerRig(Apart, pod=make_pod("p", labels={"apart": "x"}))
    rig.cluster.put_pod(make_pod("old", node="n0", labels={"apart": "x"}))
    nodes = what_if(rig)
    gone = rig.cluster.pods.get("uid-old")
    assert gone is not None
    new = placed(rig, make_pod("new", labels={"apart": "x"}), "n1")

    passed, _ = nodes.filter(ALL_ROWS, removed=[(gone, 0)], added=[(new, 1)])
    assert rig.rows("n0", "n2") == passed.tolist()
    assert [1, 0, 0] == rig.states.by_plugin["Apart"].counts.tolist()


def test_a_state_is_worked_out_anew_without_such_methods():
    """The pre-filter runs on the changed view; rows that it rejects are rejected."""

    def pre_filter(_self: Any, _cycle: Any, nodes: Any) -> Any:
        total = sum(len(nodes.pods_on(row)) for row in range(nodes.size))
        return {0: total, 1: SKIP, 2: unresolvable("two are too many")}[total]

    cls = made("Census", pre_filter=pre_filter, filter=lambda _s, _c, n, state: None)
    rig = RunnerRig(cls)
    one = placed(rig, make_pod("one"), "n0")
    two = placed(rig, make_pod("two"), "n0")
    nodes = what_if(rig)

    passed, rejections = nodes.filter(np.array([0]), added=[(one, 0)])
    assert rig.rows("n0") == passed.tolist()
    passed, rejections = nodes.filter(np.array([0, 1]), added=[(one, 0), (two, 0)])
    assert rig.rows("n1") == passed.tolist()
    status = rejections[0].rejected.status(0, "Census")
    assert Status(Code.UNRESOLVABLE, ("two are too many",), "Census") == status


@pytest.mark.parametrize(
    ("method", "named"), [("add_pod", "AddPod"), ("remove_pod", "RemovePod"), ("", "PreFilter")]
)
def test_faults_are_named(method: str, named: str):
    """An exception while its state is changed ends the attempt with the plugin's name."""

    def broken(*_: Any) -> None:
        raise ValueError("no idea")

    calls = iter([[7], Status(Code.ERROR, ("no idea",))])
    members: dict[str, Any] = {
        "pre_filter": lambda *_: next(calls),
        "filter": lambda _s, _c, n, state: None,
    }
    if method:
        members |= {"add_pod": lambda *_: None, "remove_pod": lambda *_: None, method: broken}
    rig = RunnerRig(made("Broken", **members))
    rig.cluster.put_pod(make_pod("old", node="n0"))
    gone = rig.cluster.pods.get("uid-old")
    assert gone is not None
    new = placed(rig, make_pod("new"), "n0")
    nodes = what_if(rig)

    with pytest.raises(PluginError, match=f'running {named} plugin "Broken": no idea'):
        nodes.filter(np.array([0]), removed=[(gone, 0)], added=[(new, 0)])


def test_a_plain_container_as_state_is_copied_to_the_ground():
    """A plugin that keeps lists in a dict does not change the attempt's own state."""

    def add_pod(_self: Any, state: dict[int, list[str]], placed: Placed, row: int) -> None:
        state[row].append(placed.pod.metadata.name)

    cls = made(
        "Lists",
        pre_filter=lambda *_: {0: []},
        add_pod=add_pod,
        remove_pod=lambda *_: None,
        filter=lambda _s, _c, n, state: reject(n.exists, "full") if state[0] else None,
    )
    rig = RunnerRig(cls)
    new = placed(rig, make_pod("new"), "n0")

    passed, _ = what_if(rig).filter(np.array([0]), added=[(new, 0)])
    assert not passed.any()
    assert {0: []} == rig.states.by_plugin["Lists"]


def test_a_hypothetical_cannot_be_changed_again():
    """Deltas of deltas would count twice."""
    rig = RunnerRig(Fit)

    with pytest.raises(StateError):
        rig.nodes.hypothetical().hypothetical()
