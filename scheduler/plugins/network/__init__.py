"""Network-aware plugins: near to what a pod talks to, inside cost limits and bandwidth.

`NetworkTracker` keeps the placed pods of every AppGroup by workload and place, the plugins ask it.
"""

from scheduler.plugins.network.overhead import NetworkOverhead

__all__ = ["NetworkOverhead"]
