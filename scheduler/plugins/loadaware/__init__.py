"""Load-aware placement: what nodes really use, how old that is, and what is about to be added.

The plugin family of NodeMetric: arguments, estimates, accounting and the plugin itself.
"""

from scheduler.plugins.loadaware.args import LoadAwareSchedulingArgs
from scheduler.plugins.loadaware.plugin import LoadAwareScheduling

__all__ = ["LoadAwareScheduling", "LoadAwareSchedulingArgs"]
