"""The arithmetic of the benchmark agrees with its README; no process is started here."""

import msgspec
import pytest

from tests.perf import figures, observer, table, workload
from tests.perf.contest import Outcome
from tests.perf.inprocess import WorkloadRun
from tests.perf.usage import Sampler
from tests.real.exposition import parse


@pytest.mark.parametrize("name", workload.names())
def test_every_workload_can_be_read(name):
    """Each file decodes strictly, starts a scheduler, measures pods and waits for them."""
    load = workload.load(name)
    kinds = [type(op) for op in load.ops]

    assert 1 == kinds.count(workload.StartScheduler)
    assert workload.Barrier is kinds[-1]
    assert load.measured_pods > 0
    assert name.startswith(("smoke", "basic", "gangs")) or not load.is_backlog


def test_manifests_carry_what_the_workload_asks_for():
    """Labels alternate, patches are merged over the standard object, everything else stays."""
    nodes = workload.CreateNodes(count=3, labels={"zone": ["a", "b"]})
    pods = workload.CreatePods(count=2, patch={"spec": {"nodeSelector": {"zone": "a"}}})

    assert ["a", "b", "a"] == [n["metadata"]["labels"]["zone"] for n in nodes.manifests()]
    (first, second) = pods.manifests("some-scheduler")
    assert ("pod-00000", "pod-00001") == (first["metadata"]["name"], second["metadata"]["name"])
    assert ("some-scheduler", {"zone": "a"}) == (
        first["spec"]["schedulerName"],
        first["spec"]["nodeSelector"],
    )
    assert workload.POD["spec"]["containers"] == first["spec"]["containers"]


def test_templates_follow_the_number_of_the_pod():
    """A number, its remainder, and a sum fill in names and labels, in keys as well as in values."""
    pods = workload.CreatePods(
        count=4,
        namespace="ns-{{mod .Index 2}}",
        patch={"metadata": {"labels": {"l-{{.Index}}": "{{add 5 (mod .Index 3)}}m"}}},
    )
    made = [manifest["metadata"] for manifest in pods.manifests("any")]

    assert ["ns-0", "ns-1", "ns-0", "ns-1"] == [meta["namespace"] for meta in made]
    assert [{"l-0": "5m"}, {"l-1": "6m"}, {"l-2": "7m"}, {"l-3": "5m"}] == [
        meta["labels"] for meta in made
    ]


def test_gangs_are_groups_with_their_pods():
    """Each `size` pods name one group; a topology key keeps all of them together."""
    pods = workload.CreatePods(count=6, gang_of=3, gang_topology_key="rack")
    groups = list(pods.groups())

    assert ["gang-00000", "gang-00001"] == [one["metadata"]["name"] for one in groups]
    assert {
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": "PodGroup",
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
    } == groups[0]["spec"]
    named = [pod["spec"]["schedulingGroup"]["podGroupName"] for pod in pods.manifests("any")]
    assert ["gang-00000"] * 3 + ["gang-00001"] * 3 == named


@pytest.mark.parametrize("row", [row for row in table.ROWS if row.workload], ids=lambda r: r.name)
def test_every_row_of_the_table_has_a_workload(row):
    """Each file decodes strictly, measures pods and waits for them."""
    load = workload.load(f"inprocess/{row.workload}")

    assert load.measured_pods > 0
    assert workload.Barrier is type(load.ops[-1])


def test_a_workload_runs_in_process():
    """Every measured pod is bound, preemptors after their victims are deleted; retries are
    counted.
    """
    small = workload.load("inprocess/preemption-5000-5000")
    sizes = {5000: 20, 20000: 80}
    ops = [
        msgspec.structs.replace(op, count=sizes[op.count]) if hasattr(op, "count") else op
        for op in small.ops
    ]
    found = WorkloadRun().carry_out(msgspec.structs.replace(small, ops=ops))

    assert (20, 60) == (found["pods"], found["evictions"])
    assert {"scheduled": 20, "unschedulable": 20} == found["attempts"]


def test_plain_rate_counts_the_gaps():
    """Five pods bound over two seconds are two pods a second: there are four gaps."""
    assert 2.0 == figures.plain_rate([1.0, 1.5, 2.0, 2.5, 3.0])
    assert figures.plain_rate([1.0]) is None


def test_sampled_rates_follow_the_suite():
    """The sample with the first bind is dropped; an empty second shares the next one's pods."""
    bound = [0.5, 1.1, 1.2, 1.3, 3.5, 3.6]
    got = figures.sampled_rates(0.0, bound)

    assert got is not None
    assert 3 == got["samples"]
    assert (3 + 1 + 1) / 3 == got["average"]
    assert (1, 3) == (got["perc50"], got["perc99"])
    assert figures.sampled_rates(0.0, [0.1, 0.2]) is None


def test_percentiles_of_a_histogram_are_interpolated():
    """Ten observations, half below 1 ms: the median is that bound, other percentiles are between
    bounds.
    """
    text = """# TYPE scheduler_scheduling_algorithm_duration_seconds histogram
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.001"} 5
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.002"} 10
scheduler_scheduling_algorithm_duration_seconds_bucket{le="+Inf"} 10
scheduler_scheduling_algorithm_duration_seconds_sum 0.012
scheduler_scheduling_algorithm_duration_seconds_count 10
"""
    (got,) = figures.latencies(parse(text)).values()

    assert (10, 1.0) == (got["count"], got["perc50"])
    assert [1.2, 1.8] == pytest.approx([got["average"], got["perc90"]])


def test_ratios_divide_ours_by_theirs():
    """A ratio above one means more than the other, for time and for throughput."""
    ours = {"podsPerSecond": 600.0, "schedulerCpuMsPerPod": 0.5}
    theirs = {"podsPerSecond": 300.0, "schedulerCpuMsPerPod": 1.0}

    assert {"peer": {"podsPerSecond": 2.0, "schedulerCpuMsPerPod": 0.5}} == figures.ratios(
        ours, {"peer": theirs}
    )


def test_usage_is_interpolated_between_samples():
    """Half way between two samples half of the time was used; outside the ends the value is
    constant.
    """
    sampler = Sampler({"a": 1})
    sampler.times, sampler.cpu = [0.0, 2.0, 4.0], {"a": [1.0, 2.0, 4.0]}
    sampler.machine = [10.0, 13.0, 16.0]

    assert 1.5 == sampler.between("a", 1.0, 3.0)
    assert 3.0 == sampler.between("a", -5.0, 9.0)
    assert 1.5 == sampler.others_between(1.0, 3.0)


def test_the_observer_reads_both_encodings():
    """Whole lines and frames are removed from the buffer, a partial one stays for later."""
    meta = {"name": "p", "namespace": "ns", "resourceVersion": "7", "uid": "u"}
    line = msgspec.json.encode({"type": "ADDED", "object": {"kind": "Pod", "metadata": meta}})
    buffer = bytearray(line + b"\n" + line[:20])
    (from_json,) = observer._json_pods(buffer)
    frame = watch_frame(name="p", namespace="ns", version="7")
    frames = bytearray(frame + frame[:9])
    (from_protobuf,) = observer._protobuf_pods(frames)

    assert ("p", "ns", "7") == msgspec.structs.astuple(from_json)
    assert from_json == from_protobuf
    assert (line[:20], frame[:9]) == (bytes(buffer), bytes(frames))


def watch_frame(name: str, namespace: str, version: str) -> bytes:
    """Return a pod's watch event as the API server frames it."""
    meta = field(1, name) + field(2, "") + field(3, namespace) + field(5, "u") + field(6, version)
    unknown = field(1, field(1, "v1")) + field(2, field(1, meta))
    event = field(1, "ADDED") + field(2, field(1, b"k8s\0" + unknown))
    return len(event).to_bytes(4, "big") + event


def field(number: int, content: str | bytes) -> bytes:
    """Return one length-delimited protobuf field (shorter than 128 bytes)."""
    data = content.encode() if isinstance(content, str) else content
    return bytes([number << 3 | 2, len(data)]) + data


def test_backlogs_and_streams_begin_elsewhere():
    """CPU per pod begins with the first bind of a backlog, with the first creation of a stream."""
    outcome = Outcome(
        bound=[2.0, 4.0],
        phase_start=1.0,
        scheduler_start=0.0,
        settled=4.0,
        events=2,
        other_pods=0,
        watches_cut_off=0,
        observer_restarts=0,
        metrics="",
        log_tail="",
        sampler=sampler_of_one_second_per_second(),
    )
    backlog, stream = workload.load("smoke-50-200"), workload.load("smoke-stream-50-200")

    assert 1000.0 == figures.figures(backlog, outcome)["schedulerCpuMsPerPod"]
    assert 1500.0 == figures.figures(stream, outcome)["schedulerCpuMsPerPod"]
    assert 1.0 == figures.figures(stream, outcome)["eventsPerBoundPod"]


def sampler_of_one_second_per_second() -> Sampler:
    names = ("scheduler", "etcd", "kube-apiserver")
    sampler = Sampler(dict.fromkeys(names, 1), times=[0.0, 4.0], machine=[0.0, 12.0])
    sampler.cpu = {name: [0.0, 4.0] for name in names}
    sampler.peaks_mib = dict.fromkeys(names, 1.0)
    return sampler
