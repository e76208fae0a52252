"""The image's build, rehearsed: every step of the Dockerfile in an empty folder, then the result is
run.

`make image-check` runs this; it needs the package index, and root for the part that changes the
user.
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler.about import VERSION
from tests.apiserver.processes import free_ports
from tests.release.dockerfile import Image, Rehearsal

ROOT = Path(__file__).parents[2]
USER = 65532
MOST_MB = 350
MOST_SECONDS = 2.0

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def base_python() -> Path:
    """Return a Python that any user may run, as the base image's."""
    for found in (Path(sys.base_prefix) / "bin/python3", Path("/usr/bin/python3")):
        unprivileged: dict[str, Any] = {}
        if os.geteuid() == 0:
            unprivileged = {"user": USER, "group": USER, "extra_groups": []}
        words = [
            str(found),
            "-c",
            "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))",
        ]
        try:
            if not subprocess.run(words, cwd="/", **unprivileged, check=False).returncode:
                return found
        except OSError:
            continue
    pytest.skip("no Python here that another user may run")


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    """Return the last stage of the Dockerfile."""
    place = Path(tempfile.mkdtemp(prefix="trellis-image-"))  # pytest's own folders are private
    place.chmod(0o755)
    try:
        args = {"BASE_DIGEST": f"sha256:{'0' * 64}", "VERSION": VERSION, "REVISION": "abc"}
        yield Rehearsal(ROOT, place, base_python(), args).build((ROOT / "Dockerfile").read_text())
    finally:
        shutil.rmtree(place)


def start(image: Image, *words: str) -> subprocess.Popen[str]:
    """Run a command in the image as its user, without this environment."""
    is_root = os.geteuid() == 0
    user = {"user": USER, "group": USER, "extra_groups": []} if is_root else {}
    env = {name: value.replace("/opt/", f"{image.root}/opt/") for name, value in image.env.items()}
    program = shutil.which(words[0], path=env["PATH"])
    assert program, f"{words[0]} is not on the image's PATH"
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [program, *words[1:]],
        cwd="/",
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **user,
    )


def test_it_is_small_and_holds_nothing_to_build_with(image: Image):
    """The image has at most 350 MB on disk, all in /opt/trellis, without pip, backend, compiler or
    tests.
    """
    files = [path for path in image.root.rglob("*") if path.is_file() and not path.is_symlink()]
    size_mb = sum(path.stat().st_blocks * 512 for path in files) / 1e6
    print(f"the environment takes {size_mb:.0f} MB in {len(files)} files")

    assert size_mb <= MOST_MB
    assert ["opt"] == [path.name for path in image.root.iterdir()]
    assert ["trellis"] == [path.name for path in (image.root / "opt").iterdir()]
    names = {path.name for path in files}
    assert set() == names & {"pip", "pip3", "gcc", "cc", "easy_install"}
    folders = {path.name for path in image.root.rglob("*") if path.is_dir()}
    assert set() == folders & {"pip", "setuptools", "tests", ".git"}


def test_its_words_are_those_of_an_image(image: Image):
    """The image has the labels of the build's arguments, a user without privileges, and the daemon
    as its command.
    """
    assert VERSION == image.labels["org.opencontainers.image.version"]
    assert "abc" == image.labels["org.opencontainers.image.revision"]
    assert image.labels["org.opencontainers.image.base.digest"].startswith("sha256:")
    assert ("65532:65532", ["trellis"], ["run"]) == (image.user, image.entrypoint, image.command)


def test_its_bill_of_materials_names_what_is_in_it(image: Image):
    """The CycloneDX file lists every distribution of the lock that applies here, each with its
    version.
    """
    listed = json.loads((image.root / "opt/trellis/share/sbom.cdx.json").read_text())
    found = {one["name"].lower().replace("_", "-") for one in listed["components"]}
    installed = {
        path.name.split("-")[0].lower().replace("_", "-")
        for path in (image.root / "opt/trellis").rglob("*.dist-info")
    }

    assert "CycloneDX" == listed["bomFormat"]
    assert {"numpy", "ortools", "kopf", "trellis-scheduler"} < found
    assert found == installed


def test_it_says_its_version(image: Image):
    """`trellis version` works as another user and in a read-only folder."""
    done = start(image, *image.entrypoint, "version")
    out, _ = done.communicate(timeout=60)

    assert (0, True) == (done.returncode, f"trellis {VERSION}" in out), out


def test_it_can_send_spans(image: Image):
    """The exporter of OpenTelemetry that `tracing` uses is there, with all that it imports."""
    module = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    done = start(image, "python", "-c", f"import {module}")
    out, _ = done.communicate(timeout=60)

    assert (0, "") == (done.returncode, out)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Return the kubeconfig of a small cluster, readable for every user."""
    folder = Path(tempfile.mkdtemp(prefix="trellis-kubeconfig-"))
    folder.chmod(0o755)
    env = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    sandbox = [sys.executable, "-m", "scheduler.cli.main", "sandbox"]
    up = [*sandbox, "up", "--nodes", "10", "--kubeconfig", str(folder / "config"), "-d"]
    subprocess.run(up, env=env, check=True, timeout=60)
    (folder / "config").chmod(0o644)
    yield folder / "config"
    subprocess.run([*sandbox, "down"], env=env, check=True, timeout=60)
    shutil.rmtree(folder)


def test_it_becomes_ready_and_healthy(image: Image, kubeconfig: Path):
    """The daemon becomes ready beside a small cluster, and the health check of the image passes."""
    print(f"ready after {ready_after(image, kubeconfig):.2f} s")


@pytest.mark.perf
def test_it_is_ready_soon(image: Image, kubeconfig: Path):
    """Within two seconds of its start, best of five."""
    seconds = min(ready_after(image, kubeconfig) for _ in range(5))
    print(f"ready after {seconds:.2f} s")

    assert seconds <= MOST_SECONDS


def ready_after(image: Image, kubeconfig: Path) -> float:
    """Start the daemon, wait until it is ready, run its health check, stop it.

    Return the seconds.
    """
    (port,) = free_ports(1)
    started = time.monotonic()
    words = [*image.entrypoint, *image.command, "--kubeconfig", str(kubeconfig)]
    daemon = start(
        image, *words, "--bind-address=127.0.0.1", f"--secure-port={port}", "--no-leader-elect"
    )
    try:
        while not answers(f"https://127.0.0.1:{port}/readyz"):
            assert daemon.poll() is None, daemon.communicate()[0]
            assert time.monotonic() < started + 60
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(0.02)
        seconds = time.monotonic() - started
        check = start(image, *(word.replace("10259", str(port)) for word in image.healthcheck))
        out, _ = check.communicate(timeout=60)
        assert 0 == check.returncode, out
        return seconds
    finally:
        daemon.terminate()
        daemon.communicate(timeout=60)


def answers(url: str) -> bool:
    """Return whether an endpoint of the daemon succeeds; its certificate is self-signed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=1, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
