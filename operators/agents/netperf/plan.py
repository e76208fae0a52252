"""The measurement plan: every agent computes its own part. Pure and deterministic.

Inside a zone all pairs are measured, each by one of its two ends. Between two zones a few pairs are
measured; hashes select them, so that all agents agree without communication, and a new or deleted
node changes few of them. An agent measures its pairs in turn, one at a time, alternating between
pairs inside the zone and pairs beyond: so the few pairs between zones, which matter most, are
measured most often.

Moments and orders follow from hashes of names as well: agents that start together spread evenly,
and no two of them run through the nodes in the same order.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from operators.agents.netperf.peers import Peer


class ProbePace(NamedTuple):
    """The pace: the most probes per minute, and the least seconds between two of one pair."""

    per_minute: float = 20.0
    least_s: float = 10.0


class ProbePlan(NamedTuple):
    """The pairs that one agent measures, by their other end, in the order of its turns."""

    near: tuple[Peer, ...] = ()
    far: tuple[Peer, ...] = ()

    @property
    def pairs(self) -> int:
        """Return the number of pairs."""
        return len(self.near) + len(self.far)

    def at(self, turn: int) -> Peer | None:
        """Return the peer of a turn; None without any pair."""
        if not self.near or not self.far:
            ring = self.near or self.far
            return ring[turn % len(ring)] if ring else None
        ring = self.far if turn % 2 else self.near
        return ring[turn // 2 % len(ring)]

    def spacing_s(self, pace: ProbePace) -> float:
        """Return the seconds between two turns."""
        return max(60.0 / pace.per_minute, pace.least_s / max(self.pairs, 1))

    def round_s(self, pace: ProbePace) -> float:
        """Return the time within which each pair has a turn."""
        turns = 2 * max(len(self.near), len(self.far)) if self.near and self.far else self.pairs
        return turns * self.spacing_s(pace)


def plan_for(own: Peer, peers: Iterable[Peer], pairs_per_zone_pair: int) -> ProbePlan:
    """Return the part of an agent; `peers` may or may not hold the agent itself."""
    zones: defaultdict[str, list[str]] = defaultdict(list)
    known = {peer.node: peer for peer in peers} | {own.node: own}
    for peer in known.values():
        zones[peer.zone].append(peer.node)
    here = zones.pop(own.zone)
    near = {node for node in here if node != own.node and _probes(own.node, node)}
    far: set[str] = set()
    for zone, there in zones.items():
        for slot in range(pairs_per_zone_pair):
            mine = max(here, key=lambda node: (_hash(own.zone, zone, slot, node), node))
            if mine != own.node:
                continue
            other = max(there, key=lambda node: (_hash(zone, own.zone, slot, node), node))
            if _probes(own.node, other):
                far.add(other)

    def in_order(nodes: set[str]) -> tuple[Peer, ...]:
        return tuple(known[node] for node in sorted(nodes, key=lambda one: _hash(own.node, one)))

    return ProbePlan(in_order(near), in_order(far))


def next_moment(node: str, now: float, spacing_s: float) -> float:
    """Return when an agent's next turn is: every `spacing_s`, at an offset of its own."""
    offset = _hash(node) / 2**64 * spacing_s
    return offset + (math.floor((now - offset) / spacing_s) + 1) * spacing_s


def first_turn(node: str, plan: ProbePlan) -> int:
    """Return where an agent starts, so that after a restart of all agents not all start with the
    same pairs.
    """
    return _hash("first", node) % max(2 * plan.pairs, 1)


def _probes(one: str, other: str) -> bool:
    """Return whether `one` probes the pair, not `other`; true for exactly one order of the two."""
    first, second = sorted((one, other))
    return (one == first) == bool(_hash(first, second) & 1)


def _hash(*parts: object) -> int:
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest())
