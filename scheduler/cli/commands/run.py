"""`trellis run`: its flags; what it does is in `scheduler.cli.run`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ConfigFlag, ContextFlag, KubeconfigFlag, LogFormatFlag, LogLevelFlag

BindAddress = Annotated[str, typer.Option("--bind-address", help="Where the endpoints listen.")]
SecurePort = Annotated[
    int, typer.Option("--secure-port", min=0, max=65535, help="Endpoints; 0: none.")
]
CertFile = Annotated[
    str, typer.Option("--tls-cert-file", help="Certificate; without one we make our own.")
]
KeyFile = Annotated[str, typer.Option("--tls-private-key-file", help="The certificate's key.")]
ClientCaFile = Annotated[
    str, typer.Option("--client-ca-file", help="Who signs certificates of clients.")
]
LeaderElect = Annotated[
    bool | None, typer.Option("--leader-elect/--no-leader-elect", help="Override the file.")
]
FeatureGates = Annotated[
    str, typer.Option("--feature-gates", help="A=true,B=false; added to those of the file.")
]
DecisionLog = Annotated[
    str, typer.Option("--decision-log", help="Write events and effects here for replay.")
]


class RunFlags(NamedTuple):
    """Run the scheduler: the daemon and its endpoints."""

    config: ConfigFlag = ""
    kubeconfig: KubeconfigFlag = ""
    context: ContextFlag = ""
    bind_address: BindAddress = "0.0.0.0"  # noqa: S104 - scrapers and probes come from other nodes
    secure_port: SecurePort = 10259
    tls_cert_file: CertFile = ""
    tls_private_key_file: KeyFile = ""
    client_ca_file: ClientCaFile = ""
    leader_elect: LeaderElect = None
    feature_gates: FeatureGates = ""
    decision_log: DecisionLog = ""
    log_level: LogLevelFlag = "info"
    log_format: LogFormatFlag = "auto"


run = command(RunFlags, "scheduler.cli.run.run")
