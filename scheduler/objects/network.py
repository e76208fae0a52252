"""NetworkTopology: what the network between regions and zones costs and carries.

The operator keeps its status, the network plugins read its tables. A cost that is absent is not
known; a capacity that is absent does not limit.
"""

from __future__ import annotations

from scheduler.objects.meta import Int64, Object, ObjectMeta


class Cost(Object, frozen=True):
    """The way to one destination; capacity is a quantity in bit/s."""

    destination: str = ""
    network_cost: Int64 | None = None
    bandwidth_capacity: int | str | None = None


class Origin(Object, frozen=True):
    """The ways from one value of the topology label."""

    origin: str = ""
    cost_list: tuple[Cost, ...] = ()


class TopologyCosts(Object, frozen=True):
    """The ways between the values of one node label."""

    topology_key: str = ""
    origin_list: tuple[Origin, ...] = ()


class Weights(Object, frozen=True):
    """One table of costs."""

    name: str = ""
    topology_list: tuple[TopologyCosts, ...] = ()


class NetworkTopologySpec(Object, frozen=True):
    """What the user lays down."""

    weights: tuple[Weights, ...] = ()


class Condition(Object, frozen=True):
    """One statement about an object; `status` is True, False or Unknown."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class NetworkTopologyStatus(Object, frozen=True):
    """What was observed and calculated; None is what nobody has written yet."""

    node_count: Int64 | None = None
    observed_generation: Int64 | None = None
    weights: tuple[Weights, ...] = ()
    conditions: tuple[Condition, ...] = ()


class NetworkTopology(Object, frozen=True):
    """A network topology."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NetworkTopologySpec = NetworkTopologySpec()
    status: NetworkTopologyStatus = NetworkTopologyStatus()
