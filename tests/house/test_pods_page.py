"""The page that follows a pod through the code names every file which a pod really enters."""

import re
import subprocess
import sys

from tests.house.source import ROOT

PAGE = ROOT / "docs/explanation/a-pods-way.md"
PACKAGES = ("engine/", "framework/", "kube/")
# Run periodically, regardless of pods: the lease, and regular lists or sweeps.
BY_THE_CLOCK = {"kube/lease.py", "kube/leaserecord.py", "kube/watching/watches.py"}


def test_every_file_that_a_plain_pod_enters_is_named():
    """The page's files are all that a reader needs; if this fails, name the file in its table."""
    named = set(re.findall(r"`((?:engine|framework|kube)/[\w/]+\.py)`", PAGE.read_text()))
    words = [sys.executable, "-m", "tests.e2e.podstrace"]
    reported = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    entered = {line for line in reported.stdout.splitlines() if line.startswith(PACKAGES)}

    assert [] == sorted(entered - named - BY_THE_CLOCK)
    assert [] == sorted(file for file in named if not (ROOT / "scheduler" / file).is_file())
    assert {"kube/watching/watch.py", "engine/intake.py", "engine/attempt/cycle.py"} <= entered
