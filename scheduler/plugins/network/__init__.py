"""Network-aware plugins: place pods near their dependencies, inside cost limits and bandwidth.

`NetworkTracker` keeps the placed pods of every AppGroup by workload and row, the plugins ask it;
`UsageTracker` keeps load-watcher's figures for those that look at risk.
"""

from scheduler.plugins.network.bill import Bill, Tie
from scheduler.plugins.network.mincost import NetworkMinCost
from scheduler.plugins.network.overhead import NetworkOverhead
from scheduler.plugins.network.risks import CheckRiskNodeBandwidth, LoadVariationRiskBalancing
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
