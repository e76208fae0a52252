"""`trellis agent netperf`: measures latency between nodes, agent to agent, and tells Prometheus.

`protocol`, `plan` and `latencies` hold the rules, as pure code; `responder` and `asker` are the two
ends of a measurement; `agent` puts them together.
"""

from operators.agents.netperf.agent import NetperfAgent, NetperfSettings
from operators.agents.netperf.asker import ProbeError, Stream, Target, stream
from operators.agents.netperf.keys import Keys
from operators.agents.netperf.links import Links
from operators.agents.netperf.peers import Peers, PeersOfFile, PeersOfService
from operators.agents.netperf.plan import Pace

__all__ = [
    "Keys",
    "Links",
    "NetperfAgent",
    "NetperfSettings",
    "Pace",
    "Peers",
    "PeersOfFile",
    "PeersOfService",
    "ProbeError",
    "Stream",
    "Target",
    "stream",
]
