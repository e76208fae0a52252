"""Take docs/images/page-*.png: the page as Chromium shows it, of the scenario of the groups.

Run `python -m docs.generate.page_pictures` from the project's root, with Debian's chromium installed; it
plays the scenario for real.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from scheduler.base import logs
from scheduler.cli.asking import options, setups
from scheduler.cli.live import Access
from scheduler.cli.scenario import play, read_scenario
from scheduler.cli.scenario.show import Show
from scheduler.cli.scenario.stage import stage
from scheduler.cli.ui import live_page
from scheduler.engine.attempt.choose import Ties
from tests.page.browser import Tab, browser

SCENARIO = Path("docs/examples/groups/scenario.yaml")
PICTURES = Path("docs/images")
# Up to the group that fits nowhere, as in the picture of the demo.
CHAPTERS = 4
VIEWS = {
    "cluster": "document.querySelector('.unit button')",
    "groups": "document.querySelector('.group')",
    "whatif": "document.querySelector('textarea')",
}


async def take() -> None:
    """Play the scenario and write the pictures of its end."""
    logs.configure(level="error")
    told = read_scenario(SCENARIO)
    told = replace(told, chapters=told.chapters[:CHAPTERS])
    async with stage(SCENARIO.parent / told.shape, SCENARIO.parent) as set_up:
        await play(told, set_up, Show(Console(file=io.StringIO(), width=110)), 0.0)
        wanted = options("", Ties.UID, None, details=False)
        place = live_page(setups(""), wanted, Access(str(set_up.kubeconfig)))
        # One that waits, if the scenario leaves any.
        waiting = min(await set_up.pods(), key=lambda pod: (pod.spec.node_name, pod.key)).key
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            async with place as address, browser(Path(folder)) as tab:
                await _pictures(tab, address, waiting)


async def _pictures(tab: Tab, address: str, waiting: str) -> None:
    named = VIEWS | {
        f"pod/{waiting.replace('/', '%2F')}": "document.querySelector('.score strong')"
    }
    for width, dark, suffix in ((1200, False, ""), (1200, True, "-dark"), (390, False, "-narrow")):
        await tab.look(width=width, height=700, dark=dark)
        await tab.open(address)
        for view, there in named.items():
            await tab.run(f"location.hash = '#/{view}'")
            await tab.until(there)
            await tab.picture(PICTURES / f"page-{view.partition('/')[0]}{suffix}.png")


if __name__ == "__main__":
    asyncio.run(take())
