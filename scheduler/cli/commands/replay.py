"""`trellis replay`: its flags; what it does is in `scheduler.cli.replay`."""

from typing import Annotated

import typer


def replay(
    file: Annotated[str, typer.Argument(metavar="F", help="A log of trellis run --decision-log.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Run a decision log again; exit 0 when it comes out the same, 1 when it does not."""
    from scheduler.cli.replay import replay as answer

    return answer(file, as_json)
