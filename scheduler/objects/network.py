"""NetworkTopology and its slices: what the network costs and carries.

The operator keeps status and slices, the network plugins read the tables. A cost that is absent is
not known; a capacity that is absent does not limit. Keys of older texts (`configMapName`, `costList`,
`originCosts`, `costs`) are read as today's; read the lists through `levels`, `origins` and `ways`.
"""

import msgspec

from scheduler.objects.meta import Condition, Object, ObjectMeta

REGION_LABEL = "topology.kubernetes.io/region"
ZONE_LABEL = "topology.kubernetes.io/zone"
USER_DEFINED = "UserDefined"
NETPERF_COSTS = "NetperfCosts"
# What a node's link carries in bit/s, as an extended resource.
BANDWIDTH = "network.aware.com/bandwidth"

Quantity = int | float | str


class Cost(Object, frozen=True):
    """The way to one destination; capacity and what is booked are quantities in bit/s."""

    destination: str = ""
    network_cost: int | None = None
    bandwidth_capacity: Quantity | None = None
    bandwidth_allocated: Quantity | None = None
    is_allowed: bool | None = None


class Statistics(Object, frozen=True):
    """Least, mean and greatest cost and bandwidth of several ways."""

    min_bandwidth: Quantity | None = None
    avg_bandwidth: Quantity | None = None
    max_bandwidth: Quantity | None = None
    min_cost: int | None = None
    avg_cost: int | None = None
    max_cost: int | None = None


class Origin(Object, frozen=True):
    """The ways from one value of the topology label."""

    origin: str = ""
    cost_list: tuple[Cost, ...] = ()
    origin_inter_statistics: Statistics | None = None
    origin_intra_statistics: Statistics | None = None
    costs: tuple[Cost, ...] = ()

    @property
    def ways(self) -> tuple[Cost, ...]:
        """Return the ways, under whichever key they stand."""
        return self.cost_list or self.costs


class TopologyCosts(Object, frozen=True):
    """The ways between the values of one node label."""

    topology_key: str = ""
    origin_list: tuple[Origin, ...] = ()
    origin_costs: tuple[Origin, ...] = ()

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Return the origins, under whichever key they stand."""
        return self.origin_list or self.origin_costs


class Weights(Object, frozen=True):
    """One table of costs."""

    name: str = ""
    topology_list: tuple[TopologyCosts, ...] = ()
    cost_list: tuple[TopologyCosts, ...] = ()

    @property
    def levels(self) -> tuple[TopologyCosts, ...]:
        """Return the tables by topology key, under whichever key they stand."""
        return self.topology_list or self.cost_list


class SecretRef(Object, frozen=True):
    """Where a token is kept."""

    name: str = ""
    key: str = ""


class MetricProvider(Object, frozen=True):
    """Where measurements come from; `type` is Prometheus or ConfigMap.

    `ca_secret_ref` holds the authority to trust, `percentile` says which of the latencies count.
    """

    type: str = ""
    address: str = ""
    secret_ref: SecretRef | None = None
    ca_secret_ref: SecretRef | None = None
    insecure_skip_verify: bool = False
    percentile: int | None = None


class NetworkTopologySpec(Object, frozen=True):
    """What the user lays down; times in minutes."""

    weights: tuple[Weights, ...] = ()
    configmap_name: str = ""
    older_configmap_name: str = msgspec.field(name="configMapName", default="")
    metric_provider: MetricProvider | None = None
    topology_algorithm: str = ""
    freq_update: int | None = None
    time_range_in_minutes: int | None = None

    @property
    def measurements(self) -> str:
        """Return the name of the ConfigMap with measurements, or nothing."""
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
    """What was observed and calculated; None is what nobody has written yet."""

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

    `weights_name` is the table it belongs to; `origins` are nodes of `origin_zone`, their ways lead to
    nodes. One object holds at most 1 MiB, so a zone may need several.
    """

    metadata: ObjectMeta = ObjectMeta()
    topology: str = ""
    weights_name: str = NETPERF_COSTS
    origin_zone: str = ""
    calculation_time: str | None = None
    origins: tuple[Origin, ...] = ()
