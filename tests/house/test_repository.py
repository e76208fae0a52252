"""What is committed carries nothing of the machine it was made on."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.source import ROOT

# A home or work folder at the start of a path. Containers' own paths (/app, /var) are no finding.
MACHINE_PATH = re.compile(rb"(?<![\w./:\]}*-])/(?:work|root|home|Users)/[\w.-]+")


def tracked_files() -> list[Path]:
    """Return the committed files, or skip where this is no clone (an unpacked archive)."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    return [file for file in files if file.is_file()]


def test_no_path_of_a_machine():
    """No absolute path of a home or work folder, and not the path of this clone."""
    here = str(ROOT).encode()
    found = []
    for file in tracked_files():
        content = file.read_bytes()
        if here in content or MACHINE_PATH.search(content):
            found.append(str(file.relative_to(ROOT)))

    assert [] == found


@pytest.mark.parametrize("folder", ["work", "root", "home", "Users"])
@pytest.mark.parametrize("text", ["/{}/trellis/x.py", 'open("/{}/ann/x")', "in /{}/y"])
def test_the_path_check_finds(text: str, folder: str):
    """The check knows the usual shapes."""
    assert MACHINE_PATH.search(text.format(folder).encode())


def test_locks_name_no_package_host():
    """Locks work behind any mirror: hashes, no addresses."""
    locks = [
        f for f in tracked_files() if f.suffix in {".lock", ".sum"} or "requirements" in f.name
    ]

    assert len(locks) >= 2
    assert [] == [f.name for f in locks if "://" in f.read_text() or "index-url" in f.read_text()]


def test_every_package_in_the_locks_has_hashes():
    """pip refuses a package without a hash, and with it the whole installation."""
    for name in ("requirements.lock", "requirements-dev.lock"):
        entries = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
        assert [] == [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry], name


def test_the_environment_of_the_daemon_is_part_of_the_tests_environment():
    """What is tested is what runs: both locks agree on every package of the smaller one."""
    pins = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)
    run = set(pins.findall((ROOT / "requirements.lock").read_text()))
    dev = set(pins.findall((ROOT / "requirements-dev.lock").read_text()))

    assert set() == run - dev
