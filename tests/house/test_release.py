"""What a release is made of agrees: one version, fragments that the changelog understands."""

import tomllib

import yaml

from scheduler.cli.about import VERSION
from tests.house.source import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_there_is_one_version():
    """The package takes it from the code; the chart, which cannot, says the same."""
    chart = yaml.safe_load((ROOT / "charts/trellis/Chart.yaml").read_text())

    assert {"attr": "scheduler.cli.about.VERSION"} == PROJECT["tool"]["setuptools"]["dynamic"][
        "version"
    ]
    assert "version" not in PROJECT["project"]
    assert {VERSION} == {chart["version"], chart["appVersion"]}


def test_fragments_are_of_a_kind_that_the_changelog_has():
    """`+NAME.KIND.md`, one sentence at least; a README tells so."""
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    fragments = [file for file in (ROOT / "docs/changes").iterdir() if file.name != "README.md"]

    for file in fragments:
        name, kind, suffix = file.name.rsplit(".", 2)
        assert (True, True, "md") == (name.startswith("+"), kind in kinds, suffix), file.name
        assert file.read_text().strip().endswith("."), file.name


def test_the_wheel_gets_every_file_of_the_chart_and_the_examples():
    """Whoever adds a folder lists it under `tool.setuptools.data-files`."""
    listed = PROJECT["tool"]["setuptools"]["data-files"]
    packed = {
        f"{target}/{file.name}"
        for target, patterns in listed.items()
        for pattern in patterns
        for file in ROOT.glob(pattern)
    }
    wanted = {
        f"share/trellis/{kind}/{file.relative_to(ROOT / folder).as_posix()}"
        for kind, folder in (("charts", "charts"), ("examples", "docs/examples"))
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    assert set() == wanted - packed
