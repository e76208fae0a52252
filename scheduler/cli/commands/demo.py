"""`trellis demo`: its flags; what it does is in `scheduler.cli.demo`."""

from typing import Annotated

import typer


def demo(
    once: Annotated[
        bool, typer.Option("--once", help="End with a summary; exit 0 only if all went well.")
    ] = False,
    scenario: Annotated[
        str, typer.Option("--scenario", help="A folder of docs/examples, or a scenario file.")
    ] = "demo",
) -> int:
    """Play a narrated scenario in an embedded cluster."""
    from scheduler.cli.demo import demo as answer

    return answer(once, scenario)
