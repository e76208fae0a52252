"""The demo, as the README's first command runs it."""

import subprocess
import sys

import pytest

COMMAND = "from scheduler.cli.main import main; main()"


def test_the_demo_ends_by_itself_and_runs_as_narrated():
    """`trellis demo --once` in a pipe ends with exit code 0 and a summary, without colour, and with
    nothing on stderr.
    """
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "demo", "--once"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "expectations came true" in done.stdout.splitlines()[-1]
    assert "\x1b" not in done.stdout


def test_an_unknown_scenario_is_wrong_usage():
    """The error is one line and the exit code 2."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "demo", "--scenario", "nope"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 2 == done.returncode
    (line,) = done.stderr.splitlines()
    assert line.startswith('error: --scenario: there is no scenario "nope"; there are demo, ')


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "expectations"),
    [
        ("groups", 7),
        ("unlike", 9),
        ("network", 5),
        ("load-aware", 2),
        ("devices", 4),
        ("moves", 4),
    ],
)
def test_a_chapter_runs_as_narrated(scenario: str, expectations: int):
    """Each further chapter ends without input or errors, and its output has all announced lines."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "demo", "--once", "--scenario", scenario],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    reported = f"{expectations} of {expectations} expectations came true"
    assert reported in done.stdout.splitlines()[-1]
