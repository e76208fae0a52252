"""What post-filter plugins (preemption) get and give back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.framework.answers import Rejection
from scheduler.framework.calls import ApiCall, Offer
from scheduler.framework.hypothetical import Hypothetical
from scheduler.framework.promised import Promised
from scheduler.framework.status import SUCCESS, Status
from scheduler.state.podindex import Placed


class FitFailure(msgspec.Struct, frozen=True):
    """Why no node fits, for a plugin that wants to make room.

    `candidates` are the rows whose rejection evicting pods may lift. `pre_filter` is not a success
    when the pod was rejected before any node was looked at. `hypothetical` runs the filters on
    changed rows. `promised` are the pods that this one must leave room for.
    `break_tie` picks one of equally good rows. `wants_offers` says that extenders have a word on who
    is evicted: then every candidate is wanted, not only the best. `prefiltered_by` are the plugins
    that pre-filter got to, `states` what their pre-filters returned.
    """

    candidates: BoolColumn
    rejections: tuple[Rejection, ...]
    pre_filter: Status
    hypothetical: Hypothetical
    promised: Promised
    break_tie: Callable[[Rows], int]
    wants_offers: bool = False
    prefiltered_by: frozenset[str] = frozenset()
    states: Mapping[str, Any] = {}


class PostFiltered(msgspec.Struct, frozen=True):
    """What a post-filter plugin found.

    `nominated_node` None leaves the pod's nomination alone, an empty text clears it. `victims` are
    the pods to evict from the nominated node. `text` joins the pod's message when nothing was found.
    `offers` are all candidates, where they were wanted, and `choose` picks the best of those that are
    left of them (at least one; their victims may have changed). `calls` are sent in order, and nobody
    waits for their answers.
    """

    status: Status = SUCCESS
    nominated_node: str | None = None
    victims: tuple[Placed, ...] = ()
    text: str = ""
    offers: tuple[Offer, ...] = ()
    choose: Callable[[tuple[Offer, ...]], Offer] | None = None
    calls: tuple[ApiCall, ...] = ()
