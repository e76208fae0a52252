"""Input and result of post-filter plugins (preemption)."""

from collections.abc import Callable, Mapping

import msgspec

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.framework.answers import Rejection
from scheduler.framework.calls import ApiCall, Offer
from scheduler.framework.dryrun import Attempted
from scheduler.framework.rowpods import Nominated
from scheduler.framework.status import SUCCESS, Status
from scheduler.state.podindex import Placed


class FitFailure(msgspec.Struct, frozen=True):
    """Why no node fits, for a plugin that frees capacity.

    `candidates` are the rows whose rejection evictions may lift. `pre_filter` is no success if the
    pod was rejected before any node was evaluated. `attempted` runs the filters again on changed
    rows. `nominated` are the pods whose capacity this pod must not use. `break_tie` picks one of
    equally good rows. With `wants_offers` extenders take part in the choice of victims: all
    candidates are needed, not only the best. `prefiltered_by` are the plugins whose pre-filter ran.
    """

    candidates: BoolColumn
    rejections: tuple[Rejection, ...]
    pre_filter: Status
    attempted: Attempted
    nominated: Nominated
    break_tie: Callable[[Rows], int]
    wants_offers: bool = False
    prefiltered_by: frozenset[str] = frozenset()


class PostFiltered(msgspec.Struct, frozen=True):
    """The result of a post-filter plugin.

    `nominated_node` None leaves the pod's nomination unchanged, '' clears it. `victims` are the
    pods to evict: those of the nominated node and the pods evicted with them. The framework sets
    `plugin`. `text` is appended to the pod's message if no candidate was found. `offers` are all
    candidates if extenders need them; `choose` receives the remaining ones (at least one; victims
    may have changed) and returns the result with the best node and all its victims. `calls` are
    sent in order, without waiting for their answers. `prevented_by` are the filter plugins that
    prevented a candidate: their events requeue the pod. `expected` has by uid the nodes where
    victims are expected to fit.
    """

    status: Status = SUCCESS
    nominated_node: str | None = None
    victims: tuple[Placed, ...] = ()
    plugin: str = ""
    text: str = ""
    offers: tuple[Offer, ...] = ()
    choose: "Callable[[tuple[Offer, ...]], PostFiltered] | None" = None
    calls: tuple[ApiCall, ...] = ()
    prevented_by: tuple[str, ...] = ()
    expected: Mapping[str, str] = {}
