"""Groups as units of disruption: whose pods must be evicted together, or not at all.

The plugin that decides groups says it (`GroupPlanner.disruption_units`); whoever evicts asks the handle
for it, before a node is chosen, so that all who go are counted when nodes are compared. Evicts nobody.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from scheduler.state.podindex import Placed


class DisruptionMode(StrEnum):
    """How the placed pods of a group may be disrupted: each alone, or only all of them together."""

    SINGLE = "single"
    ALL = "all"


class DisruptionUnit(msgspec.Struct, frozen=True):
    """A group as a unit of disruption: `members` are its pods on nodes that are not leaving already.

    With mode ALL they are evicted together or not at all, and count with the unit's `priority`; with
    mode SINGLE each may go alone and counts with its own. `spare` of a unit that goes together are more
    than the group needs: so many may go while the others stay.
    """

    key: str
    mode: DisruptionMode
    priority: int
    members: tuple[Placed, ...]
    spare: int = 0


class DisruptionUnits(msgspec.Struct, frozen=True):
    """The groups that changed since a mark, by key; one without members is gone.

    `mark` is what to ask with the next time. `is_all` says that there are no others: so it is at the
    first time, and when the mark is too old for anybody to know what changed.
    """

    mark: int = 0
    changed: Mapping[str, DisruptionUnit] = {}
    is_all: bool = False
