"""The arguments of the network plugins that use dependencies."""

from collections.abc import Iterator
from enum import StrEnum

from scheduler.framework import Args
from scheduler.objects.network import USER_DEFINED


class Bandwidth(StrEnum):
    """Whether a link without free bandwidth rejects the node."""

    IGNORE = "Ignore"
    ENFORCE = "Enforce"


class Dependents(StrEnum):
    """Whether pods that depend on the one to be placed count like those it depends on."""

    IGNORE = "Ignore"
    COUNT = "Count"


class Indirect(StrEnum):
    """Whether pods with dependencies on the same workloads count while no dependency is placed."""

    IGNORE = "Ignore"
    COUNT = "Count"


class TopologyArgs(Args):
    """The namespaces of the AppGroup (after the pod's own) and of the NetworkTopology.

    `weights_name` is the table of costs, `network_topology_name` the object that contains it.
    """

    namespaces: tuple[str, ...] = ("default",)
    weights_name: str = USER_DEFINED
    network_topology_name: str = "nt-default"

    def __post_init__(self) -> None:
        if not self.namespaces:
            self.namespaces = ("default",)

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the mistakes."""
        if not self.network_topology_name:
            yield "networkTopologyName", "must be the name of a NetworkTopology"


class NetworkOverheadArgs(TopologyArgs):
    """The arguments of scheduler-plugins, extended.

    `strict` rejects a node that violates any known limit; otherwise a node is rejected if it
    violates more limits than it meets. `bandwidth` decides whether full links reject, `dependents`
    whether both ends of a dependency count, `indirect` whether the first pods of an application are
    scored by other workloads that depend on the same workloads.
    """

    strict: bool = False
    bandwidth: Bandwidth = Bandwidth.ENFORCE
    dependents: Dependents = Dependents.IGNORE
    indirect: Indirect = Indirect.IGNORE


class NetworkMinCostArgs(TopologyArgs):
    """Both ends of every dependency count."""
