"""Wheel and sdist: reproducible, whole, installable, and with wheels of all dependencies for
arm64.
"""

import sys
import tarfile
import zipfile
from pathlib import Path
from sysconfig import get_path

import pytest

from scheduler.about import VERSION
from tests.apiserver.processes import running
from tests.page.browser import PROGRAM, browser
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


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel alone; its dependencies are those of `_path`."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = dist.glob("*.whl")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    python = str(folder / "env/bin/python")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel), cwd=folder)
    return folder / "env"


def _path(env: Path) -> str:
    inside = next(env.rglob("site-packages"))
    return f"{inside}:{get_path('purelib')}"


def test_the_wheel_works(installed: Path, tmp_path: Path):
    """Installed outside the repository, it prints its version and finds its examples."""
    reported = run(str(installed / "bin/trellis"), "version", cwd=tmp_path, PYTHONPATH="")
    module = "scheduler.cli.verbs.start.demo"
    where = f"import {module} as demo; print(demo.__file__, demo._example_folders())"
    python = str(installed / "bin/python")
    found = run(python, "-c", where, cwd=tmp_path, PYTHONPATH=_path(installed))

    assert f"trellis {VERSION}" in reported
    assert str(installed) in found.split()[0]
    assert (installed / "share/trellis/examples/demo/scenario.yaml").exists()
    assert (installed / "share/trellis/charts/trellis/files/crds/appgroups.yaml").exists()


@pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)")
@pytest.mark.allow_blocking("a test starts and reads a program")
async def test_its_page_opens_in_a_browser(installed: Path, tmp_path: Path, chromium: str):
    """All its files load, and all requests of its views are answered."""
    examples = installed / "share/trellis/examples/whatif"
    given = [f"--snapshot={examples / name}" for name in ("cluster.yaml", "pods.yaml")]
    words = [str(installed / "bin/trellis"), "ui", *given]
    with running("ui", words, tmp_path / "said", {"PYTHONPATH": _path(installed)}) as program:
        reported = program.log
        program.wait_ready(lambda: "Ctrl-C ends it." in reported.read_text(), 60.0)
        async with browser(chromium) as tab:
            await tab.look()
            await tab.open(reported.read_text().split()[0])
            await tab.until("document.querySelector('.unit button')")
            for view, there in (
                ("queue", "document.querySelector('.wait .said')?.innerText.length > 9"),
                ("groups", "!document.body.innerText.includes('Planning')"),
                ("network", "document.querySelector('h1')?.innerText === 'Network'"),
                ("whatif", "document.querySelector('#manifests')"),
                ("time", "document.body.innerText.includes('No decisions are recorded here')"),
            ):
                await tab.run(f"location.hash = '#/{view}'")
                await tab.until(there)
            assert [] == tab.problems


def test_every_dependency_has_a_wheel_for_arm64(tmp_path: Path):
    """The lock resolves to wheels for Linux on aarch64, hashes and all."""
    words = ["-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    words += ["--platform=manylinux_2_28_aarch64", "--platform=manylinux2014_aarch64"]
    words += ["--python-version=3.11", "--implementation=cp", "-d", str(tmp_path), "-r"]
    run(sys.executable, *words, str(ROOT / "requirements-image.lock"), cwd=tmp_path)

    wheels = [file.name for file in tmp_path.glob("*.whl")]
    assert {"numpy", "ortools", "aiohttp"} <= {name.partition("-")[0] for name in wheels}
    assert [] == [name for name in wheels if "x86_64" in name]
