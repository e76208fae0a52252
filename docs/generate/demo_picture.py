"""Draw docs/images/demo.svg: racks, the groups in them and their proofs, as a terminal shows them.

Run `python -m docs.generate.demo_picture` from the project's root; it plays the scenario for real.
"""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from scheduler.base import logs
from scheduler.demo import play, read_scenario
from scheduler.demo.show import Show, cluster_table
from scheduler.demo.stage import stage

SCENARIO = Path("docs/examples/groups/scenario.yaml")
PICTURE = Path("docs/images/demo.svg")
# Ends with the group that fits nowhere: the next chapter deletes a group.
CHAPTERS = 4


async def draw() -> str:
    """Play the scenario; return its last state as SVG."""
    logs.configure(level="error")
    scenario = read_scenario(SCENARIO)
    scenario = replace(scenario, chapters=scenario.chapters[:CHAPTERS])
    output = io.StringIO()
    async with stage(SCENARIO.parent / scenario.shape, SCENARIO.parent) as set_up:
        await play(scenario, set_up, Show(Console(file=output, width=110)), 0.0)
        table = cluster_table(await set_up.nodes(), await set_up.pods())
    lines = output.getvalue().splitlines()
    starts = [number for number, line in enumerate(lines) if line[:1].isdigit()]
    text = Text("\n".join(lines[starts[1] :]))
    text.highlight_regex(r"(?m)^\d\..*$", "bold")
    text.highlight_regex(r"(?m)^ +✓.*$", "green")
    text.highlight_regex(r"(?m)^ +\$.*$", "cyan")
    console = Console(record=True, width=112, file=io.StringIO(), force_terminal=True)
    console.print(Group(table, Panel(text, border_style="dim")))
    # rich refers to fonts on a third-party server; the reader's own fonts suffice.
    return re.sub(
        r"@font-face \{.*?\}\s*",
        "",
        console.export_svg(title="trellis demo --scenario groups"),
        flags=re.DOTALL,
    )


if __name__ == "__main__":
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(asyncio.run(draw()), encoding="utf-8")
