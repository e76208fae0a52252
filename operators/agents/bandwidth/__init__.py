"""`trellis agent bandwidth`: advertises the speed of a node's link as an extended resource."""

from operators.agents.bandwidth.agent import BandwidthAgent, BandwidthSettings

__all__ = ["BandwidthAgent", "BandwidthSettings"]
