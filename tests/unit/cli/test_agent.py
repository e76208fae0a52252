"""`trellis agent`: the requirements of each agent, its errors at the start, its output."""

import asyncio
import json
from pathlib import Path

import pytest

from operators.agents.netperf.keys import Keys
from operators.agents.netperf.responder import NetperfResponder
from scheduler.cli.main import run


def test_help_names_the_agents(capsys: pytest.CaptureFixture[str]):
    """The help imports nothing heavy."""
    assert run(["agent", "--help"]) == 0
    reported = capsys.readouterr().out
    assert all(name in reported for name in ("load", "bandwidth", "netperf"))


@pytest.mark.parametrize("agent", ["load", "bandwidth", "netperf"])
def test_an_agent_needs_to_know_its_node(
    agent: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Without --node-name and NODE_NAME it is wrong usage."""
    monkeypatch.delenv("NODE_NAME", raising=False)

    assert run(["agent", agent]) == 2
    assert "--node-name" in capsys.readouterr().err


@pytest.mark.parametrize("agent", ["load", "bandwidth", "netperf"])
def test_without_a_cluster_it_ends_with_one_line(
    agent: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """The error states what to do."""
    (tmp_path / "key").write_text("0123456789abcdef")
    monkeypatch.setenv("TRELLIS_NETPERF_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")

    assert run(["agent", agent, "--node-name", "n"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: /nowhere/kubeconfig: ")


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (
            ["bandwidth", "--node-name", "n", "--assume", "fast"],
            '--assume: "fast" is not a quantity',
        ),
        (["bandwidth", "--node-name", "n", "--assume", "-1G"], '--assume: "-1G" is no speed'),
        (["netperf", "--node-name", "n"], "--key-file"),
        (
            ["netperf", "--node-name", "n", "--key-file", "/nowhere/key"],
            "/nowhere/key: the key cannot",
        ),
        (
            ["netperf", "throughput", "h", "--key-file", "/nowhere/key"],
            "/nowhere/key: the key cannot",
        ),
        (
            ["netperf", "throughput", "h", "--bytes", "2Gi"],
            '--bytes: "2Gi" is not between 1 and 1Gi',
        ),
        (["netperf", "throughput", "h", "--seconds", "11"], "--seconds"),
    ],
)
def test_wrong_words_are_named(
    words: list[str],
    reported: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """Wrong usage is reported in one line."""
    monkeypatch.delenv("TRELLIS_NETPERF_KEY_FILE", raising=False)

    assert run(["agent", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert reported in line


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text("0123456789abcdef")
    return path


@pytest.mark.allow_blocking("the command line has no loop of its own")
async def test_throughput_prints_what_arrived(key: Path, capsys: pytest.CaptureFixture[str]):
    """The result is printed as a line and as JSON; without a responder the exit code is 1."""
    async with NetperfResponder("n", Keys(key)) as responder:
        await responder.listen("127.0.0.1", 0)
        words = ["agent", "netperf", "throughput", "127.0.0.1", "--key-file", str(key)]
        words += ["--port", str(responder.port), "--bytes", "1M"]
        assert await asyncio.to_thread(run, words) == 0
        assert "Mbit/s (1000000 bytes in " in capsys.readouterr().out
        assert await asyncio.to_thread(run, [*words, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
    assert found["bytes"] == 1_000_000
    assert found["bitsPerSecond"] == found["bytes"] * 8 / found["seconds"]
    assert await asyncio.to_thread(run, words) == 1
    assert capsys.readouterr().err.startswith("error: ")
