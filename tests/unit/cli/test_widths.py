"""Tables of a GPU cluster: none wraps at any width, and the default output fits a screen."""

import json

import pytest

from scheduler.cli.main import run
from tests.unit.cli.gpucluster import cluster

LINES = 40
COMMANDS = (
    "queue",
    "groups",
    "groups --failed",
    "groups huge -n research",
    "explain pod/debug-shell -n research",
    "explain podgroup/huge -n research",
    "capacity --gpu 8",
    "capacity --gpu 8 --gang 8 --rack",
    "simulate",
    "simulate --remove-rack rack-3",
    "topology",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Give a function that returns a file with a cluster of this many nodes."""
    made = {}

    def file(nodes: int) -> str:
        if nodes not in made:
            made[nodes] = tmp_path_factory.mktemp("cluster") / f"{nodes}.json"
            listed = {"apiVersion": "v1", "kind": "List", "items": cluster(nodes)}
            made[nodes].write_text(json.dumps(listed))
        return str(made[nodes])

    return file


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("nodes", [300, pytest.param(5000, marks=pytest.mark.long)])
def test_no_table_wraps_and_answers_fit_a_screen(files, monkeypatch, capsys, nodes, words):
    """At 80, 120 and 200 columns."""
    for width in (80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        code = run([*words.split(), "--snapshot", files(nodes)])
        out = capsys.readouterr().out
        assert code in (0, 3), out
        assert 0 < len(out.splitlines()) <= LINES, (width, out)
        assert [] == [line for line in tables(out) if len(line) > width], width


def tables(out: str) -> list[str]:
    """Return the lines of tables; a table begins with titles in upper case."""
    found, is_in = [], False
    for line in out.splitlines():
        is_in = bool(line) and (is_in or (line.isupper() and "   " in line))
        found += [line] if is_in else []
    return found
