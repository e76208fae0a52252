"""The commands of the tutorials have the stated output."""

import shutil
from pathlib import Path

import pytest

from tests.docs.console import environment, matches, run_page


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("page", "proxy"),
    [
        ("tutorial/first-pod.md", ""),
        ("tutorial/first-group.md", ""),
        ("tutorial/first-group.md", "http://127.0.0.1:9"),
        ("howto/network.md", ""),
    ],
)
def test_the_commands_of_a_page_print_its_output(
    page: str, proxy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The page runs from an empty folder, in one shell.

    Also behind a proxy that answers nothing: loopback needs no proxy.
    """
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy") if proxy else ():
        monkeypatch.setenv(name, proxy)
    if not shutil.which("kubectl", path=environment(tmp_path)["PATH"]):
        pytest.skip("kubectl is not there: run `make tools`")

    for typed in run_page(page, tmp_path):
        assert matches(typed.expected, typed.printed), typed


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("node-… is up\n", "node-7 is up", True),
        ("a  b\n…\n", "a b\nc\nd\n", True),
        ("", "something", False),
        ("3 node-0\n", "4 node-0\n", False),
    ],
)
def test_what_differs_is_seen(expected: str, printed: str, fits: bool):
    """Only text that a page leaves open may differ."""
    assert fits == matches(expected, printed)
