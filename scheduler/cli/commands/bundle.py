"""`trellis support-bundle`: its flags; what it does is in `scheduler.cli.bundle`."""

from typing import Annotated, NamedTuple

import typer

from scheduler.cli.command import command
from scheduler.cli.flags import ClusterFlags, DaemonFlags

FileFlag = Annotated[
    str, typer.Option("--filename", "-f", metavar="F", help="Where to write it: a .tar.gz.")
]
SecondsFlag = Annotated[
    int, typer.Option("--seconds", min=0, max=300, help="Of the profile; 0 for none.")
]
HashNamesFlag = Annotated[
    bool, typer.Option("--hash-names", help="Names of objects as hashes, anew in each bundle.")
]


class BundleFlags(NamedTuple):
    """Collect what helps to find a fault of the running daemon: one archive, without secrets."""

    file: FileFlag = "trellis-support.tar.gz"
    seconds: SecondsFlag = 5
    hash_names: HashNamesFlag = False
    cluster: ClusterFlags = ClusterFlags()
    where: DaemonFlags = DaemonFlags()


support_bundle = command(BundleFlags, "scheduler.cli.bundle.support_bundle")
