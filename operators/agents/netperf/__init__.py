"""`trellis agent netperf`: measures latency between nodes, agent to agent, and exports it to
Prometheus.

`protocol`, `plan` and `latencies` contain the rules, as pure code; `responder` and `asker` are the
two ends of a measurement; `agent` connects them.
"""

from operators.agents.netperf.agent import NetperfAgent, NetperfSettings
from operators.agents.netperf.asker import ArrivedBytes, ProbeError, Target, stream
from operators.agents.netperf.keys import Keys
from operators.agents.netperf.links import SimulatedLinks
from operators.agents.netperf.peers import Peers, PeersOfFile, PeersOfService
from operators.agents.netperf.plan import ProbePace

__all__ = [
    "ArrivedBytes",
    "Keys",
    "NetperfAgent",
    "NetperfSettings",
    "Peers",
    "PeersOfFile",
    "PeersOfService",
    "ProbeError",
    "ProbePace",
    "SimulatedLinks",
    "Target",
    "stream",
]
