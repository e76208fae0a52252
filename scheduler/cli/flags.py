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


OutputFlag = Annotated[
    Output, typer.Option("--output", "-o", help="How to print the result.", show_choices=True)
]
