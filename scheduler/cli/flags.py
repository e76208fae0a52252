"""Flags that several verbs share, spelled as kubectl spells them."""

from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from scheduler.cli.completing import (
    complete_added_nodes,
    complete_namespaces,
    complete_nodes,
    complete_targets,
)


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


ConfigFlag = Annotated[
    str, typer.Option("--config", metavar="F", help="The configuration file; else the defaults.")
]
KubeconfigFlag = Annotated[
    str,
    typer.Option(
        "--kubeconfig", metavar="F", help="Default: KUBECONFIG, ~/.kube/config, in-cluster."
    ),
]
ContextFlag = Annotated[str, typer.Option("--context", help="A context of the kubeconfig.")]
LogLevelFlag = Annotated[str, typer.Option("--log-level", help="debug, info, warning, error")]
LogFormatFlag = Annotated[str, typer.Option("--log-format", help="json, console or auto")]
OutputFlag = Annotated[
    Output, typer.Option("--output", "-o", help="How to print the result.", show_choices=True)
]
SnapshotFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--snapshot", metavar="F", help="Objects of a cluster, YAML or JSON; again for more files."
    ),
]
TargetArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TYPE/NAME]",
        help="NAME, TYPE/NAME or TYPE NAME: pod, job, deploy, sts, podgroup ...",
        autocompletion=complete_targets,
    ),
]
TargetNamespaceFlag = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        help="The object's namespace; else the context's.",
        autocompletion=complete_namespaces,
    ),
]
AllNamespacesFlag = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Every namespace, as without -n.")
]
PodsFlag = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="F", help="Objects to add: pods, and what they need."),
]
AddNodesFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--add-nodes",
        metavar="N=NODE",
        help="N more nodes like NODE, or like that of a file.",
        autocompletion=complete_added_nodes,
    ),
]
RemoveNodeFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--remove-node",
        metavar="NODE",
        help="Remove this node; its pods move.",
        autocompletion=complete_nodes,
    ),
]
RemoveRackFlag = Annotated[
    list[str] | None,
    typer.Option("--remove-rack", metavar="RACK", help="Remove its nodes; their pods move."),
]
OfferFlag = Annotated[
    list[str] | None,
    typer.Option(
        "--offer-nodes",
        metavar="COST=NODE",
        help="Of several kinds of nodes, the number that suffices and the least cost.",
    ),
]
DrainFlag = Annotated[
    list[str] | None,
    typer.Option("--drain", metavar="LABEL=VALUE", help="Empty these nodes; their pods move."),
]
DecisionLogFlag = Annotated[
    str,
    typer.Option("--decision-log", metavar="F", help="A log of trellis run --decision-log."),
]
NowFlag = Annotated[
    str, typer.Option("--now", metavar="TIME", help="The time, RFC 3339; else the snapshot's.")
]
KubernetesFlag = Annotated[
    str,
    typer.Option(
        "--kubernetes",
        metavar="1.N",
        help="The Kubernetes release to follow; else the snapshot's, else 1.36.",
    ),
]
TimeoutFlag = Annotated[
    str, typer.Option("--request-timeout", metavar="TIME", help="For one request: 30, 30s, 2m.")
]
PastFlag = Annotated[
    bool, typer.Option("--past", help="The daemon's last decision, not a new one.")
]
DaemonFlag = Annotated[
    str,
    typer.Option(
        "--daemon", metavar="WHERE", help="https://HOST:PORT, or NAMESPACE/POD; else the leader."
    ),
]
TokenFlag = Annotated[
    str, typer.Option("--token", metavar="T", help="The daemon's token; else the kubeconfig's.")
]
AuthorityFlag = Annotated[
    str,
    typer.Option(
        "--certificate-authority", metavar="F", help="The CA of the daemon's certificate."
    ),
]


class ClusterFlags(NamedTuple):
    """How to reach a cluster."""

    kubeconfig: KubeconfigFlag = ""
    context: ContextFlag = ""
    request_timeout: TimeoutFlag = "30s"


class DaemonFlags(NamedTuple):
    """Address and credentials of a daemon; unset ones are discovered."""

    daemon: DaemonFlag = ""
    token: TokenFlag = ""
    authority: AuthorityFlag = ""


class NodeFlags(NamedTuple):
    """Changes of nodes for a simulation; each flag is repeatable."""

    add_nodes: AddNodesFlag = None
    remove_node: RemoveNodeFlag = None
    remove_rack: RemoveRackFlag = None
    drain: DrainFlag = None
    offer_nodes: OfferFlag = None
