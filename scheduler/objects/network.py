"""NetworkTopology and its slices: costs and capacities of the network.

The operator writes status and slices, the network plugins read the tables. A missing cost is
unknown; a missing capacity is unlimited. Keys of older formats (`configMapName`, `costList`,
`originCosts`, `costs`) are read as the current ones; read the lists through `levels`, `origins` and
`paths`.
"""

import msgspec

from scheduler.objects.meta import Condition, Object, ObjectMeta

REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"
USER_DEFINED = "UserDefined"
NETPERF_COSTS = "NetperfCosts"
# The bandwidth of a node's link in bit/s, as an extended resource.
BANDWIDTH = "network.aware.com/bandwidth"

Quantity = int | float | str


class Cost(Object, frozen=True):
    """The path to one destination; capacity and allocated bandwidth are quantities in bit/s."""

    destination: str = ""
    network_cost: int | None = None
    bandwidth_capacity: Quantity | None = None
    bandwidth_allocated: Quantity | None = None
    is_allowed: bool | None = None


class Statistics(Object, frozen=True):
    """Minimum, mean and maximum cost and bandwidth of several paths."""

    min_bandwidth: Quantity | None = None
    avg_bandwidth: Quantity | None = None
    max_bandwidth: Quantity | None = None
    min_cost: int | None = None
    avg_cost: int | None = None
    max_cost: int | None = None


class Origin(Object, frozen=True):
    """The paths from one value of the topology label."""

    origin: str = ""
    cost_list: tuple[Cost, ...] = ()
    origin_inter_statistics: Statistics | None = None
    origin_intra_statistics: Statistics | None = None
    costs: tuple[Cost, ...] = ()

    @property
    def paths(self) -> tuple[Cost, ...]:
        """Return the paths, under any of their keys."""
        return self.cost_list or self.costs


class TopologyCosts(Object, frozen=True):
    """The paths between the values of one node label."""

    topology_key: str = ""
    origin_list: tuple[Origin, ...] = ()
    origin_costs: tuple[Origin, ...] = ()

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Return the origins, under any of their keys."""
        return self.origin_list or self.origin_costs


class Weights(Object, frozen=True):
    """One table of costs."""

    name: str = ""
    topology_list: tuple[TopologyCosts, ...] = ()
    cost_list: tuple[TopologyCosts, ...] = ()

    @property
    def levels(self) -> tuple[TopologyCosts, ...]:
        """Return the tables by topology key, under any of their keys."""
        return self.topology_list or self.cost_list


class SecretRef(Object, frozen=True):
    """The location of a token."""

    name: str = ""
    key: str = ""


class MetricProvider(Object, frozen=True):
    """A source of measurements; `type` is Prometheus or ConfigMap.

    `ca_secret_ref` holds the authority to trust, `percentile` selects the percentile of latencies.
    """

    type: str = ""
    address: str = ""
    secret_ref: SecretRef | None = None
    ca_secret_ref: SecretRef | None = None
    insecure_skip_verify: bool = False
    percentile: int | None = None


class NetworkTopologySpec(Object, frozen=True):
    """The user's spec; times in minutes."""

    weights: tuple[Weights, ...] = ()
    configmap_name: str = ""
    older_configmap_name: str = msgspec.field(name="configMapName", default="")
    metric_provider: MetricProvider | None = None
    topology_algorithm: str = ""
    freq_update: int | None = None
    time_range_in_minutes: int | None = None

    @property
    def measurements(self) -> str:
        """Return the name of the ConfigMap with measurements, or ''."""
        return self.configmap_name or self.older_configmap_name


class Edge(Object, frozen=True):
    """One measurement between two values of a topology label; bandwidth in bit/s."""

    topology_key: str = ""
    origin: str = ""
    destination: str = ""
    latency_microseconds: int | None = None
    bandwidth: Quantity | None = None
    samples: int | None = None
    measurement_time: str | None = None


class NetworkTopologyStatus(Object, frozen=True):
    """Observed and calculated values; None is a field that was never written."""

    node_count: int | None = None
    observed_generation: int | None = None
    weight_calculation_time: str | None = None
    weights: tuple[Weights, ...] = ()
    edges: tuple[Edge, ...] = ()
    conditions: tuple[Condition, ...] = ()


class NetworkTopology(Object, frozen=True):
    """A network topology."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkTopologySpec = NetworkTopologySpec()
    status: NetworkTopologyStatus = NetworkTopologyStatus()


class NetworkTopologySlice(Object, frozen=True):
    """Costs between single nodes: a part of the NetworkTopology `topology` in the same namespace.

    `weights_name` is the table it belongs to; `origins` are nodes of `origin_zone`, their paths
    lead to nodes. One object is limited to 1 MiB, so a zone may need several.
    """

    metadata: ObjectMeta = ObjectMeta()
    topology: str = ""
    weights_name: str = NETPERF_COSTS
    origin_zone: str = ""
    calculation_time: str | None = None
    origins: tuple[Origin, ...] = ()
