"""Load-aware placement: measured use of nodes, its age, and the estimate of new pods.

The plugin family of NodeMetric: arguments, estimates, accounting and the plugin itself.
"""

from scheduler.plugins.loadaware.args import LoadAwareSchedulingArgs
from scheduler.plugins.loadaware.plugin import LoadAwareScheduling

__all__ = ["LoadAwareScheduling", "LoadAwareSchedulingArgs"]
