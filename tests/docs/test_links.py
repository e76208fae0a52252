"""Links between the repository's own pages resolve."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+\s+(.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    """A relative link names an existing file, and its fragment a heading in it."""
    broken = [
        link
        for link in LINK.findall(FENCE.sub("", page.read_text()))
        if "://" not in link and not link.startswith("mailto:") and not leads(page, link)
    ]

    assert [] == broken


def leads(page: Path, link: str) -> bool:
    """Return whether a link of a page leads to a file and, if it names one, to a heading."""
    path, _, fragment = link.partition("#")
    target = (page.parent / path) if path else page
    if not target.exists():
        return False
    return not fragment or fragment in anchors(target.read_text())


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings as a Markdown reader generates them."""
    headings = HEADING.findall(FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_a_broken_link_is_found(tmp_path: Path):
    """Missing files and missing headings are found; existing ones are not reported."""
    page = tmp_path / "page.md"
    page.write_text("# A pod's way: five files\n")

    assert leads(page, "page.md#a-pods-way-five-files")
    assert not leads(page, "#elsewhere")
    assert not leads(page, "other.md")
