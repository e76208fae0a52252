"""`trellis simulate --trace`: exit codes, forms, two configurations, and what cannot be read."""

import json

import pytest

from scheduler.cli.main import run
from scheduler.testing import node

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
    """JSON has the counts; the exit code says that something was not bound."""
    argv, trace = files
    trace.write_text(HEADER + "0,100,team,huge,1,16,1Gi\n")

    assert 3 == run([*argv, "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert ("TraceSimulation", 1, True) == (found["kind"], found["neverBound"], found["complete"])


def test_two_configurations_are_played(files, tmp_path, capsys):
    """`--against` plays the trace again under the other one."""
    argv, _ = files
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )

    assert 0 == run([*argv, "--against", str(config), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [5, 5] == [one["bound"] for one in found.values()]


def test_a_bad_row_is_named_by_line(files, capsys):
    """Exit code 2, the file and the line."""
    argv, trace = files
    trace.write_text(HEADER + "0,100,team,web,1,1,1Gi\n-1,1,team,web,1,1,1Gi\n")

    assert 2 == run(argv)
    assert "trace.csv:3: arrival" in capsys.readouterr().err


def test_a_trace_has_no_page(files, capsys):
    """What is not there is refused."""
    argv, _ = files

    assert 2 == run([*argv, "-o", "html"])
    assert "-o html" in capsys.readouterr().err
