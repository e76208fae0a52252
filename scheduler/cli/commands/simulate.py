"""`trellis simulate`: its flags; what it does is in `scheduler.cli.simulate`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from scheduler.cli.flags import (
    AddNodesFlag,
    ConfigFlag,
    DrainFlag,
    NowFlag,
    OfferFlag,
    PodsFlag,
    RemoveNodeFlag,
    RemoveRackFlag,
    SnapshotFlag,
)


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


def simulate(
    snapshot: SnapshotFlag = None,
    filename: PodsFlag = None,
    config: ConfigFlag = "",
    against: Annotated[
        str, typer.Option("--against", metavar="F", help="Another configuration to compare with.")
    ] = "",
    batch: Annotated[
        str, typer.Option("--batch", metavar="F", help="One case per line, JSON; - is stdin.")
    ] = "",
    details: Annotated[
        bool, typer.Option("--details", help="Every node's verdict and scores, for every pod.")
    ] = False,
    ties: Annotated[
        TiesChoice, typer.Option("--ties", help="Equal nodes: lowest name, or as the daemon.")
    ] = TiesChoice.NAME,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Equal nodes: at random, repeatable.")
    ] = None,
    add_nodes: AddNodesFlag = None,
    remove_node: RemoveNodeFlag = None,
    remove_rack: RemoveRackFlag = None,
    drain: DrainFlag = None,
    offer_nodes: OfferFlag = None,
    now: NowFlag = "",
    output: FormFlag = Form.TABLE,
) -> int:
    """Place the pending pods of a snapshot, without a cluster."""
    from scheduler.cli.asking import NodeOptions
    from scheduler.cli.simulate import simulate as answer

    given = (add_nodes, remove_node, remove_rack, drain, offer_nodes)
    nodes = NodeOptions(*(one or () for one in given))
    return answer(
        snapshot, filename, config, against, batch, details, ties, seed, nodes, now, output
    )
