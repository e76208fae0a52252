"""Records for plugins that choose for several pods of a group at once.

Most plugins count placed pods, and run pod by pod with the others in place. A plugin that chooses
something for each pod at reserve (devices, for example) serves `AssignsTogether` instead: the
choice for one pod may leave nothing for the next, although another choice would serve both.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from scheduler.base.arrays import BoolColumn, FloatMatrix, IntColumn, IntMatrix, Rows
from scheduler.framework.cycle import Cycle
from scheduler.objects.pod import Pod


class AssignedMember(msgspec.Struct, frozen=True):
    """A member of a group on its assigned node, and the plugin's state for it."""

    cycle: Cycle
    node: str
    state: Any


class MemberConflict(msgspec.Struct, frozen=True):
    """Members that cannot share one node, and the rows for which that holds."""

    pods: tuple[Pod, ...]
    node: str
    reason: str
    rows: BoolColumn


class MemberDemand(msgspec.Struct, frozen=True):
    """The members of a group to place; `most` limits the number needed on a row."""

    members: Sequence[Pod]
    most: int


class Inventory(msgspec.Struct, frozen=True):
    """What some rows have that a pod could use: `free` of `total`, with the plugin's name for it
    ("devices").

    `users` states the users of the rest: pods by uid, others by name.
    """

    what: str
    free: int
    total: int
    users: Mapping[str, int]


# The inventory of the set rows; computed only for a message, so it may take as long as a search.
InventoryOf: TypeAlias = Callable[[BoolColumn], Inventory]


class PathLink(msgspec.Struct, frozen=True):
    """A network link from some areas to others, and its capacity in bit/s.

    With `is_shared` traffic in the reverse direction uses the same capacity. `name` is for texts.
    """

    name: str
    origins: tuple[int, ...]
    targets: tuple[int, ...]
    headroom: int
    is_shared: bool


class AreaPaths(msgspec.Struct, frozen=True):
    """The cost of traffic between pods on some rows: `areas` has the area of each row.

    `costs` [from, to] is between pods on two nodes; traffic within one node is free. `prices` is
    compared with limits: below every limit inside an area, NaN where the path is unknown. `links`
    are those that limit the traffic.
    """

    areas: Rows
    costs: FloatMatrix
    prices: FloatMatrix
    links: tuple[PathLink, ...] = ()


class RowCapacity(msgspec.Struct, frozen=True):
    """How many equivalent pods each row has capacity for; pods with equal `kind` are equivalent.

    `shared_domain`, a number by row, must be equal for all of these pods: they share something that
    only the nodes of one number can use. None is no restriction. `inventory` states the inventory
    if the capacity is not enough. `costs` [pods - 1, row] is what the pods' own preferences lack
    with so many of them on a row, 0 if all are met; None without preferences.
    """

    slots: IntColumn
    kind: Hashable
    shared_domain: IntColumn | None = None
    inventory: InventoryOf | None = None
    costs: IntMatrix | None = None
