"""Decision logs: a replay gives the recorded results, and a forged one is detected."""

import io
import subprocess
import sys

import pytest

from scheduler.base.errors import InputError
from scheduler.config import default_config
from scheduler.engine.decisionlog import Header, encode_header, encode_step
from scheduler.engine.effects import Answer, Bind, Event, Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.intree import registry
from scheduler.objects.node import Node, NodeMeta, NodeStatus
from scheduler.objects.pod import (
    Container,
    Pod,
    PodMeta,
    PodSpec,
    ResourceList,
    ResourceRequirements,
)
from scheduler.simulate.replay import replay

REPLAY = """
import sys
from scheduler.simulate.replay import replay
from tests.unit.simulate.test_replay import engine
result = replay(open(sys.argv[1], "rb"), engine)
print(result.turns, result.binds, result.is_same)
"""


def engine(header: Header) -> Engine:
    """Return the engine for the configuration of a header."""
    del header
    known = registry()
    return Engine(default_config(known).profiles, known)


def node(name: str) -> Node:
    offers: ResourceList = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    return Node(metadata=NodeMeta(name=name), status=NodeStatus(allocatable=offers))


def pod(name: str, cpu: str) -> Pod:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    meta = PodMeta(name=name, namespace="default", uid=f"uid-{name}")
    return Pod(metadata=meta, spec=PodSpec(scheduler_name="trellis", containers=(container,)))


@pytest.fixture
def log() -> bytes:
    """Return a log of twenty pods on five nodes, two of which fit nowhere; one response is a
    conflict.
    """
    running = engine(Header("test"))
    lines = [encode_header(Header("test"))]
    events: list[Event] = [Listed("Node", tuple(node(f"n{i}") for i in range(5)))]
    for number in range(20):
        cpu = "9" if number % 10 == 7 else "500m"
        events.append(Watched("Pod", "ADDED", pod(f"p{number:02}", cpu)))
    for turn in range(12):
        now = 100.25 + turn
        for event in events:
            running.handle(event, now)
        effects = running.run(now, 3)
        lines.append(encode_step(now, events, 3, effects))
        binds = [effect for effect in effects if isinstance(effect, Bind)]
        events = [Answer(bind.id, 409 if bind.id == 4 else 201) for bind in binds]
    return b"".join(lines)


def test_the_same_decisions_come_out(log):
    """A log replays byte for byte on a fresh engine."""
    result = replay(io.BytesIO(log), engine)

    assert (True, True, 12) == (result.is_same, result.is_complete, result.turns)
    assert result.binds >= 18


@pytest.mark.parametrize("seed", ["0", "4711"])
def test_another_hash_seed_changes_nothing(log, tmp_path, seed):
    """The order of sets and dicts of strings never reaches a decision."""
    path = tmp_path / "decisions.log"
    path.write_bytes(log)
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, str(path)],
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "12" == done.stdout.split()[0]
    assert "True" == done.stdout.split()[2]


def test_a_forged_effect_is_found_with_its_line(log):
    """The first difference is named, with both sides."""
    forged = log.replace(b'"node":"n', b'"node":"x', 1)

    found = replay(io.BytesIO(forged), engine).difference

    assert found is not None
    assert 2 == found.line
    assert '"node":"x' in found.logged
    assert '"node":"x' not in found.replayed


def test_a_cut_last_line_ends_the_replay_quietly(log):
    """A process that was killed leaves a log that replays up to its last full line."""
    result = replay(io.BytesIO(log[:-10]), engine)

    assert (True, False, 11) == (result.is_same, result.is_complete, result.turns)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "empty"),
        (b"hello\n", "not a decision log"),
        (b'{"version": "1", "format": 99}\n', "format 99"),
        (b'{"version": "1"}\n{"now": "x"}\n', "not a turn"),
        (
            (
                b'{"version": "1"}\n{"now":1,"cycles":0,"effects":[],"events":'
                b'[{"event":"Watched","kind":"Nope","verb":"ADDED","object":{}}]}\n'
            ),
            "Nope",
        ),
    ],
)
def test_what_is_no_log_is_refused_with_its_place(text, problem):
    """The error names file and line."""
    with pytest.raises(InputError, match=problem):
        replay(io.BytesIO(text), engine, where="d.log")
