"""Candidates as offers: the extenders' view of a preemption, and the best remaining one.

The criteria are those of `choice`, one by one instead of in columns: an extender may have changed
the victims, and with them the violated budgets.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from scheduler.framework import Nodes, Placed
from scheduler.framework.calls import Offer
from scheduler.plugins.preemption.choice import TieBreak
from scheduler.plugins.preemption.dryrun import Block
from scheduler.plugins.preemption.units import UnitIndex
from scheduler.state.counts.rowlists import NOT_STARTED, start_of

# kube-scheduler adds 2**31 to each priority, so that more pods always weigh more.
_ABOVE_ZERO = 2**31


def offers_of(blocks: Sequence[Block], nodes: Nodes) -> tuple[Offer, ...]:
    """Return every candidate with its victims, the most important first.

    Pods on other nodes that are evicted with them are left out: an extender receives that node's
    pods.
    """
    return tuple(
        Offer(
            nodes.name(int(block.pods.rows[place])),
            tuple(
                victim.pod.metadata.uid
                for victim in block.victims(place)
                if victim.node == nodes.name(int(block.pods.rows[place]))
            ),
            int(block.violations[place]),
        )
        for block in blocks
        for place in block.places.tolist()
    )


def best_offer(
    offers: Sequence[Offer], nodes: Nodes, units: UnitIndex, break_tie: TieBreak
) -> tuple[str, tuple[Placed, ...], int]:
    """Return the node of the offer with the least harm, all its victims, and its violations.

    There must be an offer, and `nodes` are the current nodes.
    """
    units.catch_up(nodes)
    best = _best(offers, nodes, units, break_tie)
    victims = tuple(one for one, _ in units.with_their_groups(_victims(best, nodes)))
    return best.node, victims, best.violations


def _best(offers: Sequence[Offer], nodes: Nodes, units: UnitIndex, break_tie: TieBreak) -> Offer:
    harms = [_harm(offer, _victims(offer, nodes), units) for offer in offers]
    least = min(harms)
    left = [offer for offer, harm in zip(offers, harms, strict=True) if harm == least]
    by_row = {row: offer for offer in left if (row := nodes.row(offer.node)) is not None}
    if len(by_row) < 2:
        return left[0]
    rows = np.array(sorted(by_row), dtype=np.intp)
    return by_row[break_tie(rows, lambda row: by_row[row].victims)]


def _victims(offer: Offer, nodes: Nodes) -> list[Placed]:
    row = nodes.row(offer.node)
    present = {} if row is None else nodes.pods_on(row)
    return [present[uid] for uid in offer.victims if uid in present]


def _harm(offer: Offer, victims: Sequence[Placed], units: UnitIndex) -> tuple[int, ...]:
    going = units.with_their_groups(victims)
    of_group = Counter(gang.unit.key for _, gang in going if gang is not None)
    # Each victim: its priority, its start, and the group it is evicted with.
    pods: list[tuple[int, int, str]] = []
    for one, gang in going:
        if gang is None:
            pods.append((one.pod.priority, start_of(one), ""))
        elif of_group[gang.unit.key] < len(gang.unit.members):
            pods.append((gang.unit.priority, start_of(one), ""))
        else:
            pods.append((gang.unit.priority, gang.start, gang.unit.key))
    highest = max((priority for priority, _, _ in pods), default=0)
    starts = [start for priority, start, _ in pods if priority == highest]
    return (
        offer.violations,
        highest,
        sum(priority + _ABOVE_ZERO for priority, _, _ in pods),
        len(pods),
        len({key for _, _, key in pods} - {""}),
        -min(starts, default=NOT_STARTED),
    )
