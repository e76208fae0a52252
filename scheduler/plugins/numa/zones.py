"""Reading the zones of one NodeResourceTopology; odd ones are left out, never guessed.

A zone counts when its type is `Node` and its name is `node-` with a number from 0 to 63; of two with
the same number the first counts. A quantity that is none counts as 0.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.objects.numa import NodeResourceTopology, Zone, ZoneCost
from scheduler.objects.quantity import milli_quantity
from scheduler.plugins.numa.demand import LIMIT

MOST_ZONES = 64
UNLISTED = -1
UNKNOWN_DISTANCE = 255
_LARGEST_DISTANCE = 2**31
_PLAIN_DIGITS = 18
# A kubelet handles 8 zones unless told otherwise: 70 sets at most. 64 zones have 10**18.
_MOST_SETS = 20_000

_NAME = re.compile(r"node-([+-]?[0-9]{1,18})", re.ASCII)


class Layout(msgspec.Struct, frozen=True):
    """Which zones a node has; nodes of one make share it.

    `ids` ascend; slot numbers are places in it. `order` are the slots in the order of the object,
    `distances[a][b]` is what slot a says of slot b.
    """

    ids: tuple[int, ...]
    order: tuple[int, ...]
    distances: tuple[tuple[int, ...], ...]


class Zones(msgspec.Struct, frozen=True):
    """Per resource, available and allocatable thousandths by slot; UNLISTED where a zone has none."""

    layout: Layout
    available: dict[str, list[int]]
    allocatable: dict[str, list[int]]


def read_zones(topology: NodeResourceTopology) -> Zones:
    """Return the zones of an object that count."""
    found: dict[int, Zone] = {}
    for zone in topology.zones:
        number = zone_id(zone)
        if number is not None:
            found.setdefault(number, zone)
    ids = tuple(sorted(found))
    slot_of = {number: slot for slot, number in enumerate(ids)}
    available: dict[str, list[int]] = {}
    allocatable: dict[str, list[int]] = {}
    for number, zone in found.items():
        slot = slot_of[number]
        for resource in zone.resources:
            if resource.name not in available:
                available[resource.name] = [UNLISTED] * len(ids)
                allocatable[resource.name] = [UNLISTED] * len(ids)
            available[resource.name][slot] = amount_of(resource.free)
            allocatable[resource.name][slot] = amount_of(resource.allocatable)
    order = tuple(slot_of[number] for number in found)
    costs = tuple(found[number].costs for number in ids)
    distances = tuple(_distances(one, ids) for one in costs)
    return Zones(_layout(ids, order, distances), available, allocatable)


def zone_id(zone: Zone) -> int | None:
    """Return the number of a zone; None for one that does not count."""
    if zone.type != "Node":
        return None
    return _number(zone.name)


def amount_of(text: str | float) -> int:
    """Return a zone's amount in thousandths, between 0 and LIMIT - 1."""
    if type(text) is str and text.isascii() and text.isdecimal() and len(text) <= _PLAIN_DIGITS:
        # Agents write plain bytes, other ones every time: not worth a place in a cache.
        return min(int(text) * 1000, LIMIT - 1)
    try:
        return max(0, min(milli_quantity(text), LIMIT - 1))
    except ObjectError:
        return 0


def sets_of(slots: Sequence[int], number: int) -> Iterable[tuple[int, ...]]:
    """Return the sets of so many zones; of a great many only those of neighbours in `slots`."""
    if comb(len(slots), number) <= _MOST_SETS:
        return combinations(slots, number)
    return (tuple(slots[at : at + number]) for at in range(len(slots) - number + 1))


@lru_cache(maxsize=1024)
def _number(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    number = int(match[1]) if match else -1
    return number if 0 <= number < MOST_ZONES else None


@lru_cache(maxsize=4096)
def _distances(costs: tuple[ZoneCost, ...], ids: tuple[int, ...]) -> tuple[int, ...]:
    known: dict[int, int] = {}
    for cost in costs:
        number = _number(cost.name)
        if number is not None:
            value = cost.value
            known[number] = int(max(0, min(value, _LARGEST_DISTANCE)))
    return tuple(known.get(number, UNKNOWN_DISTANCE) for number in ids)


@lru_cache(maxsize=4096)
def _layout(
    ids: tuple[int, ...], order: tuple[int, ...], distances: tuple[tuple[int, ...], ...]
) -> Layout:
    return Layout(ids, order, distances)
