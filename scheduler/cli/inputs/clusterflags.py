"""The flags of a cluster → the options of a connection to it."""

from scheduler.cli.flags import ClusterFlags
from scheduler.cli.inputs.access import ClusterOptions, seconds


def cluster_options(flags: ClusterFlags, namespace: str = "") -> ClusterOptions:
    """Return the options of a connection to the cluster that the flags name."""
    return ClusterOptions(
        flags.kubeconfig, flags.context, seconds(flags.request_timeout), namespace
    )
