"""The plugins around the queue and the binding: PrioritySort, SchedulingGates, DefaultBinder."""

import pytest

from scheduler.framework.calls import BindPod, CallResult
from scheduler.framework.status import Code
from scheduler.objects.plain import read_pod
from scheduler.plugins.defaultbinder import DefaultBinder
from scheduler.plugins.prioritysort import PrioritySort
from scheduler.plugins.schedulinggates import SchedulingGates
from scheduler.testing import check_plugin, less, pod
from scheduler.testing.scene import Scene


@pytest.mark.parametrize("plugin", [PrioritySort, SchedulingGates, DefaultBinder])
def test_they_keep_the_invariants(plugin):
    """The invariants of all plugins hold."""
    check_plugin(plugin)


@pytest.mark.parametrize(
    ("first", "second", "queued_at", "expected"),
    [
        (5, 1, (9.0, 1.0), True),
        (1, 5, (1.0, 9.0), False),
        (1, 1, (1.0, 2.0), True),
        (1, 1, (2.0, 1.0), False),
        (None, 0, (1.0, 1.0), False),
        (None, -1, (2.0, 1.0), True),
    ],
)
def test_priority_comes_first_then_the_time_of_queueing(first, second, queued_at, expected):
    """No priority counts as 0; equals are not less than each other."""
    pods = [pod(name, spec={"priority": value}) for name, value in (("a", first), ("b", second))]

    assert expected is less(PrioritySort, *pods, queued_at=queued_at)


def test_gates_are_named_in_order():
    """The text is kube-scheduler's; without gates the pod passes."""
    gates: SchedulingGates = Scene(SchedulingGates).plugin
    gated = read_pod(pod(spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]}))
    status = gates.pre_enqueue(gated)

    assert status is not None
    assert (Code.UNRESOLVABLE, ("waiting for scheduling gates: [a b]",)) == (
        status.code,
        status.reasons,
    )
    assert gates.pre_enqueue(read_pod(pod())) is None


@pytest.mark.parametrize(
    ("answer", "code", "reasons"),
    [
        (CallResult(201), Code.SUCCESS, ()),
        (
            CallResult(409, "Conflict", "pod is bound already"),
            Code.ERROR,
            ("pod is bound already",),
        ),
        (CallResult(0), Code.ERROR, ("no answer",)),
    ],
)
def test_the_binder_sends_one_request_and_returns_the_response(answer, code, reasons):
    """One call, no retry; the message is the API server's."""
    scene = Scene(DefaultBinder)
    binder: DefaultBinder = scene.plugin
    incoming = read_pod(pod())
    call = binder.bind(scene.cycle(incoming), "n")

    assert BindPod(incoming, "n") == next(call)
    with pytest.raises(StopIteration) as end:
        call.send(answer)
    assert (code, reasons) == (end.value.value.code, end.value.value.reasons)
