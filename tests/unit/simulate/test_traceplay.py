"""Traces on the virtual clock: arrivals, ends, waiting times, and what cannot be read."""

import pytest

from scheduler.base.errors import InputError
from scheduler.cli import asking
from scheduler.objects.plain import read_node
from scheduler.simulate.stage import AnswerOptions, staged
from scheduler.simulate.tracefile import read_trace
from scheduler.simulate.traceplay import TracePlayer
from scheduler.snapshot.snapshot import Snapshot
from scheduler.testing import node

HEADER = "arrival,duration,namespace,shape,count,cpu,memory"


def played(*rows, nodes=1, header=HEADER):
    """Return the summary of a trace on equal nodes of 4 cores."""
    snapshot = Snapshot(nodes=tuple(read_node(node(f"n{i}")) for i in range(nodes)))
    stage = staged(snapshot, asking.setups("").default, AnswerOptions(now=1e9))
    player = TracePlayer(stage, "trellis")
    player.play(read_trace([header, *rows], "t.csv"), lambda _pods, _seconds: None)
    return player.summary()


def test_a_pod_waits_until_another_one_ends():
    """Two pods of the whole node: the second one waits for the end of the first."""
    found = played("0,100,a,big,1,4,1Gi", "10,100,a,big,1,4,1Gi")
    (waiting,) = found.waiting

    assert (2, 2, 0) == (found.pods, found.bound, found.never_bound)
    assert 0.0 == waiting.waiting_p50
    assert 90.0 <= waiting.waiting_p99 <= 101.0
    assert found.complete
    assert 100.0 == next(use.peak for use in found.allocation if use.resource == "cpu")


def test_pods_that_never_fit_are_counted_by_shape():
    """A pod larger than each node is never bound, others are not held up."""
    found = played("0,10,a,huge,2,8,1Gi", "1,10,b,small,3,1,1Gi")

    assert [("a", "huge", 2, 0), ("b", "small", 3, 3)] == [
        (one.namespace, one.shape, one.pods, one.bound) for one in found.waiting
    ]


def test_a_pod_without_duration_stays():
    """An empty duration never ends; the play is over when nothing ends any more."""
    found = played("0,,a,s,1,2,1Gi", "5,,a,s,1,2,1Gi", "6,,a,s,1,2,1Gi")

    assert (2, 1) == (found.bound, found.never_bound)


def test_allocation_is_weighted_by_time():
    """Half of the node for half of the time."""
    found = played("0,100,a,s,1,2,1Gi", "200,0,a,s,1,2,1Gi")
    (cpu,) = [use for use in found.allocation if use.resource == "cpu"]

    assert 25.0 == cpu.mean
    assert 50.0 == cpu.peak


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (["-1,10,a,s,1,1,1Gi"], r"t\.csv:2: arrival"),
        (["0,-10,a,s,1,1,1Gi"], r"t\.csv:2: duration"),
        (["1h,10,a,s,1,1,1Gi"], r"t\.csv:2: arrival \"1h\""),
        (["nan,10,a,s,1,1,1Gi"], r"t\.csv:2: arrival"),
        (["0,10,a,s,0,1,1Gi"], r"t\.csv:2: count"),
        (["0,10,a,s,1,one,1Gi"], r"t\.csv:2: cpu"),
        (["0,10,a,s,1,-1,1Gi"], r"t\.csv:2: cpu"),
        (["0,10,a,s,1,1"], r"t\.csv:2: has 6 cells"),
        (["5,10,a,s,1,1,1Gi", "4,10,a,s,1,1,1Gi"], r"t\.csv:3: arrival 4 comes after 5"),
        (["0,10," + "x" * 64 + ",s,1,1,1Gi"], r"t\.csv:2: namespace is longer"),
    ],
)
def test_what_cannot_be_read_is_named_by_line(rows, text):
    """File, line, value and what to do."""
    with pytest.raises(InputError, match=text):
        list(read_trace([HEADER, *rows], "t.csv"))


@pytest.mark.parametrize("header", ["", "duration,cpu", "arrival,cpu,cpu", "arrival,colour"])
def test_a_header_that_cannot_be_used_is_refused(header):
    """The first line names the columns."""
    with pytest.raises(InputError, match=r"t\.csv:1"):
        list(read_trace([header], "t.csv"))
