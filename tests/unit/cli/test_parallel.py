"""Lines answered by several processes: the output equals that of one process, and each answer comes
as soon as possible.
"""

import io
import multiprocessing
import os
import subprocess
import sys
from typing import Any

import pytest

from scheduler.base.errors import InputError, TrellisError
from scheduler.cli.jobs import parallel
from scheduler.cli.jobs.parallel import answer_lines

CLIENT = """
import sys
for number in range(6):
    print(number, flush=True)
    assert f"{sum(range(number))} 1 {number}\\n" == sys.stdin.readline()
"""


def echo(line):
    """Echo the line; a line that begins with a number causes that much work."""
    number = int(line.split()[0])
    return b"%d %d %d" % (sum(range(number)), len(line), number)


@pytest.fixture
def piped(tmp_path):
    """Return a function that answers bytes and returns the output."""

    def answered(text, answer=echo, *, processes=3, few=0):
        (tmp_path / "lines").write_bytes(text)
        out = io.BytesIO()
        try:
            with (tmp_path / "lines").open("rb") as file:
                answer_lines(file, out, answer, processes=processes, few=few)
        finally:
            assert [] == multiprocessing.active_children()
        return out.getvalue()

    return answered


@pytest.mark.parametrize("few", [0, 5, 1000])
def test_the_order_is_that_of_the_lines(piped, few):
    """Answers have the order of the lines, whichever process answers them and however long each
    takes, also without a final newline.
    """
    lines = [b"%d %s" % (number * 7919 % 1000, b"x" * (number % 997)) for number in range(400)]
    text = b"\n".join([b"", *lines[:200], b"  ", b"", *lines[200:]])

    assert b"".join(echo(line) + b"\n" for line in lines) == piped(text, few=few)
    assert piped(text, processes=1) == piped(text + b"\n", few=few)


def test_nothing_comes(piped):
    """Without an input line there is no answer."""
    assert b"" == piped(b"")
    assert b"" == piped(b"\n \n")


def test_an_answer_does_not_wait_for_the_next_line():
    """A program may send a line, read the answer and only then send the next."""
    client: Any = subprocess.Popen(
        [sys.executable, "-S", "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with client, client.stdout as source, client.stdin as out:
        answer_lines(source, out, echo, processes=2, few=2)

    assert 0 == client.returncode


def test_a_process_that_ends(piped):
    """If a process dies, the command fails instead of omitting the answers to its lines."""
    with pytest.raises(TrellisError, match="ended with code 3"):
        piped(b"1\n2\n3\n", lambda _line: os._exit(3))


@pytest.mark.parametrize("few", [0, 1000])
def test_a_line_that_is_too_long(piped, few, monkeypatch, tmp_path):
    """If a line exceeds the limit, the lines before it are still answered."""
    monkeypatch.setattr(parallel, "LONGEST_LINE", 1000)
    monkeypatch.setattr(parallel, "_READ", 512)
    out = io.BytesIO()
    (tmp_path / "long").write_bytes(b"7\n8\n" + b"9" * 5000)
    with (
        (tmp_path / "long").open("rb") as file,
        pytest.raises(InputError, match="more than 1000 bytes"),
    ):
        answer_lines(file, out, echo, processes=2, few=few)

    assert [echo(b"7"), echo(b"8")] == out.getvalue().splitlines()
