"""Groups as units of disruption: whose pods must be evicted together, or not at all.

The plugin that plans groups reports the units (`GroupPlanner.disruption_units`). A preemptor reads
them from the handle before it chooses a node, so that nodes are compared with all victims counted.
This module evicts nothing.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from scheduler.state.podindex import Placed


class DisruptionMode(StrEnum):
    """How the bound pods of a group may be disrupted: each alone, or only all together."""

    SINGLE = "single"
    ALL = "all"


class DisruptionUnit(msgspec.Struct, frozen=True):
    """A group as a unit of disruption: `members` are its pods on nodes, without terminating ones.

    With mode ALL they are evicted together or not at all, and count with the unit's `priority`;
    with mode SINGLE each pod may be evicted alone and counts with its own. `surplus` is the surplus
    of a unit with mode ALL: so many members may be evicted while the others keep running.
    """

    key: str
    mode: DisruptionMode
    priority: int
    members: tuple[Placed, ...]
    surplus: int = 0


class Disruption(msgspec.Struct, frozen=True):
    """What a set of victims disrupts, for metrics.

    `violations` is how many of them violate a disruption budget, `groups` how many groups are
    evicted as a whole; a preemption for a single pod does not count groups.
    """

    violations: int = 0
    groups: int = 0


class DisruptionUnits(msgspec.Struct, frozen=True):
    """The groups that changed since a mark, by key; a group without members no longer exists.

    Pass `mark` to the next call. `is_all` is set when the result is complete: on the first call,
    and when the mark is older than the log of changes.
    """

    mark: int = 0
    changed: Mapping[str, DisruptionUnit] = {}
    is_all: bool = False
