"""Committed files contain nothing about the machine that they were made on."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.source import ROOT

# One lock per purpose: run Trellis, run it with OpenTelemetry, develop and test it, list the
# content of its image.
LOCKS = (
    "requirements.lock",
    "requirements-image.lock",
    "requirements-dev.lock",
    "requirements-mutants.lock",
    "requirements-sbom.lock",
)
LARGE_BYTES = 200_000
# Files above LARGE_BYTES, each with its reason. A pattern covers a folder of one kind of file.
LARGE = {
    "requirements-dev.lock": "hashes of every wheel of every tool, for all supported Pythons",
    "tests/differential/recorded/decisions.jsonl": "decisions of a real kube-scheduler",
    "tests/vectors/data/*/*.json": "recorded answers of kube-scheduler and of reference plugins",
}
# Files that are not text, each with its reason.
BINARY = {"docs/images/*.png": "screenshots of the page; a test takes them again"}
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


def is_text(content: bytes) -> bool:
    """Return whether the bytes are UTF-8 text without NUL bytes."""
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


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
    """The check finds the usual forms."""
    assert MACHINE_PATH.search(text.format(folder).encode())


def test_binaries_and_large_files_state_a_reason():
    """Refuse a file that is not UTF-8 text, or above LARGE_BYTES, unless a table above lists it."""
    found = []
    for file in tracked_files():
        name, content = file.relative_to(ROOT), file.read_bytes()
        if not is_text(content) and not any(map(name.match, BINARY)):
            found.append(f"{name}: not UTF-8 text; list it in BINARY with its reason")
        if len(content) > LARGE_BYTES and not any(map(name.match, LARGE)):
            found.append(f"{name}: {len(content):,} bytes; list it in LARGE with its reason")

    assert [] == found


def test_every_exception_for_binaries_and_large_files_is_used():
    """A pattern without a file would admit one without a review."""
    names = [file.relative_to(ROOT) for file in tracked_files()]

    assert [] == [p for p in (*LARGE, *BINARY) if not any(name.match(p) for name in names)]


@pytest.mark.parametrize("content", [b"PK\x03\x04\x00", b"\x89PNG", b"text\0"])
def test_the_text_check_finds_binaries(content: bytes):
    """Archives, images and NUL bytes are not text."""
    assert not is_text(content)


def test_locks_name_no_package_host():
    """Locks work behind any mirror: hashes, no addresses."""
    locks = [
        f for f in tracked_files() if f.suffix in {".lock", ".sum"} or "requirements" in f.name
    ]

    assert set(LOCKS) == {f.name for f in locks if f.parent == ROOT}
    assert [] == [f.name for f in locks if "://" in f.read_text() or "index-url" in f.read_text()]


def test_every_package_in_the_locks_has_hashes():
    """pip rejects a package without a hash, and with it the whole installation."""
    for name in LOCKS:
        entries = re.split(r"\n(?=\S)", (ROOT / name).read_text().strip())
        assert [] == [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry], name


def test_the_environment_of_the_daemon_is_part_of_the_tests_environment():
    """The tested environment is the one that runs: a lock contains the pins of the smaller ones."""
    pins = re.compile(r"^([\w.-]+==\S+)", re.MULTILINE)
    names = ("requirements.lock", "requirements-image.lock", "requirements-dev.lock")
    run, image, dev = (set(pins.findall((ROOT / name).read_text())) for name in names)

    assert run < image < dev
