"""`trellis config check|print|defaults`: their flags; what they do is in `scheduler.cli.config`."""

from typing import Annotated

import typer

from scheduler.cli.flags import Output, OutputFlag

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="F", help="The configuration file; - is stdin.")]
MaybeFile = Annotated[
    str | None,
    typer.Argument(metavar="[F]", help="The configuration file; - is stdin, nothing the defaults."),
]


@app.command()
def check(file: File) -> None:
    """Read a configuration strictly; tell all mistakes, each with line and column."""
    from scheduler.cli.config import check as answer

    answer(file)


@app.command("print")
def print_(file: MaybeFile = None, output: OutputFlag = Output.YAML) -> None:
    """Print the effective configuration: every plugin list as it is called, every argument."""
    from scheduler.cli.config import print_ as answer

    answer(file, output)


@app.command()
def defaults(output: OutputFlag = Output.YAML) -> None:
    """Print the configuration that runs without a file."""
    from scheduler.cli.config import defaults as answer

    answer(output)
