"""What the framework asks a plugin about several pods of a group at once.

Most plugins count what is placed, and are asked pod by pod with the others in place. A plugin that
chooses something for each pod at reserve (devices, for example) serves `SeatsTogether` instead: the choice
for one pod may leave nothing for the next, although another choice would serve both.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from scheduler.base.arrays import BoolColumn, FloatMatrix, IntColumn, IntMatrix, Rows
from scheduler.framework.cycle import Cycle
from scheduler.objects.pod import Pod


class SeatedMember(msgspec.Struct, frozen=True):
    """A member of a group on the node it is to go to, and the plugin's state of it."""

    cycle: Cycle
    node: str
    state: Any


class MemberConflict(msgspec.Struct, frozen=True):
    """Members that cannot be on one node together, and the rows for which that holds."""

    pods: tuple[Pod, ...]
    node: str
    reason: str
    rows: BoolColumn


class MemberDemand(msgspec.Struct, frozen=True):
    """The members of a group that are to be placed; nobody asks for more than `most` on a row."""

    members: Sequence[Pod]
    most: int


class Stock(msgspec.Struct, frozen=True):
    """What some rows have that a pod could use: `free` of `total`, in the plugin's words for it ("devices").

    `users` says how much of the rest who has: pods by uid, others by what they are called.
    """

    what: str
    free: int
    total: int
    users: Mapping[str, int]


# What the rows set have; asked only for a text, so it may be as dear as a search.
Stocktaking: TypeAlias = Callable[[BoolColumn], Stock]


class WayLink(msgspec.Struct, frozen=True):
    """A link that pods in some areas reach those in others by, and what it has room for, in bit/s.

    With `is_shared` what goes back takes of the same. `name` is for texts.
    """

    name: str
    origins: tuple[int, ...]
    targets: tuple[int, ...]
    room: int
    is_shared: bool


class Ways(msgspec.Struct, frozen=True):
    """What it costs that pods on some rows talk to one another: `areas` has the area of each row.

    `costs` [from, to] is between pods on two nodes; on one they talk for nothing. `prices` is what a limit is
    compared with: below every limit inside of an area, not a number where the way is not known. `links` are those
    that limit how much is sent.
    """

    areas: Rows
    costs: FloatMatrix
    prices: FloatMatrix
    links: tuple[WayLink, ...] = ()


class RowRoom(msgspec.Struct, frozen=True):
    """How many pods like one each row has room for; pods with equal `kind` are alike to the plugin.

    Of `reach`, a number by row, all of these pods must have the same: they share something that only the
    nodes of one number can use. None says nothing. `stock` tells what there is when the room is not enough.
    `costs` [pods - 1, row] is what the pods' own preferences lack when so many of them are on a row, 0 for all that
    they prefer; None without preferences.
    """

    slots: IntColumn
    kind: Hashable
    reach: IntColumn | None = None
    stock: Stocktaking | None = None
    costs: IntMatrix | None = None
