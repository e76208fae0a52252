"""Which of several kinds of nodes solves it at least cost: the fewest of each that suffice, and what they cost.

What "it" is says whoever asks, by a function that judges a snapshot; it is asked of snapshots with 1, 2, 4 ...
more nodes of a kind, then between the last that was too few and the first that sufficed. So the answer was
seen to suffice and one node fewer was seen not to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.base.errors import InputError
from scheduler.objects.node import Node
from scheduler.simulate.records import API_VERSION
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.changes import model_of, with_nodes
from scheduler.snapshot.snapshot import Snapshot

MOST_NODES: Final = 1_024
MOST_OFFERS: Final = 32

# What stands in the way in a snapshot; empty: nothing does.
Judge = Callable[[Snapshot], str]


class NodeOffer(msgspec.Struct, frozen=True):
    """A kind of node that can be had: a copy of `node` for `cost`, in whatever unit all offers have."""

    name: str
    node: Node
    cost: float


class OfferResult(msgspec.Struct, frozen=True, rename="camel"):
    """What an offer comes to: `nodes` of it suffice and one fewer does not, for `total`.

    Both are None when `tried` of them do not suffice; `message` is then what still stands in the way.
    """

    node: str
    cost: float
    nodes: int | None
    total: float | None
    tried: int
    message: str = ""


class OfferReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer, its JSON is a public contract: `offers` from the cheapest, those that do not help last.

    `is_needed` is false when nothing stands in the way without more nodes.
    """

    api_version: str = API_VERSION
    kind: str = "NodeOffers"
    is_needed: bool
    message: str
    offers: tuple[OfferResult, ...]

    @property
    def solves(self) -> bool:
        """Say whether it is solved, by some offer or without any."""
        return not self.is_needed or any(one.nodes is not None for one in self.offers)


def read_offers(
    texts: Iterable[str], world: Snapshot, models: Mapping[str, Node]
) -> tuple[NodeOffer, ...]:
    """Read offers as `COST=MODEL`; a model is one of `models` or a node of the snapshot."""
    found = []
    for text in texts:
        number, given, name = text.partition("=")
        try:
            cost = float(number)
        except ValueError:
            cost = math.nan
        if not given or not 0 <= cost <= 1e12:
            raise InputError(f"nodes on offer are named as COST=NODE, not {text!r:.80}")
        found.append(NodeOffer(name, model_of(world, name, models), cost))
    if len(found) > MOST_OFFERS:
        raise InputError(f"{len(found)} offers are more than {MOST_OFFERS}")
    return tuple(found)


def cheapest(world: Snapshot, offers: Iterable[NodeOffer], judge: Judge, most: int) -> OfferReport:
    """Return what each offer comes to; no more than `most` nodes of one kind are tried."""
    without = judge(world)
    most = max(1, min(most, MOST_NODES))
    found = [_fewest(world, one, judge, most) for one in offers] if without else []
    order = sorted(
        found,
        key=lambda one: (math.inf if one.total is None else one.total, one.nodes or 0, one.node),
    )
    return OfferReport(is_needed=bool(without), message=without, offers=tuple(order))


def pods_wait(setup: Setup, options: AnswerOptions | None) -> Judge:
    """Return a judge who wants every pending pod placed, and nobody to leave for that."""

    def judge(world: Snapshot) -> str:
        pods = simulate(world, setup, options).pods
        left = [pod for pod in pods if pod.node is None]
        victims = {name for pod in pods for name in pod.victims}
        if not left:
            return f"{len(victims)} pods would have to leave" if victims else ""
        first = left[0]
        said = f", {first.key}: {first.message}" if first.message else f", {first.key} for one"
        return f"{len(left)} of {len(pods)} pods find no node{said}"

    return judge


def _fewest(world: Snapshot, offer: NodeOffer, judge: Judge, most: int) -> OfferResult:
    """Find the fewest nodes of an offer that suffice, none when `most` do not."""
    few, many = 0, 1
    while said := judge(with_nodes(world, offer.node, many)):
        if many == most:
            return OfferResult(offer.name, offer.cost, None, None, many, said)
        few, many = many, min(2 * many, most)
    while many - few > 1:
        middle = (few + many) // 2
        if judge(with_nodes(world, offer.node, middle)):
            few = middle
        else:
            many = middle
    return OfferResult(offer.name, offer.cost, many, many * offer.cost, many)
