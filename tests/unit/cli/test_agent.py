"""`trellis agent load`: what it asks for, and what it says when it cannot begin."""

import pytest

from scheduler.cli.main import run


def test_help_names_the_agents(capsys: pytest.CaptureFixture[str]):
    """Nothing heavy is imported to say so."""
    assert run(["agent", "--help"]) == 0
    assert "load" in capsys.readouterr().out


def test_an_agent_needs_to_know_its_node(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Without --node-name and NODE_NAME it is wrong usage."""
    monkeypatch.delenv("NODE_NAME", raising=False)

    assert run(["agent", "load"]) == 2
    assert "--node-name" in capsys.readouterr().err


def test_without_a_cluster_it_ends_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The error says what to do."""
    monkeypatch.setenv("KUBECONFIG", "/nowhere/kubeconfig")

    assert run(["agent", "load", "--node-name", "n"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: /nowhere/kubeconfig: ")
