"""`trellis completion`: a script that completes verbs, flags and values in a shell."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from scheduler.cli.main import COMPLETE_VARIABLE


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to print the script for.")],
) -> None:
    """Print a completion script, for example: source <(trellis completion bash)."""
    print(
        get_completion_script(
            prog_name="trellis", complete_var=COMPLETE_VARIABLE, shell=shell.value
        )
    )
