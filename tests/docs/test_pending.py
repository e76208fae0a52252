"""The commands of the page answer the ten questions about pending pods as stated."""

import re
from pathlib import Path

import pytest

from tests.docs.console import matches, run_page
from tests.docs.pages import ROOT

PAGE = "howto/pending.md"


@pytest.mark.long
def test_each_question_is_answered_by_its_command(tmp_path: Path):
    """All commands of the page run on the page's own cluster."""
    for typed in run_page(PAGE, tmp_path):
        assert matches(typed.expected, typed.printed), typed


def test_there_are_ten_and_each_has_a_command():
    """A question, and a console block before the next one."""
    text = (ROOT / "docs" / PAGE).read_text()
    parts = re.split(r"^## (\d+)\. .+\?$", text, flags=re.MULTILINE)[1:]

    assert list(range(1, 11)) == [int(number) for number in parts[::2]]
    assert all("```console\n$ trellis " in part for part in parts[1::2])
