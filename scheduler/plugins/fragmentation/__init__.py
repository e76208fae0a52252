"""Packing by the worth of what is left on a node for the pods that are to come."""

from scheduler.plugins.fragmentation.plugin import FragmentationAware

__all__ = ["FragmentationAware"]
