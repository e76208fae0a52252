"""Tables of a GPU cluster: none wraps at any width, and the default output fits a screen."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cli.main import run
from scheduler.cli.output.printing import GAP, NARROWEST, table
from tests.unit.cli.gpucluster import cluster, gang, one_pod

LINES = 40
LONGEST = 63  # characters of a namespace and of a label's value
# Verbs that read a cluster: their default tables, at least one command for each.
COMMANDS = (
    "queue",
    "groups",
    "groups -A",
    "groups --failed",
    "groups huge -n research",
    "explain pod/debug-shell -n research",
    "explain pod/serve-3 -n research",
    "explain podgroup/huge -n research",
    "capacity --gpu 8",
    "capacity --gpu 8 --gang 8 --rack",
    "capacity --cpu 4 --memory 8Gi",
    "simulate",
    "simulate --remove-rack rack-3",
    "simulate --remove-node gpu-0001",
    "moves research/huge",
    "moves --free 2",
    "topology",
    "topology --numa",
)
WITHOUT_CLUSTER = ("plugins", "demo --list")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Give a function that returns a file with a cluster of this many nodes."""
    made = {}

    def file(nodes: int) -> str:
        if nodes not in made:
            made[nodes] = tmp_path_factory.mktemp("cluster") / f"{nodes}.json"
            listed = {"apiVersion": "v1", "kind": "List", "items": [*cluster(nodes), *long_names()]}
            made[nodes].write_text(json.dumps(listed))
        return str(made[nodes])

    return file


def long_names():
    """Return a gang, and a derived group, whose names and namespace have the maximum length."""
    space, name = "n" * LONGEST, "g" * LONGEST
    workers = [one_pod(f"{name}-{at}", 8) for at in range(3)]
    for worker in workers:
        worker["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": name}
    found = [*gang(f"{name}-gang", 8), *workers]
    for one in found:
        one["metadata"]["namespace"] = space
    return found


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize(
    "nodes", [120, *(pytest.param(number, marks=pytest.mark.long) for number in (300, 5000))]
)
def test_no_table_wraps_and_answers_fit_a_screen(files, monkeypatch, capsys, nodes, words):
    """No table wraps at 80, 120 and 200 columns, and answers fit a screen."""
    check([*words.split(), "--snapshot", files(nodes)], monkeypatch, capsys)


@pytest.mark.parametrize("words", WITHOUT_CLUSTER)
def test_no_table_without_a_cluster_wraps(monkeypatch, capsys, words):
    """No table of the commands without a cluster wraps at 80, 120 and 200 columns."""
    check(words.split(), monkeypatch, capsys)


def check(words, monkeypatch, capsys):
    """Run a command at three widths and judge its output."""
    for width in (80, 120, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        code = run(words)
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


@given(st.data())
def test_a_table_fits_every_width_that_its_columns_can_have(data):
    """A table wraps only where each column would be narrower than `NARROWEST`."""
    columns = data.draw(st.integers(1, 12))
    least = columns * (NARROWEST + len(GAP)) - len(GAP)
    cells = st.text("ab-/ \n…", max_size=90)
    row = st.lists(cells, min_size=columns, max_size=columns)
    titles, *rows = data.draw(st.lists(row, min_size=1, max_size=5))
    width = data.draw(st.integers(least, least + 100))
    optional = tuple(data.draw(st.lists(st.sampled_from(titles), max_size=3)))
    text = table(titles, rows, width=width, optional=optional)
    assert max(map(len, text.splitlines()), default=0) <= width
