"""`trellis simulate`: its flags; what it does is in `scheduler.cli.simulate`."""

from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ConfigFlag, NodeFlags, NowFlag, PodsFlag, SnapshotFlag


class TiesChoice(StrEnum):
    """How equally good nodes are told apart."""

    NAME = "name"
    UID = "uid"


class Form(StrEnum):
    """How a result is printed: as by other verbs, or as a page for a browser."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    HTML = "html"


FormFlag = Annotated[
    Form,
    typer.Option(
        "--output", "-o", help="How to print the result; html: with --against.", show_choices=True
    ),
]


class SimulateFlags(NamedTuple):
    """Place the pending pods of a snapshot, without a cluster."""

    snapshot: SnapshotFlag = None
    filename: PodsFlag = None
    config: ConfigFlag = ""
    against: Annotated[
        str, typer.Option("--against", metavar="F", help="Another configuration to compare with.")
    ] = ""
    batch: Annotated[
        str, typer.Option("--batch", metavar="F", help="One case per line, JSON; - is stdin.")
    ] = ""
    details: Annotated[
        bool, typer.Option("--details", help="Every node's verdict and scores, for every pod.")
    ] = False
    ties: Annotated[
        TiesChoice, typer.Option("--ties", help="Equal nodes: lowest name, or as the daemon.")
    ] = TiesChoice.NAME
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Equal nodes: at random, repeatable.")
    ] = None
    nodes: NodeFlags = NodeFlags()
    now: NowFlag = ""
    output: FormFlag = Form.TABLE


simulate = command(SimulateFlags, "scheduler.cli.simulate.simulate")
