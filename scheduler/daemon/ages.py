"""How old the figures are that load-aware placement decides by, as gauges.

Ages need a clock, which the engine does not have; the daemon does. Labels are few whatever the number
of nodes: an age per node would be a series per node.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.engine.engine import Engine
from scheduler.plugins.loadaware import LoadAwareScheduling

STATES = ("fresh", "expired", "missing")


def show_ages(engine: Engine, clock: Clock, meters: Meters) -> None:
    """Let the gauges read the ages when they are scraped; nothing without the plugin."""
    plugins = list(_plugins(engine))
    if not plugins:
        # The daemon before this one, in the same process, may have had it.
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
        counts = (len(found) - expired, expired, len(engine.cluster.table) - len(found))
        return dict(zip(STATES, map(float, counts), strict=True))

    meters.node_metric_age.read_from(ages)
    meters.node_metrics.read_from(states)


def _plugins(engine: Engine) -> Iterator[LoadAwareScheduling]:
    for profile in engine.profiles.values():
        for plugin in profile.plugins.values():
            if isinstance(plugin, LoadAwareScheduling):
                yield plugin
