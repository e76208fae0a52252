"""Flags that several verbs share, spelled as kubectl spells them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


ConfigFlag = Annotated[
    str, typer.Option("--config", metavar="F", help="The configuration file; defaults without.")
]
KubeconfigFlag = Annotated[
    str, typer.Option("--kubeconfig", metavar="F", help="Else KUBECONFIG, else in-cluster.")
]
ContextFlag = Annotated[str, typer.Option("--context", help="A context of the kubeconfig.")]
LogLevelFlag = Annotated[str, typer.Option("--log-level", help="debug, info, warning, error")]
LogFormatFlag = Annotated[str, typer.Option("--log-format", help="json, console or auto")]
OutputFlag = Annotated[
    Output, typer.Option("--output", "-o", help="How to print the result.", show_choices=True)
]
