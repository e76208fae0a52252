"""Parse one NodeResourceTopology; invalid zones are left out, never guessed.

A zone counts when its type is `Node` and its name is `node-` with a number from 0 to 63; of two
with the same number the first counts. An invalid quantity counts as 0. The settings of the kubelet
and the agent are parsed here as well: spellings are case-sensitive, and unknown values are ignored,
since agents of many versions write these fields.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Final

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.objects.quantity import milli_quantity
from scheduler.objects.reports.numa import NamedValue, NodeResourceTopology, Zone, ZoneCost
from scheduler.plugins.numa.demand import LIMIT

MOST_ZONES = 64
UNLISTED = -1
UNKNOWN_DISTANCE = 255
_LARGEST_DISTANCE = 2**31
_PLAIN_DIGITS = 18
# A kubelet handles 8 zones by default: 70 sets at most. 64 zones have 10**18.
_MOST_SETS = 20_000

_NAME = re.compile(r"node-([+-]?[0-9]{1,18})", re.ASCII)


class Layout(msgspec.Struct, frozen=True):
    """The zones of a node; nodes of one model share it.

    `ids` ascend; slot numbers are indexes into it. `order` are the slots in the order of the
    object, `distances[a][b]` is the distance that slot a lists for slot b.
    """

    ids: tuple[int, ...]
    order: tuple[int, ...]
    distances: tuple[tuple[int, ...], ...]


class Zones(msgspec.Struct, frozen=True):
    """Per resource, available and allocatable thousandths by slot.

    UNLISTED where a zone has none.
    """

    layout: Layout
    available: dict[str, list[int]]
    allocatable: dict[str, list[int]]


def read_zones(topology: NodeResourceTopology) -> Zones:
    """Return the valid zones of an object."""
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
    """Return the number of a zone; None for an invalid one."""
    if zone.type != "Node":
        return None
    return _number(zone.name)


def amount_of(text: str | float) -> int:
    """Return a zone's amount in thousandths, between 0 and LIMIT - 1."""
    if type(text) is str and text.isascii() and text.isdecimal() and len(text) <= _PLAIN_DIGITS:
        # Agents write plain bytes with changing values: caching them is useless.
        return min(int(text) * 1000, LIMIT - 1)
    try:
        return max(0, min(milli_quantity(text), LIMIT - 1))
    except ObjectError:
        return 0


def sets_of(slots: Sequence[int], number: int) -> Iterable[tuple[int, ...]]:
    """Return the sets of `number` zones; if there are more than _MOST_SETS, only sets of neighbours
    in `slots`.
    """
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


NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES: Final = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
CONTAINER, POD = "container", "pod"
DEFAULT_MOST_ZONES: Final = 8
LARGEST_MOST_ZONES: Final = 1024

FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
METHOD: Final = "nodeTopologyPodsFingerprintMethod"
WITH_EXCLUSIVE: Final = "with-exclusive-resources"
ANNOTATION: Final = "topology.node.k8s.io/fingerprint"

ALL, ONLY_EXCLUSIVE, AUTODETECT = "All", "OnlyExclusiveResources", "Autodetect"

_OLD_NAMES: Final = {
    f"{old}{level}": (policy, scope)
    for old, policy in (
        ("SingleNUMANode", SINGLE),
        ("Restricted", RESTRICTED),
        ("BestEffort", BEST_EFFORT),
    )
    for level, scope in (("PodLevel", POD), ("ContainerLevel", CONTAINER))
} | {
    # The value of the design text, with a check container by container. For the other values
    # (Restricted, BestEffort, None) no check is made, as for a kubelet without the attribute.
    "SingleNumaNode": (SINGLE, CONTAINER)
}


class KubeletSettings(msgspec.Struct, frozen=True):
    """A node's kubelet settings; `most_zones` is the largest number of NUMA nodes it handles."""

    policy: str = NONE
    scope: str = CONTAINER
    most_zones: int = DEFAULT_MOST_ZONES


def kubelet_settings(topology: NodeResourceTopology) -> KubeletSettings:
    """Return the settings: the first old name, then attributes field by field."""
    policy, scope, most = NONE, CONTAINER, DEFAULT_MOST_ZONES
    if topology.topology_policies:
        policy, scope = _OLD_NAMES.get(topology.topology_policies[0], (policy, scope))
    for attribute in topology.attributes:
        value = attribute.value
        if attribute.name == "topologyManagerPolicy" and value in POLICIES:
            policy = value
        elif attribute.name == "topologyManagerScope" and value in (CONTAINER, POD):
            scope = value
        elif attribute.name == "topologyManagerMaxNUMANodes":
            most = _most_zones(value, most)
    return KubeletSettings(policy, scope, most)


def expected_fingerprint(topology: NodeResourceTopology) -> str:
    """Return the published fingerprint, or ''."""
    found = attribute(topology.attributes, FINGERPRINT)
    return found or topology.metadata.annotations.get(ANNOTATION, "")


def counts_only_exclusive(topology: NodeResourceTopology, method: str) -> bool:
    """Return whether the fingerprint covers only pods with exclusive resources, by a resync
    method.
    """
    if not attribute(topology.attributes, FINGERPRINT):
        return False  # agents that write the annotation have one method
    if method == AUTODETECT:
        return attribute(topology.attributes, METHOD) == WITH_EXCLUSIVE
    return method == ONLY_EXCLUSIVE


def attribute(attributes: Iterable[NamedValue], name: str) -> str:
    """Return the value of an attribute, or ''."""
    return next((one.value for one in attributes if one.name == name), "")


def _most_zones(text: str, otherwise: int) -> int:
    try:
        number = int(text) if len(text) < 20 else 0
    except ValueError:
        return otherwise
    return min(number, LARGEST_MOST_ZONES) if number > 1 else otherwise
