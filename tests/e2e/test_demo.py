"""The demo, as the README's first command runs it."""

import subprocess
import sys

import pytest

COMMAND = "from scheduler.cli.main import main; main()"


def test_the_demo_ends_by_itself_and_everything_comes_as_told():
    """`trellis demo --once` in a pipe: exit code 0, a summary, no colour, nothing on stderr."""
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
    assert ['error: --scenario: there is no scenario "nope"'] == done.stderr.splitlines()


@pytest.mark.long
def test_the_chapter_on_groups_comes_as_told():
    """User stories A and B as drawn, a refusal with its reason, a preemption, and the victims' return."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "demo", "--once", "--scenario", "groups"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    assert "5 of 5 expectations came true" in done.stdout.splitlines()[-1]
