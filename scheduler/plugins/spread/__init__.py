"""PodTopologySpread: pods of a kind spread evenly over the domains of a topology."""

from scheduler.plugins.spread.args import PodTopologySpreadArgs
from scheduler.plugins.spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread", "PodTopologySpreadArgs"]
