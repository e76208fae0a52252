"""DefaultPreemption: free capacity for a pod by evicting less important ones."""

from scheduler.plugins.preemption.plugin import DefaultPreemption, DefaultPreemptionArgs

__all__ = ["DefaultPreemption", "DefaultPreemptionArgs"]
