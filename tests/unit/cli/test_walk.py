"""A new user's four questions about a GPU cluster of 300 nodes, by the command line.

Each is answered by at most three commands. tests/page/test_walk.py does the same with the page,
tests/e2e/test_walk.py on a live cluster.
"""

import json

import pytest

from scheduler.cli.main import run
from tests.unit.cli.gpucluster import cluster

MOST = 3
QUESTIONS = {
    "why does this gang wait": [
        ("groups --failed", "huge"),
        ("explain podgroup/huge -n research", "24 pods of 8 nvidia.com/gpu do not fit one rack"),
    ],
    "is there room for two more training jobs": [
        ("capacity --gpu 8 --gang 8 --rack --want 2", "at least 2 more groups of 8"),
    ],
    "what happens if rack-3 goes": [
        ("simulate --remove-rack rack-3", "train-006 x8"),
    ],
    "who uses the GPUs": [
        ("topology", "NVIDIA.COM/GPU"),
        ("groups", "train-000"),
    ],
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Give the file of the cluster."""
    made = tmp_path_factory.mktemp("walk") / "cluster.json"
    made.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster(300)}))
    return str(made)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_three_commands(file, monkeypatch, capsys, question):
    """The answer is in the default output at 120 columns."""
    monkeypatch.setenv("COLUMNS", "120")
    assert len(QUESTIONS[question]) <= MOST
    for words, answer in QUESTIONS[question]:
        code = run([*words.split(), "--snapshot", file])
        out = capsys.readouterr().out
        assert code in (0, 3), (words, out)
        assert answer in out, (words, out)
