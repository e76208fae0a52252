"""Score placements by the value of the remaining devices for future pods."""

from scheduler.plugins.fragmentation.plugin import FragmentationAware

__all__ = ["FragmentationAware"]
