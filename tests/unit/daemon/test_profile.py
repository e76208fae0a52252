"""A profile shows the running functions, in pprof's format."""

import asyncio
import gzip
import shutil
import subprocess
import threading
from collections import Counter

import pytest

from scheduler.daemon.profile import encoded, taken

GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")


def busy_in_here(until: threading.Event) -> None:
    """Use the CPU until stopped."""
    while not until.is_set():
        sum(range(500))


@pytest.fixture
def busy():
    """A thread that works, beside a loop that waits."""
    stop = threading.Event()
    thread = threading.Thread(target=busy_in_here, args=(stop,))
    thread.start()
    yield
    stop.set()
    thread.join()


async def test_what_used_the_processor_is_in_it(busy):
    """Waiting threads are not: samples are weighted by CPU time."""
    profile = gzip.decompress(await taken(0.5))

    assert b"busy_in_here" in profile
    assert b"test_profile.py" in profile
    assert b"_sample" not in profile


@pytest.mark.skipif(not GO, reason="needs go, whose pprof reads it")
@pytest.mark.allow_blocking("a test runs pprof")
async def test_pprof_reads_it(busy, tmp_path):
    """The function that ran is first, with its file and its callers."""
    file = tmp_path / "profile"
    file.write_bytes(await taken(0.5))
    command = [str(GO), "tool", "pprof", "-raw", str(file)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, check=False
    )

    assert 0 == done.returncode, done.stderr
    assert "cpu/nanoseconds" in done.stdout
    assert "busy_in_here" in done.stdout
    assert "threading.Thread.run" in done.stdout


def test_the_bytes_of_a_small_profile():
    """Every field has its bytes: one sample of 300 ns in one function at one line."""
    code = compile("x = 1", "dir/file.py", "exec")
    raw = gzip.decompress(encoded(Counter({((code, 7),): 300}), 2.0))

    assert raw.startswith(b"\x0a\x04\x08\x01\x10\x02")  # sample_type: strings 1 and 2
    assert b"\x12\x07\x0a\x01\x01\x12\x02\xac\x02" in raw  # sample: place 1, 300
    assert b"\x22\x08\x08\x01\x22\x04\x08\x01\x10\x07" in raw  # place 1: function 1, line 7
    assert b"\x32\x00\x32\x03cpu\x32\x0bnanoseconds" in raw  # the first string is empty
    assert b"dir/file.py" in raw
    assert b"dir.file.<module>" in raw
