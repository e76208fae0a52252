"""Wheel and sdist: reproducible, whole, installable, and with wheels of all dependencies for arm64."""

import sys
import tarfile
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

from scheduler.cli.about import VERSION
from tests.release.trees import ROOT, copied, run

EPOCH = "1700000000"

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both archives, built twice with the same bytes."""
    folder = tmp_path_factory.mktemp("dist")
    built = []
    for name in ("one", "another"):
        tree = copied(folder / name)
        run(
            sys.executable,
            ".ci/dist.py",
            str(folder / f"{name}-dist"),
            cwd=tree,
            SOURCE_DATE_EPOCH=EPOCH,
        )
        built.append({file.name: file.read_bytes() for file in (folder / f"{name}-dist").iterdir()})
    assert 2 == len(built[0])
    assert [] == [name for name, data in built[0].items() if data != built[1][name]]
    return folder / "one-dist"


def test_both_hold_chart_definitions_and_examples(dist: Path):
    """Every committed file of the chart, of crds/ and of the examples."""
    listed = run("git", "ls-files", "charts", "crds/*.yaml", "docs/examples", cwd=ROOT).splitlines()
    wanted = [name for name in listed if (ROOT / name).is_file()]
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        packed = archive.namelist()
    with tarfile.open(sdist) as unpacked:
        source = {name.partition("/")[2] for name in unpacked.getnames()}

    def in_wheel(name: str) -> str:
        if name.startswith("crds/"):
            return name
        return f"trellis_scheduler-{VERSION}.data/data/share/trellis/{name.removeprefix('docs/')}"

    assert 40 < len(wanted)
    assert [] == [name for name in wanted if in_wheel(name) not in packed]
    assert [] == [name for name in wanted if name not in source]
    assert [] == [name for name in packed if name.startswith("tests/") or "__pycache__" in name]


def test_the_wheel_works(dist: Path, tmp_path: Path):
    """Installed apart from the repository, it says its version and finds its examples."""
    (wheel,) = dist.glob("*.whl")
    run(sys.executable, "-m", "venv", "env", cwd=tmp_path)
    python = str(tmp_path / "env/bin/python")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel), cwd=tmp_path)
    inside = next((tmp_path / "env").rglob("site-packages"))

    said = run(str(tmp_path / "env/bin/trellis"), "version", cwd=tmp_path, PYTHONPATH="")
    where = "import scheduler.cli.demo as demo; print(demo.__file__, demo._example_folders())"
    found = run(python, "-c", where, cwd=tmp_path, PYTHONPATH=f"{inside}:{get_path('purelib')}")
    page = "from scheduler.serve.pageroutes import page_files; print(*sorted(page_files()))"
    files = run(python, "-c", page, cwd=tmp_path, PYTHONPATH=f"{inside}:{get_path('purelib')}")
    ours = sorted(one.name for one in (ROOT / "scheduler/serve/page").iterdir())
    assert ours == files.split()
    assert f"trellis {VERSION}" in said
    assert str(inside) in found.split()[0]
    assert (tmp_path / "env/share/trellis/examples/demo/scenario.yaml").exists()
    assert (tmp_path / "env/share/trellis/charts/trellis/files/crds/appgroups.yaml").exists()


def test_every_dependency_has_a_wheel_for_arm64(tmp_path: Path):
    """The lock resolves to wheels for Linux on aarch64, hashes and all."""
    words = ["-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    words += ["--platform=manylinux_2_28_aarch64", "--platform=manylinux2014_aarch64"]
    words += ["--python-version=3.11", "--implementation=cp", "-d", str(tmp_path), "-r"]
    run(sys.executable, *words, str(ROOT / "requirements.lock"), cwd=tmp_path)

    wheels = [file.name for file in tmp_path.glob("*.whl")]
    assert {"numpy", "ortools", "aiohttp"} <= {name.partition("-")[0] for name in wheels}
    assert [] == [name for name in wheels if "x86_64" in name]
