"""`trellis plugins`: its flags; what it does is in `scheduler.cli.plugins`."""

from typing import Annotated

import typer

from scheduler.cli.flags import Output, OutputFlag


def plugins(
    names: Annotated[list[str] | None, typer.Argument(help="Only these plugins.")] = None,
    output: OutputFlag = Output.TABLE,
) -> None:
    """List the plugins with their extension points and arguments."""
    from scheduler.cli.plugins import plugins as answer

    answer(names, output)
