"""Scenario files: their content, and the errors."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from scheduler.base.errors import InputError
from scheduler.demo import read_scenario
from scheduler.demo.show import Show

SCENARIOS = sorted(Path("docs/examples").glob("*/scenario.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=str)
def test_each_scenario_of_the_documentation_reads_and_names_files_that_exist(path):
    """Each scenario decodes, and its shape and manifests exist in its folder."""
    scenario = read_scenario(path)

    steps = [step for chapter in scenario.chapters for step in chapter.steps]
    named = [scenario.shape, *filter(None, [scenario.config])]
    named += [step.apply for step in steps if step.apply is not None]
    named += [step.cost.against for step in steps if step.cost is not None]
    assert [] == [name for name in named if not (path.parent / name).is_file()]
    assert any(step.expect for chapter in scenario.chapters for step in chapter.steps)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title: t\nshape: s\nchapters:\n- {title: c, steps: [{}]}", "exactly one of"),
        ("title: t\nshape: s\nchapters:\n- {title: c, steps: [{say: a, drain: b}]}", "exactly one"),
        ("title: t\nshape: s\nchapters:\n- {title: c, steps: [{shout: a}]}", "shout"),
        ("title: [", "line 1"),
        ("- 1", "object"),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_file(tmp_path, text, problem):
    """The error names the file and the invalid part."""
    path = tmp_path / "scenario.yaml"
    path.write_text(text)

    with pytest.raises(InputError, match=problem) as caught:
        read_scenario(path)

    assert str(path) == caught.value.where


def test_a_pipe_gets_plain_lines_without_colour():
    """In a pipe, each fact is one line of text."""
    out = io.StringIO()
    show = Show(Console(file=out, highlight=False))
    with show:
        show.chapter(1, "First")
        show.did("kubectl apply -f x.yaml", ["a", "b"])
        show.met("2 of 2 pods are placed")

    assert [
        "1. First",
        "   $ kubectl apply -f x.yaml (2 objects)",
        "   ✓ 2 of 2 pods are placed",
    ] == out.getvalue().splitlines()
