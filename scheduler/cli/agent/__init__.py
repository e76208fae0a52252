"""`trellis agent`: the agents that run on every node. One module per agent; each imports only its
own.
"""

from scheduler.cli.agent.app import agent

__all__ = ["agent"]
