"""A new user's path: from a copy of the repository to the first pod on a node, installation
included.

Needs the package index and kubectl. The commands are those of docs/tutorial/first-pod.md.
"""

import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.docs.console import environment, run_page
from tests.docs.pages import blocks
from tests.release.trees import copied, run

PAGE = "tutorial/first-pod.md"
MOST_SECONDS = 120.0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_first_pod_is_placed_within_two_minutes(tmp_path: Path):
    """The tutorial's own commands place a pod, in a new environment and an empty folder."""
    folder = tmp_path / "empty"
    programs = folder / "trellis-env/bin"
    if not shutil.which("kubectl", path=environment(folder)["PATH"]):
        pytest.skip("kubectl is not there: run `make tools`")
    tree = copied(tmp_path / "repository")
    folder.mkdir()
    installing = blocks(PAGE, "sh")[0].text.replace("python3", sys.executable)

    started = time.monotonic()
    run("bash", "-ec", installing, cwd=tree, **environment(folder, programs))
    typed = run_page(
        PAGE, folder, installed=programs, until="kubectl wait --for=condition=Ready pod/web"
    )
    seconds = time.monotonic() - started
    print(f"first pod after {seconds:.0f} s")

    assert (programs / "trellis").exists()
    assert "pod/web condition met" in typed[-1].printed
    assert seconds <= MOST_SECONDS
