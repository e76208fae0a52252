"""The tutorial's plugin: its files equal the example, it installs, and its commands have the stated
output.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, commands

PAGE = "tutorial/first-plugin.md"
EXAMPLE = ROOT / "docs/examples/plugin"


def run(words: list[str], folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the packages in `path` in addition to those of the
    project.
    """
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(path), str(ROOT))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "200",
    }
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, timeout=90, check=False
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tutorial's files in a folder, with the snapshot that it links to."""
    folder = tmp_path_factory.mktemp("project")
    for block in blocks(PAGE):
        if block.file:
            (folder / block.file).write_text(block.text)
    shutil.copy(EXAMPLE / "cluster.yaml", folder)
    return folder


@pytest.fixture(scope="module")
def installed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder into which pip has installed the package, without a network."""
    target = tmp_path_factory.mktemp("installed")
    options = [
        "-q",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    words = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), "."]
    done = run(words, project, target)
    assert 0 == done.returncode, done.stderr
    return target


def test_the_example_is_what_the_tutorial_says():
    """Each file of the example equals the text of the tutorial."""
    reported = {block.file: block.text for block in blocks(PAGE) if block.file}

    assert {"rack_age.py", "test_rack_age.py", "pyproject.toml", "config.yaml"} == set(reported)
    assert reported == {name: (EXAMPLE / name).read_text() for name in reported}


def test_the_usual_plugin_is_short():
    """The plugin has under 40 lines, as the page states."""
    assert 40 > len((EXAMPLE / "rack_age.py").read_text().splitlines())


def test_its_own_tests_pass(project: Path, installed: Path):
    """The plugin's tests pass with the command that the tutorial names."""
    ((command, _),) = commands(blocks(PAGE, "console")[0])
    words = command.split()
    assert "python" == words[0]

    done = run([sys.executable, *words[1:], "-p", "no:cacheprovider"], project, installed)
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.parametrize("number", range(1, len(blocks(PAGE, "console"))))
def test_its_commands_say_that(number: int, project: Path, installed: Path):
    """The commands of the tutorial print what it shows: `trellis` finds the plugin by its entry
    point, lists, configures and explains it.
    """
    for command, output in commands(blocks(PAGE, "console")[number]):
        words = command.split()
        assert "trellis" == words[0]

        done = run([sys.executable, "-m", "scheduler.cli.main", *words[1:]], project, installed)
        assert 0 == done.returncode, done.stderr
        assert output.strip() == done.stdout.strip()
