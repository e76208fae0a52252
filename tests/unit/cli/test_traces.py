"""`trellis simulate --trace`: exit codes, forms, two configurations, and invalid traces."""

import json

import pytest

from scheduler.cli.main import run
from scheduler.engine.decisionlog import Header, LogBuffer, encode_header
from scheduler.engine.effects import Answer, Leading, Listed, Look, Solve, Watched
from scheduler.objects.plain import read_node, read_pod
from scheduler.testing import node, pod

HEADER = "arrival,duration,namespace,shape,count,cpu,memory\n"


@pytest.fixture
def files(tmp_path):
    """A node of 4 cores, and a trace that fills it twice."""
    snapshot, trace = tmp_path / "cluster.json", tmp_path / "trace.csv"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("a")]}))
    trace.write_text(HEADER + "0,100,team,web,4,1,1Gi\n50,100,team,web,1,4,1Gi\n")
    return ["simulate", "--snapshot", str(snapshot), "--trace", str(trace)], trace


def test_the_table_has_waiting_times(files, capsys):
    """Exit code 0 where all pods were bound."""
    argv, _ = files

    assert 0 == run(argv)
    shown = capsys.readouterr()
    assert "cpu" in shown.out
    assert ["team", "web", "5", "5", "0"] == shown.out.splitlines()[-1].split()[:5]
    assert "5 pods" in shown.err


def test_pods_that_never_fit_end_with_3(files, capsys):
    """JSON has the counts; the exit code states that a pod was not bound."""
    argv, trace = files
    trace.write_text(HEADER + "0,100,team,huge,1,16,1Gi\n")

    assert 3 == run([*argv, "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert ("TraceSimulation", 1, True) == (found["kind"], found["neverBound"], found["complete"])


def test_two_configurations_are_compared(files, tmp_path, capsys):
    """`--against` runs the trace again under the other one."""
    argv, _ = files
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )

    assert 0 == run([*argv, "--against", str(config), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [5, 5] == [one["bound"] for one in found.values()]


def test_a_bad_row_is_named_by_line(files, capsys):
    """The exit code is 2, and the message names file and line."""
    argv, trace = files
    trace.write_text(HEADER + "0,100,team,web,1,1,1Gi\n-1,1,team,web,1,1,1Gi\n")

    assert 2 == run(argv)
    assert "trace.csv:3: arrival" in capsys.readouterr().err


def test_the_page_is_one_file_and_escapes_names(files, capsys):
    """The page has no script and no external resource; a shape that looks like a tag stays text."""
    argv, trace = files
    trace.write_text(HEADER + "0,100,team,<script>x</script>,1,1,1Gi\n")

    assert 0 == run([*argv, "-o", "html"])
    page = capsys.readouterr().out
    assert "&lt;script&gt;x" in page
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert page.count("<polyline") >= 3
    assert "http" not in page.replace("http-equiv", "")


def test_a_log_becomes_a_trace(tmp_path, capsys):
    """Nodes for --snapshot, pods with arrival and duration, and the run of both."""
    log, nodes, trace = (tmp_path / name for name in ("log", "nodes.json", "trace.jsonl"))
    bound = read_pod(pod("b", node_name="a", spec={"schedulerName": "trellis"}))
    turns = [
        (0, Listed("Node", (read_node(node("a")),))),
        (0, Leading(active=True)),
        (5, Watched("Pod", "ADDED", read_pod(pod("b", spec={"schedulerName": "trellis"})))),
        (6, Watched("Pod", "MODIFIED", bound)),
        (6, Answer(1, 200)),
        (7, Answer(2, 200)),
        (66, Watched("Pod", "DELETED", bound)),
    ]
    asked = (Look(1, "default", "b"), Solve(2, {}, 1.0))
    buffer = LogBuffer()
    for at, event in turns:
        effects = asked if isinstance(event, Watched) and event.verb == "MODIFIED" else ()
        buffer.end_turn(1e9 + at, buffer.arrive(event), 1, effects)
    log.write_bytes(encode_header(Header("1")) + bytes(buffer.take()))

    assert 0 == run(["trace", "--decision-log", str(log), "--nodes", str(nodes)])
    out = capsys.readouterr().out
    answer, made = (json.loads(line) for line in out.splitlines())
    notes = [list(one["metadata"]["annotations"].values()) for one in (answer, made)]
    assert [["1.000000", "6", "5.000000", "1.000000"]] == notes[:1]
    assert [["5.000000", "7", "1.000000", "60.000000"]] == notes[1:]
    assert "nodeName" not in made["spec"]
    trace.write_text(out)
    assert 0 == run(["simulate", "--snapshot", str(nodes), "--trace", str(trace), "-o", "json"])
    assert 66.0 == json.loads(capsys.readouterr().out)["seconds"]


def test_a_log_that_cannot_be_read_is_named(tmp_path, capsys):
    """The exit code is 2, and the message names file and line."""
    log = tmp_path / "log"
    log.write_bytes(encode_header(Header("1")) + b"{}\n")

    assert 2 == run(["trace", "--decision-log", str(log)])
    assert f"{log}:2" in capsys.readouterr().err
    assert 2 == run(["trace", "--decision-log", str(log), "--for", "1m"])
    assert "--for: applies to a cluster that is watched" in capsys.readouterr().err
    assert 2 == run(["trace", "--for", "soon"])
    assert '--for: "soon" is not a duration like 30s' in capsys.readouterr().err
    assert 1 <= run(["trace", "--decision-log", str(tmp_path / "none")])
