"""`Latencies`: measured latencies, and how long they are exported. The rows of the agent's metrics.

Every pair's percentiles are those of its last probe; Prometheus averages over time. A pair that is
no longer measured ends: at once when its node is no longer among the agents, after two probes in a
row without an answer, and at the latest when the last measurement is older than `keep_s`.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from operators.agents.netperf.peers import Peer
from operators.agents.percentiles import rank
from scheduler.base.meters import MetricSample, Spec

PERCENTILES = (50, 90, 99)
PAIR = ("origin", "destination")
OK = "ok"
GONE = ("timeout", "unreachable")
FAILURES = 2

LATENCIES = tuple(
    Spec(
        f"netperf_p{share}_latency_microseconds",
        "gauge",
        (*PAIR, "origin_zone", "destination_zone"),
        (),
        f"The {share}th percentile of the round trips of the last probe between two nodes.",
    )
    for share in PERCENTILES
)
MEASURED = Spec(
    "trellis_netperf_measured_timestamp_seconds", "gauge", PAIR, (), "When that probe ended."
)
PROBES = Spec(
    "trellis_netperf_probes_total",
    "counter",
    ("result",),
    (),
    "Probes: ok, timeout, unreachable, unproved (another key), busy, other_node, refused, failed.",
)
REFUSED = Spec(
    "trellis_netperf_refused_connections_total",
    "counter",
    (),
    (),
    "Connections to this agent that were closed because no proof of the key came.",
)
PAIRS = Spec(
    "trellis_netperf_pairs",
    "gauge",
    ("where",),
    (),
    "Pairs that this agent measures: inside its zone, between zones.",
)
ROUND = Spec(
    "trellis_netperf_round_seconds",
    "gauge",
    (),
    (),
    "The time within which this agent measures each of its pairs.",
)
SPECS = (*LATENCIES, MEASURED, PROBES, REFUSED, PAIRS, ROUND)


class Latency(NamedTuple):
    """The percentiles of one probe in microseconds, as PERCENTILES lists them."""

    peer: Peer
    percentiles: tuple[float, ...]
    measured_at: float


class Latencies:
    """The measured latencies of one agent to its peers, and its failed probes."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._found: dict[str, Latency] = {}
        self._failures: Counter[str] = Counter()
        self.zone = ""
        self.keep_s = 60.0
        self.probes: Counter[str] = Counter()

    def put(self, peer: Peer, round_trips: Collection[float], now: float) -> None:
        """Add the round trips of a probe, at least one, in microseconds."""
        ordered = sorted(round_trips)
        shares = tuple(rank(ordered, share) for share in PERCENTILES)
        self._found[peer.node] = Latency(peer, shares, now)
        self.probes[OK] += 1
        del self._failures[peer.node]

    def fail(self, peer: Peer, reason: str) -> None:
        """Count a failed probe."""
        self.probes[reason] += 1
        self._failures[peer.node] += reason in GONE
        if self._failures[peer.node] >= FAILURES:
            self._found.pop(peer.node, None)

    def retain(self, nodes: Collection[str]) -> None:
        """Drop the measurements to all other nodes."""
        for node in self._found.keys() - set(nodes):
            del self._found[node]
        for node in self._failures.keys() - set(nodes):
            del self._failures[node]

    def current(self, now: float) -> list[Latency]:
        """Return the latencies that are still valid."""
        for node, one in list(self._found.items()):
            if now - one.measured_at > self.keep_s:
                del self._found[node]
        return list(self._found.values())

    def rows(self, now: float) -> Iterator[tuple[Spec, list[MetricSample]]]:
        """Yield the metrics of pairs and probes."""
        current = self.current(now)
        for place, spec in enumerate(LATENCIES):
            yield (
                spec,
                [
                    MetricSample(
                        (self._own, one.peer.node, self.zone, one.peer.zone), one.percentiles[place]
                    )
                    for one in current
                ],
            )
        yield (
            MEASURED,
            [MetricSample((self._own, one.peer.node), one.measured_at) for one in current],
        )
        yield (
            PROBES,
            [MetricSample((result,), count) for result, count in sorted(self.probes.items())],
        )
