"""InterPodAffinity: pods near to other pods, or far from them."""

from scheduler.plugins.affinity.args import InterPodAffinityArgs
from scheduler.plugins.affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity", "InterPodAffinityArgs"]
