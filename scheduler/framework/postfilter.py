"""What post-filter plugins (preemption) get and give back."""

from collections.abc import Callable

import msgspec

from scheduler.base.arrays import BoolColumn, Rows
from scheduler.framework.answers import Rejection
from scheduler.framework.calls import ApiCall, Offer
from scheduler.framework.dryrun import Attempted
from scheduler.framework.rowpods import Nominated
from scheduler.framework.status import SUCCESS, Status
from scheduler.state.podindex import Placed


class FitFailure(msgspec.Struct, frozen=True):
    """Why no node fits, for a plugin that wants to make room.

    `candidates` are the rows whose rejection evicting pods may lift. `pre_filter` is not a success
    when the pod was rejected before any node was looked at. `attempted` asks the filters again
    about changed rows. `nominated` are the pods that this one must leave room for.
    `break_tie` picks one of equally good rows. `wants_offers` says that extenders have a word on who
    is evicted: then every candidate is wanted, not only the best. `prefiltered_by` are the plugins
    that pre-filter got to.
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
    """What a post-filter plugin found.

    `nominated_node` None leaves the pod's nomination alone, an empty text clears it. `victims` are
    the pods to evict, those of the nominated node and whoever goes with them. The framework fills in
    `plugin`. `text` joins the pod's message when nothing was found.
    `offers` are all candidates, where they were wanted, and `choose` returns the node of the best of
    those that are left of them (at least one; their victims may have changed) and everybody who has to
    go for it. `calls` are sent in order, and nobody waits for their answers. `prevented_by` are the
    filter plugins because of which nothing was found: what helps with them is worth another attempt.
    """

    status: Status = SUCCESS
    nominated_node: str | None = None
    victims: tuple[Placed, ...] = ()
    plugin: str = ""
    text: str = ""
    offers: tuple[Offer, ...] = ()
    choose: Callable[[tuple[Offer, ...]], tuple[str, tuple[Placed, ...]]] | None = None
    calls: tuple[ApiCall, ...] = ()
    prevented_by: tuple[str, ...] = ()
