"""`trellis convert`: its flags; what it does is in `scheduler.cli.convert`."""

from typing import Annotated

import typer

from scheduler.cli.flags import Output

FilesFlag = Annotated[
    list[str] | None,
    typer.Option("-f", "--filename", metavar="F", help="A file or folder to rewrite; - is stdin."),
]


def convert(
    filename: FilesFlag = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="yaml or json.")] = Output.YAML,
) -> int:
    """Rewrite older AppGroups, NetworkTopologies and scheduler policies into today's form."""
    from scheduler.cli.convert import convert as answer

    return answer(filename, output)
