"""Write the pages that are generated from the code, or check that they are up to date.

python -m docs.generate          write them
python -m docs.generate --check  exit 1 if a page is stale
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from docs.generate import (
    args,
    chart,
    commands,
    configuration,
    crds,
    dashboards,
    events,
    metrics,
    states,
)

ROOT = Path(__file__).parents[2]

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/command-line.md": commands.page,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/plugin-args.md": args.page,
    "docs/reference/kinds.md": crds.page,
    "docs/reference/events.md": events.page,
    "docs/reference/metrics.md": metrics.page,
    "docs/reference/group-states.md": states.page,
    "charts/trellis/README.md": chart.page,
    **{
        f"charts/trellis/files/dashboards/{name}.json": partial(dashboards.page, name)
        for name in dashboards.dashboards()
    },
}


def stale() -> list[str]:
    """Return the pages that differ from what the code generates."""
    return [
        name
        for name, page in PAGES.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != page()
    ]


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them with `--check`."""
    found = stale()
    if arguments != ["--check"]:
        for name in found:
            (ROOT / name).write_text(PAGES[name](), encoding="utf-8")
            print(name)
        return 0
    for name in found:
        print(f"{name} is stale: run python -m docs.generate", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
