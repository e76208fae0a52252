"""Network-aware plugins: place pods near their dependencies, inside cost limits and bandwidth.

`NetworkTracker` has the placed pods of every AppGroup by workload and row; `UsageTracker` has
load-watcher's figures for the plugins that score risk.
"""

from scheduler.plugins.network.bandwidth.risks import (
    CheckRiskNodeBandwidth,
    LoadVariationRiskBalancing,
)
from scheduler.plugins.network.bill import Bill, Tie
from scheduler.plugins.network.mincost import NetworkMinCost
from scheduler.plugins.network.overhead import NetworkOverhead
from scheduler.plugins.network.sort import TopologicalSort
from scheduler.plugins.network.total import TotalCost

__all__ = [
    "Bill",
    "CheckRiskNodeBandwidth",
    "LoadVariationRiskBalancing",
    "NetworkMinCost",
    "NetworkOverhead",
    "Tie",
    "TopologicalSort",
    "TotalCost",
]
