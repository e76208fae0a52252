"""The cheapest of several kinds of nodes: the fewest nodes of each that suffice, and their cost.

The caller passes a predicate over snapshots. It is evaluated on snapshots with 1, 2, 4 ... more
nodes of a kind, then between the last that failed and the first that sufficed. So the predicate was
true for the result, and false for one node fewer.
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

# Returns the reason that prevents the goal in a snapshot; '' if there is none.
GoalCheck = Callable[[Snapshot], str]


class NodeOffer(msgspec.Struct, frozen=True):
    """A kind of node on offer: a copy of `node` for `cost`, in the unit of all offers."""

    name: str
    node: Node
    cost: float


class OfferResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an offer: `nodes` of it suffice and one fewer does not, for `total`.

    Both are None if `tried` nodes do not suffice; `message` is then the remaining reason.
    """

    node: str
    cost: float
    nodes: int | None
    total: float | None
    tried: int
    message: str = ""


class OfferReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The offers, the cheapest first, insufficient ones last. Its JSON is a public contract.

    `is_needed` is false if no further node is needed.
    """

    api_version: str = API_VERSION
    kind: str = "NodeOffers"
    is_needed: bool
    message: str
    offers: tuple[OfferResult, ...]

    @property
    def solves(self) -> bool:
        """Return whether the goal is reached, by some offer or without any."""
        return not self.is_needed or any(one.nodes is not None for one in self.offers)


def read_offers(
    texts: Iterable[str], snapshot: Snapshot, models: Mapping[str, Node]
) -> tuple[NodeOffer, ...]:
    """Return offers from `COST=MODEL`; a model is one of `models` or a node of the snapshot."""
    found = []
    for text in texts:
        number, given, name = text.partition("=")
        try:
            cost = float(number)
        except ValueError:
            cost = math.nan
        if not given or not 0 <= cost <= 1e12:
            raise InputError(f"nodes on offer are named as COST=NODE, not {text!r:.80}")
        found.append(NodeOffer(name, model_of(snapshot, name, models), cost))
    if len(found) > MOST_OFFERS:
        raise InputError(f"{len(found)} offers are more than {MOST_OFFERS}")
    return tuple(found)


def cheapest(
    snapshot: Snapshot, offers: Iterable[NodeOffer], check: GoalCheck, most: int
) -> OfferReport:
    """Return the result of each offer; no more than `most` nodes of one kind are tried."""
    without = check(snapshot)
    most = max(1, min(most, MOST_NODES))
    found = [_fewest(snapshot, one, check, most) for one in offers] if without else []
    order = sorted(
        found,
        key=lambda one: (math.inf if one.total is None else one.total, one.nodes or 0, one.node),
    )
    return OfferReport(is_needed=bool(without), message=without, offers=tuple(order))


def pods_wait(setup: Setup, options: AnswerOptions | None) -> GoalCheck:
    """Return a check that requires every pending pod placed without evictions."""

    def check(snapshot: Snapshot) -> str:
        pods = simulate(snapshot, setup, options).pods
        left = [pod for pod in pods if pod.node is None]
        victims = {name for pod in pods for name in pod.victims}
        if not left:
            return f"{len(victims)} pods would have to leave" if victims else ""
        first = left[0]
        problem = f", {first.key}: {first.message}" if first.message else f", {first.key} for one"
        return f"{len(left)} of {len(pods)} pods find no node{problem}"

    return check


def _fewest(snapshot: Snapshot, offer: NodeOffer, check: GoalCheck, most: int) -> OfferResult:
    """Return the fewest nodes of an offer that suffice, None if `most` do not."""
    few, many = 0, 1
    while problem := check(with_nodes(snapshot, offer.node, many)):
        if many == most:
            return OfferResult(offer.name, offer.cost, None, None, many, problem)
        few, many = many, min(2 * many, most)
    while many - few > 1:
        middle = (few + many) // 2
        if check(with_nodes(snapshot, offer.node, middle)):
            few = middle
        else:
            many = middle
    return OfferResult(offer.name, offer.cost, many, many * offer.cost, many)
