"""A third-party plugin: built, type-checked and tested with the built wheel of Trellis alone."""

import shutil
import sys
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

from tests.release.trees import ROOT, copied, run

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

EXAMPLE = ROOT / "docs/examples/plugin"
WRONG = ROOT / "tests/unit/framework/wrongplugin.py"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with both wheels; their dependencies are those of this one."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "example")
    for tree in (copied(folder / "trellis"), folder / "example"):
        words = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
        run(sys.executable, *words, "-w", str(folder / "wheels"), str(tree), cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
    inside = next((folder / "env").rglob("site-packages"))
    for wheel in (folder / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(inside)
    # A path file in a folder that a path file names is not read: this repository is excluded.
    (inside / "dependencies.pth").write_text(get_path("purelib"))
    return folder


def test_its_own_tests_pass(installed: Path):
    """Only the wheel's files of this repository are available."""
    python = str(installed / "env/bin/python")
    shutil.copy(EXAMPLE / "test_rack_age.py", installed / "env")
    reported = run(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_rack_age.py",
        cwd=installed / "env", PYTHONPATH="",
    )  # fmt: skip
    where = run(
        python, "-c", "import scheduler; print(scheduler.__file__)", cwd=installed, PYTHONPATH=""
    )

    assert "3 passed" in reported
    assert str(installed / "env") in where


def test_mypy_knows_the_types_of_the_wheel(installed: Path):
    """The example has none of the faults that a plugin of wrong signatures has."""
    shutil.copy(WRONG, installed / "wrong.py")
    shutil.copy(EXAMPLE / "rack_age.py", installed / "right.py")
    words = ["-m", "mypy", "--strict", "--no-incremental", "--config-file", "/dev/null"]
    words += ["--python-executable", str(installed / "env/bin/python")]

    assert "no issues" in run(sys.executable, *words, "right.py", cwd=installed)
    with pytest.raises(AssertionError, match=r"wrong\.py:\d+: error: Signature of .filter"):
        run(sys.executable, *words, "wrong.py", cwd=installed)
