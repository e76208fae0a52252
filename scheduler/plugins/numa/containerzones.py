"""In which zone the pods of a node run, and what each zone gets back when some of them go.

Known only where the agent publishes it, and for the pods that its last accepted report accounts for.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from scheduler.framework import PerShape, Placed
from scheduler.objects.numa import NodeResourceTopology
from scheduler.objects.numaplacement import METADATA, VECTOR, Name, zones_of
from scheduler.plugins.numa.demand import APP, Demand, Needs, exclusive_needs
from scheduler.plugins.numa.reservations import Everybody, Reservations
from scheduler.plugins.numa.settings import attribute
from scheduler.plugins.numa.zones import zone_id

# zone number → resource → thousandths
Freed = dict[int, dict[str, int]]
# Zone numbers, and what is held there.
Shares = tuple[tuple[int, Needs], ...]


def listed_by(topology: NodeResourceTopology) -> frozenset[str]:
    """Return the resources that the zones of a report list."""
    return frozenset(resource.name for zone in topology.zones for resource in zone.resources)


def says_where(topology: NodeResourceTopology) -> bool:
    """Whether a report tells where containers run."""
    return bool(attribute(topology.attributes, METADATA))


def zones_of_containers(book: Reservations, demand: PerShape[Demand]) -> Mapping[Name, int] | None:
    """Return the zone number of each container of a node; None without data.

    The agent lists containers with something of their own, of the pods that its figures account for.
    """
    if book.taken is None:
        return None
    if book.placement is None:
        own, every = set(), set()
        for placed in book.frozen:
            asked, spec = demand.of(placed), placed.pod.spec
            containers = (*spec.init_containers, *spec.containers)
            for container, part in zip(containers, asked.parts, strict=True):
                name = _name(placed, container.name)
                if part.stays:
                    every.add(name)
                if part.stays and _own_needs(part.needs, asked.qos, book.listed):
                    own.add(name)
        book.placement = _decoded(book.taken, own) or _decoded(book.taken, every) or {}
    return book.placement or None


def freed_by(pods: Iterable[Placed], book: Reservations, demand: PerShape[Demand]) -> Freed | None:
    """Return by zone what pods hold of their own; None if nobody says where they run."""
    freed: Freed = {}
    for placed in pods:
        shares = shares_of(placed, book, demand)
        if shares is None:
            return None
        for zone, needs in shares:
            amounts = freed.setdefault(zone, {})
            for name, amount in needs:
                amounts[name] = amounts.get(name, 0) + amount
    return freed


def everybody_on(
    pods: Iterable[Placed], book: Reservations, demand: PerShape[Demand], ids: Sequence[int]
) -> Everybody:
    """Return what all pods of a node hold of their own together; `ids` are the numbers of its zones."""
    shares = [(placed, shares_of(placed, book, demand)) for placed in pods]
    holding = [(placed, held) for placed, held in shares if held]
    amounts: dict[str, list[int]] = {}
    for _, held in holding:
        for zone, needs in held:
            if zone in ids:
                for name, amount in needs:
                    amounts.setdefault(name, [0] * len(ids))[ids.index(zone)] += amount
    return Everybody(
        is_told=any(held is not None for _, held in shares),
        holds=bool(holding),
        highest=max((placed.pod.priority for placed, _ in holding), default=0),
        held={name: np.array(by_slot, dtype=np.int64) for name, by_slot in amounts.items()},
    )


def shares_of(placed: Placed, book: Reservations, demand: PerShape[Demand]) -> Shares | None:
    """Return what a pod holds of its own; None if nobody says where the node's pods run."""
    uid = placed.pod.metadata.uid
    shares = book.shares.get(uid)
    if shares is None:
        zone_of = zones_of_containers(book, demand)
        if zone_of is None:
            return None
        shares = book.shares[uid] = tuple(_shares(placed, demand.of(placed), zone_of, book.listed))
    return shares


def _shares(
    placed: Placed, asked: Demand, zone_of: Mapping[Name, int], listed: frozenset[str]
) -> Iterator[tuple[int, Needs]]:
    """Yield the zones of a pod's containers that hold anything of their own, and what that is."""
    apps = [part for part in asked.parts if part.kind == APP]
    for container, part in zip(placed.pod.spec.containers, apps, strict=True):
        zone = zone_of.get(_name(placed, container.name))
        if zone is not None:
            needs = _own_needs(part.needs, asked.qos, listed)
            if needs:
                yield zone, needs


@lru_cache(maxsize=4096)
def _own_needs(needs: Needs, qos: str, listed: frozenset[str]) -> Needs:
    # Nodes list the same resources, and replicas need the same of them.
    return exclusive_needs(needs, qos, listed)


def _decoded(topology: NodeResourceTopology, names: Collection[Name]) -> dict[Name, int] | None:
    numbered = ((zone_id(zone), attribute(zone.attributes, VECTOR)) for zone in topology.zones)
    vectors = {number: text for number, text in numbered if number is not None and text}
    return zones_of(attribute(topology.attributes, METADATA), vectors, names)


def _name(placed: Placed, container: str) -> Name:
    return placed.pod.metadata.namespace, placed.pod.metadata.name, container
