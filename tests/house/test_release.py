"""The parts of a release agree: version, changelog, fragments, chart and publisher values."""

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.about import VERSION
from tests.house.source import ROOT


def script(name: str) -> Any:
    """Import a script of .ci, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


section = script("notes").section
publish, FILES = script("publisher").publish, script("publisher").FILES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_there_is_one_version():
    """The package reads it from the code; the chart, which cannot, has the same one."""
    chart = yaml.safe_load((ROOT / "charts/trellis/Chart.yaml").read_text())

    assert {"attr": "scheduler.about.VERSION"} == PROJECT["tool"]["setuptools"]["dynamic"][
        "version"
    ]
    assert "version" not in PROJECT["project"]
    assert {VERSION} == {chart["version"], chart["appVersion"]}


def test_the_changelog_describes_the_version():
    """The version has a dated section with text; .ci/notes.py prints it as release notes."""
    notes = section((ROOT / "CHANGELOG.md").read_text(), VERSION)

    assert re.match(r"## \S+ \(\d{4}-\d\d-\d\d\)\n", notes)
    assert "### Fixed" in notes
    assert "\n## " not in notes


def test_a_version_without_a_section_is_an_error():
    """Release notes are never empty."""
    with pytest.raises(SystemExit, match=r"no section for 9\.9\.9"):
        section((ROOT / "CHANGELOG.md").read_text(), "9.9.9")


def test_the_publisher_values_are_set_everywhere(tmp_path: Path):
    """One call writes URLs and registry into package and chart; a second changes nothing."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    publish(tmp_path, "https://git.example/team/trellis", "oci.example/team")
    once = {name: (tmp_path / name).read_text() for name in FILES}
    publish(tmp_path, "https://git.example/team/trellis", "oci.example/team")

    urls = tomllib.loads(once["pyproject.toml"])["project"]["urls"]
    chart = yaml.safe_load(once["charts/trellis/Chart.yaml"])
    values = yaml.safe_load(once["charts/trellis/values.yaml"])
    assert {"https://git.example/team/trellis"} == {urls["Source"], chart["home"]}
    assert "oci.example/team" == values["image"]["registry"]
    assert once == {name: (tmp_path / name).read_text() for name in FILES}


@pytest.mark.parametrize(
    ("url", "registry"), [("git.example", "oci.example"), ("https://x.example", "https://y")]
)
def test_wrong_publisher_values_are_refused(tmp_path: Path, url: str, registry: str):
    """An address without scheme, and a registry with one, are errors that name the value."""
    with pytest.raises(SystemExit, match="must"):
        publish(tmp_path, url, registry)


def test_fragments_are_of_a_kind_that_the_changelog_has():
    """`+NAME.KIND.md`, with at least one sentence; a README states the format."""
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    fragments = [file for file in (ROOT / "docs/changes").iterdir() if file.name != "README.md"]

    for file in fragments:
        name, kind, suffix = file.name.rsplit(".", 2)
        assert (True, True, "md") == (name.startswith("+"), kind in kinds, suffix), file.name
        assert file.read_text().strip().endswith("."), file.name


def test_the_wheel_gets_every_file_of_the_chart_and_the_examples():
    """Each folder is listed under `tool.setuptools.data-files`."""
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
