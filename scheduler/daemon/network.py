"""What placements cost on the network, and how old the measured costs are, as gauges.

Read when they are scraped: applications whose pods have not moved since are not looked at again.
"""

from __future__ import annotations

from scheduler.base.clock import Clock, parse_rfc3339
from scheduler.base.meters import Meters
from scheduler.engine.engine import Engine
from scheduler.plugins.network import NetworkMinCost, NetworkOverhead, TotalCost


def show_network(engine: Engine, clock: Clock, meters: Meters) -> None:
    """Let the gauges be read; nothing without a plugin that goes by costs."""
    lookups = [
        plugin.lookup
        for profile in engine.profiles.values()
        for plugin in profile.plugins.values()
        if isinstance(plugin, NetworkOverhead | NetworkMinCost)
    ]
    if not lookups:
        # The daemon before this one, in the same process, may have had one.
        meters.network_cost.read_from(lambda: 0.0)
        meters.network_weights_age.read_from(dict)
        return
    total = TotalCost(lookups[0])

    def ages() -> dict[str, float]:
        found = {}
        for lookup in lookups:
            topology, measured = lookup.topology(), parse_rfc3339(lookup.measured_at() or "")
            if topology is not None and measured is not None:
                meta = topology.metadata
                found[f"{meta.namespace}/{meta.name}"] = clock.now() - measured
        return found

    meters.network_cost.read_from(lambda: float(total.now()))
    meters.network_weights_age.read_from(ages)
