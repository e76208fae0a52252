"""The site of `make docs`: no warnings, every page reachable, no external downloads."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Elements that a browser loads by itself; an ordinary link is followed by readers only.
LOADS = {"src", "srcset", "data", "poster"}
LOADING_LINKS = {"stylesheet", "preload", "prefetch", "preconnect", "icon", "manifest"}
ELSEWHERE = re.compile(r"\s*(https?:)?//")
IN_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class Fetches(HTMLParser):
    """Collects the external addresses that a page makes a browser load."""

    def __init__(self) -> None:
        """Start with an empty list."""
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Process one element."""
        printed = {name: value or "" for name, value in attrs}
        names = set(LOADS)
        if tag == "link" and LOADING_LINKS & set(printed.get("rel", "").split()):
            names.add("href")
        self.found += [
            printed[name] for name in names & set(printed) if ELSEWHERE.match(printed[name])
        ]


def fetched(text: str, kind: str) -> list[str]:
    """Return the external addresses that a file of this kind (.html, .css) loads."""
    page = Fetches()
    if kind == ".html":
        page.feed(text)
    return page.found + IN_STYLE.findall(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ".html"),
        ('<link rel="stylesheet" href="//fonts.example/css">', ".html"),
        ("<style>@import 'https://fonts.example/css';</style>", ".html"),
        ("@font-face { src: url(https://fonts.example/a.woff2) }", ".css"),
    ],
)
def test_a_fetch_is_found(text: str, kind: str):
    """External scripts, styles and fonts are found; a link to follow is none of them."""
    assert 1 == len(fetched(text, kind))
    assert [] == fetched('<a href="https://kubernetes.io/">Kubernetes</a>', ".html")


@pytest.mark.long
def test_the_site_stands_alone(tmp_path: Path):
    """The site builds without a warning, contains every page, can be searched and loads nothing
    external.
    """
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-b", "html"]
    done = subprocess.run(
        [*words, "-d", str(tmp_path / "trees"), str(ROOT / "docs"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)

    site = tmp_path / "site"
    pages = {
        page.relative_to(ROOT / "docs").with_suffix(".html")
        for page in (ROOT / "docs").rglob("*.md")
        if page.relative_to(ROOT / "docs").parts[0] not in {"examples", "changes"}
    }
    assert set() == {page for page in pages if not (site / page).exists()}
    index = (site / "searchindex.js").read_text()
    assert set() == {page for page in pages if f'"{page.with_suffix("")}"' not in index}

    files = [file for file in site.rglob("*") if file.suffix in {".html", ".css"}]
    assert {} == {
        file.name: elsewhere
        for file in files
        if (elsewhere := fetched(file.read_text(), file.suffix))
    }
