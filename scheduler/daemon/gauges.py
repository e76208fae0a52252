"""Gauges whose values come from plugins: the age of load and network figures, the network cost of
placements, devices of no use to waiting pods.

Ages need a clock, which the engine does not have; the daemon does. The number of series does not
depend on the number of nodes. Values are computed at scrape time; applications whose pods did not
move since are not computed again.
"""

from __future__ import annotations

from typing import Any

from scheduler.base.clock import Clock, parse_rfc3339
from scheduler.base.meters import Meters
from scheduler.engine.engine import Engine
from scheduler.framework.plugin import Plugin
from scheduler.plugins.fragmentation import FragmentationAware
from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.plugins.network import NetworkMinCost, NetworkOverhead, TotalCost

STATES = ("fresh", "expired", "missing")


def show_ages(engine: Engine, clock: Clock, meters: Meters) -> None:
    """Connect the gauges of ages to their source; do nothing without the plugin."""
    plugins = [one for one in _plugins(engine) if isinstance(one, LoadAwareScheduling)]
    if not plugins:
        # An earlier daemon in the same process may have set this gauge.
        meters.node_metric_age.read_from(dict)
        meters.node_metrics.read_from(dict)
        return
    plugin = min(plugins, key=lambda one: one.expiration_s)

    def ages() -> dict[str, float]:
        found = sorted(age_s for _, age_s in plugin.ages_s(clock.now()) if age_s != float("inf"))
        if not found:
            return {}
        return {"newest": found[0], "median": found[len(found) // 2], "oldest": found[-1]}

    def states() -> dict[str, float]:
        found = [age_s for _, age_s in plugin.ages_s(clock.now())]
        expired = sum(age_s >= plugin.expiration_s for age_s in found)
        counts = (len(found) - expired, expired, engine.view.node_count - len(found))
        return dict(zip(STATES, map(float, counts), strict=True))

    meters.node_metric_age.read_from(ages)
    meters.node_metrics.read_from(states)


def show_network(engine: Engine, clock: Clock, meters: Meters) -> None:
    """Connect the gauges of network costs to their source; do nothing without the plugin."""
    users = [one for one in _plugins(engine) if isinstance(one, NetworkOverhead | NetworkMinCost)]
    lookups = [one.lookup for one in users]
    if not lookups:
        # An earlier daemon in the same process may have set this gauge.
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


def show_devices(engine: Engine, meters: Meters) -> None:
    """Connect the gauges of idle devices that waiting pods cannot use; do nothing without the
    plugin.
    """
    plugins = [one for one in _plugins(engine) if isinstance(one, FragmentationAware)]
    if not plugins:
        # An earlier daemon of this process may have had it.
        meters.devices_idle.read_from(lambda: 0.0)
        meters.devices_unusable.read_from(dict)
        return
    inventory = plugins[0].inventory
    meters.devices_idle.read_from(inventory.idle)
    meters.devices_unusable.read_from(
        lambda: inventory.unusable(queued.pod for queued in engine.view.queue())
    )


def _plugins(engine: Engine) -> list[Plugin[Any]]:
    return engine.view.plugins()
