"""`trellis agent load`: measures a node and its pods and reports them as the node's NodeMetric."""

from operators.agents.load.agent import LoadAgent, LoadSettings

__all__ = ["LoadAgent", "LoadSettings"]
