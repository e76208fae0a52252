"""Traces on the virtual clock: arrivals, ends, waiting times, and unreadable lines."""

import json
from random import Random

import pytest
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli.inputs import cmdio
from scheduler.config import default_config
from scheduler.engine.decisionlog import LogBuffer, decode_step
from scheduler.engine.effects import Answer, Bind, Leading, Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.intree import registry
from scheduler.objects.plain import read_node, read_pod
from scheduler.objects.pod import Pod
from scheduler.simulate.stage import AnswerOptions, staged
from scheduler.simulate.traces.csvfile import read_trace
from scheduler.simulate.traces.manifests import read_lines, read_manifests
from scheduler.simulate.traces.play import TracePlayer
from scheduler.simulate.traces.record import TraceRecorder
from scheduler.snapshot.documents import SourceFile
from scheduler.snapshot.snapshot import Snapshot
from scheduler.testing import node, pod

HOST = "kubernetes.io/hostname"
HEADER = "arrival,duration,namespace,shape,count,cpu,memory"


def summary_of(*rows, nodes=1, header=HEADER):
    """Return the summary of a trace on equal nodes of 4 cores."""
    snapshot = Snapshot(nodes=tuple(read_node(node(f"n{i}")) for i in range(nodes)))
    stage = staged(snapshot, cmdio.setups("").default, AnswerOptions(now=1e9))
    player = TracePlayer(stage, "trellis")
    player.play(read_trace([header, *rows], "t.csv"), lambda _pods, _seconds: None)
    return player.summary()


def test_a_pod_waits_until_another_one_ends():
    """Two pods each fill the node: the second one waits for the end of the first."""
    found = summary_of("0,100,a,big,1,4,1Gi", "10,100,a,big,1,4,1Gi")
    (waiting,) = found.waiting

    assert (2, 2, 0) == (found.pods, found.bound, found.never_bound)
    assert 0.0 == waiting.waiting_p50
    assert 90.0 <= waiting.waiting_p99 <= 101.0
    assert found.complete
    assert 100.0 == next(use.peak for use in found.allocation if use.resource == "cpu")


def test_pods_that_never_fit_are_counted_by_shape():
    """A pod larger than each node is never bound, and does not delay others."""
    found = summary_of("0,10,a,huge,2,8,1Gi", "1,10,b,small,3,1,1Gi")

    assert [("a", "huge", 2, 0), ("b", "small", 3, 3)] == [
        (one.namespace, one.shape, one.pods, one.bound) for one in found.waiting
    ]


def test_a_pod_without_duration_stays():
    """A pod with an empty duration never ends; the run is over after the last end."""
    found = summary_of("0,,a,s,1,2,1Gi", "5,,a,s,1,2,1Gi", "6,,a,s,1,2,1Gi")

    assert (2, 1) == (found.bound, found.never_bound)


def test_allocation_is_weighted_by_time():
    """Half of the node for half of the time counts as a quarter."""
    found = summary_of("0,100,a,s,1,2,1Gi", "200,0,a,s,1,2,1Gi")
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
    """The error has file, line, value and remedy."""
    with pytest.raises(InputError, match=text):
        list(read_trace([HEADER, *rows], "t.csv"))


@pytest.mark.parametrize("header", ["", "duration,cpu", "arrival,cpu,cpu", "arrival,colour"])
def test_a_header_that_cannot_be_used_is_refused(header):
    """The first line names the columns."""
    with pytest.raises(InputError, match=r"t\.csv:1"):
        list(read_trace([header], "t.csv"))


def test_a_gang_starts_when_all_of_it_fits():
    """Two members of three cores each wait for both nodes; jobs and gangs have their times."""
    header = HEADER.replace("count", "count,gang")
    found = summary_of("0,100,a,single,1,0,3,1Gi", "10,50,a,gang,2,2,3,1Gi", nodes=2, header=header)
    single, gang = found.jobs[1], found.jobs[0]

    assert (1, 1, 1, 1) == (gang.jobs, gang.completed, gang.gangs, gang.gangs_started)
    assert 90 <= gang.gang_wait_p50 <= 101
    assert gang.gang_wait_p50 + 50 == pytest.approx(gang.completion_p50)
    assert (1, 0, 100) == (single.completed, single.gangs, single.completion_p50)
    assert [2, 0] == [one.refused for one in found.waiting]


def test_points_over_time_are_bounded():
    """The interval doubles; the last point is at the end."""
    found = summary_of("0,100000,a,s,1,2,1Gi", "50000,10,a,t,1,4,1Gi")

    assert 200 <= len(found.points) <= 513
    assert {0, 1} == {one.waiting for one in found.points}
    assert 50.0 == found.points[1].allocation["cpu"]
    # The free half is useless to the pod of 4 cores, which is one of two shapes.
    assert {50.0} == {one.fragmentation["cpu"] for one in found.points if one.waiting}


def manifest(name, arrival, cpu="1", **more):
    """Return a pod of a trace."""
    made = pod(name, requests={"cpu": cpu}, **more)
    made["metadata"]["annotations"] = {"trellis.dev/arrival": arrival, "trellis.dev/duration": "5"}
    return made


def played_lines(*objects, nodes=1, evicted=0):
    """Return the bindings of a trace of objects, one per line, which evicts so many pods."""
    snapshot = Snapshot(nodes=tuple(read_node(node(f"n{i}")) for i in range(nodes)))
    stage = staged(snapshot, cmdio.setups("").default, AnswerOptions(now=1e9))
    player = TracePlayer(stage, "trellis")
    bound = []
    player.on_bound = lambda pod, node, at: bound.append((pod, node, at))
    lines = [json.dumps(one).encode() + b"\n" for one in objects]
    player.play(read_lines(lines, "t.jsonl"), lambda _pods, _seconds: None)
    assert evicted == player.summary().evicted
    return bound


def test_manifests_run():
    """Objects without arrival exist from the start, pods with a node run on it."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2},
    }
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    bound = played_lines(
        group,
        manifest("there", "0", "3", node_name="n0"),
        manifest("a", "1", "2", labels=label),
        manifest("b", "2", "2", labels=label),
    )

    assert ("default/there", "n0", 0.0) == bound[0]
    assert {"default/a", "default/b"} == {one for one, _, _ in bound[1:]}
    assert 5.0 <= min(at for _, _, at in bound[1:])


def test_a_file_of_manifests_is_sorted_by_arrival():
    """YAML and JSON files are read whole."""
    found = read_manifests(
        SourceFile("t.json", json.dumps([manifest("b", "2"), manifest("a", "1")]).encode())
    )

    assert ["a", "b"] == [one.pod.metadata.name for one in found if one.pod]


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        ([manifest("a", "soon")], r't\.jsonl:1: trellis\.dev/arrival "soon"'),
        ([manifest("a", "2"), manifest("b", "1")], r"t\.jsonl:2: trellis.dev/arrival 1 comes"),
        ([manifest("a", "1"), manifest("a", "2")], r"t\.jsonl:2: pod default/a has not ended"),
        ([{"kind": "Pod", "apiVersion": "v1", "metadata": {}}], r"t\.jsonl:1"),
        ([manifest("a", "1", "many")], r"t\.jsonl:1"),
    ],
)
def test_a_bad_object_is_named_by_line(objects, text):
    """The error has file, line, value and remedy."""
    with pytest.raises(InputError, match=text):
        played_lines(*objects)


def test_a_recorded_log_gives_the_same_placements():
    """Arrivals, bindings and ends of an engine as a trace: the run binds each pod to the same
    node.
    """
    nodes = [read_node(node(f"n{i}")) for i in range(4)]
    loaded = default_config(registry())
    engine = Engine(loaded.profiles, registry(), settings=engine_settings(loaded, seed=0))
    log = LogBuffer()
    placed: dict[str, str] = {}
    pods: dict[str, Pod] = {}

    def turn(now, *events):
        size = sum(log.arrive(event) for event in events)
        for event in events:
            engine.handle(event, now)
        effects = engine.run(now, 16)
        log.end_turn(now, size, 16, effects)
        for effect in effects:
            if isinstance(effect, Bind):
                pod_of = pods[effect.uid]
                placed[pod_of.key] = effect.node
                spec = replace(pod_of.spec, node_name=effect.node)
                pods[effect.uid] = bound = replace(pod_of, spec=spec)
                turn(now, Answer(effect.id, 200), Watched("Pod", "MODIFIED", bound))

    rng = Random(7)
    turn(1e9, Listed("Node", tuple(nodes)), Leading(active=True))
    for step in range(1, 80):
        now = 1e9 + 10 * step
        if step % 4 == 0:
            gone = pods.pop(rng.choice(sorted(pods)))
            turn(now, Watched("Pod", "DELETED", gone))
        made = pod(f"p{step}", requests={"cpu": f"{rng.randint(1, 3) * 250}m"})
        made["metadata"]["uid"] = f"u{step}"
        made["spec"]["schedulerName"] = "trellis"
        pods[f"u{step}"] = read_pod(made)
        turn(now + 1, Watched("Pod", "ADDED", pods[f"u{step}"]))

    recorder = TraceRecorder(["trellis"])
    for line in bytes(log.take()).splitlines(keepends=True):
        step_line = decode_step(line)
        recorder.take(step_line.now, step_line.events)
    stage = staged(
        Snapshot(nodes=tuple(nodes)),
        cmdio.setups("").default,
        AnswerOptions(now=1e9, ties=engine.settings.ties),
    )
    player = TracePlayer(stage, "trellis")
    found: list[tuple[str, str]] = []
    player.on_bound = lambda pod, node, _at: found.append((pod, node))
    player.play(read_lines(recorder.lines(), "t"), lambda _pods, _seconds: None)

    assert 40 < len(placed)
    assert placed == dict(found)


def recorded(*turns, nodes=1):
    """Return the notes of the trace of these turns, and the node and time of each pod it binds."""
    recorder = TraceRecorder(["trellis"])
    recorder.take(1e9, [Leading(active=True)])
    for at, *events in turns:
        recorder.take(1e9 + at, events)
    lines = list(recorder.lines())
    names = [f"n{i}" for i in range(nodes)]
    known = tuple(read_node(node(name, cpu="4", labels={HOST: name})) for name in names)
    stage = staged(Snapshot(nodes=known), cmdio.setups("").default, AnswerOptions(now=1e9))
    player = TracePlayer(stage, "trellis")
    found: dict[str, tuple[str, float]] = {}
    player.on_bound = lambda name, to, at: found.update({name.split("/")[1]: (to, round(at, 3))})
    player.play(read_lines(lines, "t"), lambda _pods, _seconds: None)
    metas = [json.loads(line)["metadata"] for line in lines]
    return {meta["name"]: meta["annotations"] for meta in metas}, found


def versions(name, node_name="n0", cpu="4"):
    """Return the events of a pod's creation, binding and deletion."""
    made = pod(name, requests={"cpu": cpu}, spec={"schedulerName": "trellis"})
    new = read_pod(made)
    bound = replace(new, spec=replace(new.spec, node_name=node_name))
    return (
        Watched("Pod", "ADDED", new),
        Watched("Pod", "MODIFIED", bound),
        Watched("Pod", "DELETED", bound),
    )


@pytest.mark.parametrize(
    ("bound_s", "ended_s", "last_s"),
    [(0.5, 6, 6.0), (4, 6, 6.0), (5.25, 6, 6.0), (5.75, 7.75, 2.5), (30, 32, 2.5)],
)
def test_a_recorded_pod_ends_as_it_did(bound_s, ended_s, last_s):
    """A pod that the replay binds at most 5 s before its recorded binding ends at its recorded end,
    any other one after its recorded run time.
    """
    (new, bound, gone), (last, *_) = versions("first"), versions("last")
    turns = [(0.5, new), (1, last), (bound_s, bound), (ended_s, gone)]
    notes, found = recorded(*sorted(turns, key=lambda turn: turn[0]))

    assert {"first": ("n0", 0.5), "last": ("n0", last_s)} == found
    assert f"{bound_s - 0.5:.6f}" == notes["first"]["trellis.dev/waited"]
    assert f"{ended_s - bound_s:.6f}" == notes["first"]["trellis.dev/duration"]


@pytest.mark.parametrize(("waiting_s", "bound"), [(9.5, "new"), (2, "waiting")])
def test_ends_and_arrivals_of_one_turn_are_decided_together(waiting_s, bound):
    """A pod in back-off is tried after an active pod that arrived in the turn in which another pod
    ended. A pod that this end requeued is tried before it.
    """
    (first, binding, gone), (waiting, *_), (new, *_) = map(versions, ("first", "waiting", "new"))
    _, found = recorded((1, first), (1, binding), (waiting_s, waiting), (9.75, gone, new))

    assert {"first": ("n0", 1.0), bound: ("n0", 9.75)} == found


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_pods_that_ended_in_one_turn_end_in_their_order(names, monkeypatch):
    """The engine sees the deletions in the order of the log, whichever pod was bound first."""
    (one, one_bound, one_gone), (two, two_bound, two_gone) = versions("one"), versions("two", "n1")
    gone = {"one": one_gone, "two": two_gone}
    seen = []
    handle = Engine.handle

    def spy(engine, event, now):
        if isinstance(event, Watched) and event.verb == "DELETED":
            seen.append(event.object.metadata.name)
        handle(engine, event, now)

    monkeypatch.setattr(Engine, "handle", spy)
    recorded(
        (1, one, one_bound),
        (2.3, two, two_bound),
        (8.1, *(gone[name] for name in names)),
        nodes=2,
    )

    assert list(names) == seen


def test_pods_that_ended_in_one_turn_end_together():
    """Times are rounded to microseconds before they are subtracted, so that they add up again."""
    (one, one_bound, one_gone), (two, two_bound, two_gone) = (
        versions("one", "n0"),
        versions("two", "n1"),
    )
    waiting, *_ = versions("waiting")
    for bound_s in (0.3000004, 0.3000006, 0.7654321, 1.1111115):
        _, found = recorded(
            (0.1000004, one),
            (0.2, one_bound, two),
            (bound_s, two_bound),
            (2, waiting),
            (5.0000006, one_gone, two_gone),
            nodes=2,
        )
        assert {"one": ("n0", 0.1), "two": ("n1", 0.2), "waiting": ("n0", 5.0)} == found


def test_what_was_listed_before_the_start_is_there_at_the_start():
    """A listed pod is decided on with all that was listed, also after it."""
    spec = {"schedulerName": "trellis"}
    waiting = read_pod(pod("waiting", requests={"cpu": "3"}, spec=spec))
    there = read_pod(pod("there", requests={"cpu": "2"}, spec=spec | {"nodeName": "n0"}))
    recorder = TraceRecorder(["trellis"])
    recorder.take(1e9, [Listed("Pod", (waiting,))])
    recorder.take(1e9 + 1, [Watched("Pod", "ADDED", there)])
    recorder.take(1e9 + 2, [Leading(active=True)])
    recorder.take(1e9 + 5, [Watched("Pod", "DELETED", there)])
    nodes = (read_node(node("n0", cpu="4")),)
    player = TracePlayer(
        staged(Snapshot(nodes=nodes), cmdio.setups("").default, AnswerOptions(now=1e9)),
        "trellis",
    )
    found: list[tuple[str, float]] = []
    player.on_bound = lambda name, _node, at: found.append((name, round(at, 1)))
    player.play(read_lines(recorder.lines(), "t"), lambda _pods, _seconds: None)

    assert [("default/there", 0.0), ("default/waiting", 3.0)] == found


def test_a_pod_that_was_deleted_before_it_was_bound_waits_as_long():
    """The pod is deleted at its time, bound or not, and takes nothing that becomes free later."""
    spec = {"schedulerName": "trellis"}
    first, waiting = (read_pod(pod(name, requests={"cpu": "4"}, spec=spec)) for name in "ab")
    bound = replace(first, spec=replace(first.spec, node_name="n0"))
    last = read_pod(pod("c", requests={"cpu": "1"}, spec=spec))
    recorder = TraceRecorder(["trellis"])
    recorder.take(1e9, [Leading(active=True)])
    recorder.take(1e9 + 1, [Watched("Pod", "ADDED", first), Watched("Pod", "MODIFIED", bound)])
    recorder.take(1e9 + 2, [Watched("Pod", "ADDED", waiting)])
    recorder.take(1e9 + 9, [Watched("Pod", "DELETED", waiting)])
    recorder.take(1e9 + 20, [Watched("Pod", "DELETED", bound)])
    recorder.take(1e9 + 25, [Watched("Pod", "ADDED", last)])
    nodes = (read_node(node("n0", cpu="4")),)
    stage = staged(Snapshot(nodes=nodes), cmdio.setups("").default, AnswerOptions(now=1e9))
    player = TracePlayer(stage, "trellis")
    found: list[str] = []
    player.on_bound = lambda name, _node, _at: found.append(name)
    player.play(read_lines(recorder.lines(), "t"), lambda _pods, _seconds: None)

    assert ["default/a", "default/c"] == found
    summary = player.summary()
    assert (3, 2, 1) == (summary.pods, summary.bound, summary.never_bound)


def test_a_trace_keeps_the_fraction_of_a_second():
    """Back-offs end at whole seconds; what was listed arrives when decisions begin."""
    listed, later = (read_pod(pod(name)) for name in ("listed", "later"))
    recorder = TraceRecorder(["trellis"])
    recorder.take(1e9 - 2, [Listed("Pod", (listed,))])
    recorder.take(1e9 + 0.25, [Leading(active=True)])
    recorder.take(1e9 + 3.5, [Watched("Pod", "ADDED", later)])

    notes = [json.loads(line)["metadata"]["annotations"] for line in recorder.lines()]
    assert ["0.250000", "3.500000"] == [one["trellis.dev/arrival"] for one in notes]


def times(arrival, **more):
    """Return the annotations of a trace."""
    notes = {"arrival": arrival, **more}
    return {"annotations": {f"trellis.dev/{name}": str(at) for name, at in notes.items()}}


def prioritised(name, priority, cpu, at, **more):
    """Return a pod of a trace with a priority."""
    made = pod(name, requests={"cpu": cpu}, **more)
    made["spec"] |= {"schedulerName": "trellis", "priority": priority}
    made["metadata"] |= at
    return made


@pytest.mark.parametrize(("end", "bound"), [(12.5, 12.5), (100, 10.0)])
def test_an_evicted_pod_stops_at_its_end_if_that_is_near(end, bound):
    """The recorded end of a victim is the one at which it had stopped; others stop at once."""
    low = prioritised("low", 0, "4", times(0, duration=end))
    high = prioritised("high", 100, "4", times(10, duration=50))
    found = played_lines(low, high, evicted=1)

    assert [("default/low", "n0", 0.0), ("default/high", "n0", bound)] == found


def test_no_second_pod_is_evicted_while_the_first_one_stops():
    """When the guard of n1 ends, evicting from there is possible, and would be preferred as the pod
    there started later.
    """
    lines = [
        prioritised("first", 0, "4", times(0, duration=13)),
        prioritised("guard", 200, "2", times(1, duration=10.5)),
        prioritised("other", 0, "2", times(9, duration=100)),
        prioritised("high", 100, "4", times(10, duration=50)),
    ]
    found = played_lines(*lines, nodes=2, evicted=1)
    bound = {name.split("/")[1]: (to, at) for name, to, at in found}

    assert {"first": ("n0", 0), "guard": ("n1", 1), "other": ("n1", 9), "high": ("n0", 13)} == bound


@pytest.mark.parametrize(("waited", "victim"), [(0, "second"), (3, "first")])
def test_victims_are_chosen_by_their_recorded_start(waited, victim):
    """Of equal pods the one that started last is evicted."""
    lines = [
        prioritised("first", 0, "4", times(0, waited=waited, duration=100)),
        prioritised("second", 0, "4", times(2, waited=0, duration=100)),
        prioritised("high", 100, "4", times(10, duration=200)),
    ]
    bound = {name.split("/")[1]: to for name, to, _ in played_lines(*lines, nodes=2, evicted=1)}

    assert bound[victim] == bound["high"]


def test_a_pod_waits_for_its_eviction_as_long_as_it_did():
    """The capacity of n1, which is free before the eviction's answer, goes to the next pod."""
    lines = [
        prioritised("low", 0, "4", times(0, duration=100)),
        prioritised("guard", 200, "4", times(1, duration=9.25)),
        {"kind": "RecordedAnswer", "metadata": {"name": "Evict", **times(5, waited=5, duration=1)}},
        prioritised("high", 100, "4", times(10, duration=50)),
        prioritised("next", 0, "4", times(10.5, duration=50)),
    ]
    found = played_lines(*lines, nodes=2, evicted=1)
    bound = {name.split("/")[1]: (to, at) for name, to, at in found}

    assert {"low": ("n0", 0), "guard": ("n1", 1), "next": ("n1", 10.5), "high": ("n0", 11)} == bound


def test_a_deleted_pod_terminates_as_long_as_it_did():
    """A terminating pod keeps its capacity, but no longer counts for topology spread."""
    new, bound, gone = versions("a", "n0", "1")
    spread = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }
    labels = {"app": "x"}
    meta = replace(bound.object.metadata, labels=labels)
    made = pod("b", requests={"cpu": "1"}, labels=labels)
    made["spec"] |= {"schedulerName": "trellis", "topologySpreadConstraints": [spread]}
    labelled = [
        Watched("Pod", one.verb, replace(one.object, metadata=meta)) for one in (new, bound, gone)
    ]
    deleting = replace(
        bound.object, metadata=replace(meta, deletion_timestamp="2001-09-09T01:46:45Z")
    )
    notes, found = recorded(
        (1, labelled[0], labelled[1]),
        (2, *versions("full", "n1")[:2]),
        (5, Watched("Pod", "MODIFIED", deleting)),
        (6, Watched("Pod", "ADDED", read_pod(made))),
        (8, labelled[2]),
        nodes=2,
    )

    assert "3.000000" == notes["a"]["trellis.dev/termination"]
    assert {"a": ("n0", 1.0), "full": ("n1", 2.0), "b": ("n0", 6.0)} == found


@pytest.mark.parametrize(
    ("asked_s", "bound_s"), [(0.5, 0.6), (0.6, 3.1), (4.0, 6.5), (5.5, 8.0), (6.0, 0.6)]
)
def test_a_group_is_planned_as_late_as_it_was(asked_s, bound_s):
    """The solver's answer comes at its recorded time if the daemon asked within 5 s."""
    label = {"scheduling.x-k8s.io/pod-group": "g"}
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 2},
    }
    notes = times(0.3, waited=asked_s - 0.3, duration=2.5)
    found = played_lines(
        group,
        {"kind": "RecordedAnswer", "metadata": {"name": "Solve", **notes}},
        # Members of two roles are always a question to the solver.
        manifest("a", "0.6", "2", labels=label),
        manifest("b", "0.6", "3", labels=label),
        nodes=2,
    )

    assert {bound_s} == {round(at, 3) for _, _, at in found}
    assert 2 == len(found)


def test_the_times_of_requests_are_recorded():
    """The line arrives 5 s before its request, so that a replay that makes it early knows it."""
    recorder = TraceRecorder(["trellis"])
    recorder.take(1e9, [Leading(active=True)])
    recorder.take(1e9 + 2, [], {3: "Solve"})
    recorder.take(1e9 + 7.5, [Answer(1, 200), Answer(3, 200)], {4: "Evict"})
    recorder.take(1e9 + 8, [Answer(4, 200)], {5: "Solve"})

    found = list(read_lines(recorder.lines(), "t"))
    assert [("Solve", 0.0, 2.0, 5.5), ("Evict", 2.5, 5.0, 0.5)] == [
        (one.obj, one.at_s, one.waited_s, one.duration_s) for one in found
    ]
