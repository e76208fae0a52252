# ruff: noqa: INP001 - a script
"""Write the publisher's addresses into the files of a release.

    python .ci/publisher.py https://github.com/OWNER/REPOSITORY ghcr.io/OWNER

The repository contains no address of a publisher: a fork publishes under its own. The release
workflow runs this script in its checkout before it builds; the result is not committed.
"""

import re
import sys
from pathlib import Path

FILES = ("pyproject.toml", "charts/trellis/Chart.yaml", "charts/trellis/values.yaml")
ARGUMENTS = 3
_URLS = """\
[project.urls]
Homepage = "{url}"
Documentation = "{url}/tree/main/docs"
Changelog = "{url}/blob/main/CHANGELOG.md"
Issues = "{url}/issues"
Source = "{url}"

"""


def publish(root: Path, url: str, registry: str) -> None:
    """Set the project's URLs and the image registry."""
    if not re.fullmatch(r"https://[\w.-]+(/[\w.-]+)*", url):
        sys.exit(f"the URL must look like https://github.com/OWNER/REPOSITORY, not {url!r}")
    if not re.fullmatch(r"[\w.-]+(:\d+)?(/[\w.-]+)*", registry):
        sys.exit(f"the registry must look like ghcr.io/OWNER, not {registry!r}")
    package, chart, values = (root / name for name in FILES)
    urls = r"(?ms)^\[project\.urls\]\n.*?\n\n|^(?=\[project\.scripts\])"
    _edit(package, urls, _URLS.format(url=url))
    about = f"home: {url}\nsources: [{url}]\n"
    _edit(chart, r"(?m)^home: .*\nsources: .*\n|^(?=keywords:)", about)
    _edit(values, r"(?m)^  registry: .*$", f"  registry: {registry}")


def _edit(file: Path, pattern: str, text: str) -> None:
    """Replace the first match of a pattern in a file."""
    before = file.read_text(encoding="utf-8")
    after, count = re.subn(pattern, lambda _: text, before, count=1)
    if not count:
        sys.exit(f"{file}: found no place for {text.splitlines()[0]!r}; update .ci/publisher.py")
    file.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != ARGUMENTS:
        sys.exit("usage: python .ci/publisher.py URL REGISTRY")
    publish(Path(__file__).parents[1], sys.argv[1], sys.argv[2])
