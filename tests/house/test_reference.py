"""The generated pages agree with the code and are complete."""

import pytest

from docs.generate.__main__ import PAGES, ROOT


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str):
    """A stale page fails; `python -m docs.generate` writes it again."""
    assert PAGES[name]() == (ROOT / name).read_text(encoding="utf-8")
