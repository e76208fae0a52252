"""`Reservations`: the pods of one node compared with its published topology.

Over-reserving depends on one question: which pods do the published figures already include? An
agent answers it with a fingerprint of the pods it observed. A pod outside it is owed: it is
deducted from every zone until a later report includes it, or the pod ends. Reports are old when
they arrive, so recent sets of pods are compared as well as the current one. The zones of pods, and
the amounts that each zone regains, are known only where the agent publishes them, and for the pods
that its last accepted report includes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.framework import IntColumn, PerShape, Placed
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.objects.reports.numaplacement import METADATA, VECTOR, Name, zones_of
from scheduler.objects.reports.podfingerprint import fingerprint, is_fingerprint, mark_of
from scheduler.plugins.numa.demand import Needs, ZoneDemand, exclusive_by_container, shared_rest
from scheduler.plugins.numa.zones import attribute, zone_id

# How many recent arrivals and departures of pods are kept.
_REMEMBERED = 48


class Owed(msgspec.Struct, frozen=True):
    """A pod that the figures do not include; the two flags are for foreign pods."""

    needs: Needs
    is_foreign: bool = False
    is_exclusive: bool = False


NOTHING_OWED = Owed(())


class NodeTotals(msgspec.Struct, frozen=True):
    """The exclusive amounts of a node's pods, by resource and then by slot.

    `is_reported` states whether an agent reports their zones, `holds` whether any pod has such
    amounts, and `highest` is the highest priority of those.
    """

    is_reported: bool
    holds: bool
    highest: int
    used: dict[str, IntColumn]


class Reservations(msgspec.Struct, eq=False):
    """One node's pods compared with its topology.

    `taken` is the object that decisions use (its zones list `listed`), `waiting` a newer one whose
    pods are unknown. `seen` are the uids that the figures include; None means that none were
    reported, and then pods that had started when they were first observed count as seen.
    """

    name: str
    taken: NodeResourceTopology | None = None
    listed: frozenset[str] = frozenset()
    waiting: NodeResourceTopology | None = None
    seen: frozenset[str] | None = None
    owed: dict[str, Owed] = {}
    since: float | None = None
    is_reported: bool = False
    # The pods that the figures include, if the agent reports the zones of their containers.
    frozen: tuple[Placed, ...] = ()
    # container → zone, as requested so far; empty if the agent does not report it
    placement: dict[Name, int] | None = None
    # uid → zones, and a pod's exclusive amounts there, as requested so far
    shares: dict[str, tuple[tuple[int, Needs], ...]] = {}
    # The sum of all pods on the node; None if it must be recomputed.
    node_totals: NodeTotals | None = None
    _marks: dict[str, int] = {}
    # A pod, and whether it was added or left; the newest last.
    _log: list[tuple[Placed, bool]] = []

    def remember(self, placed: Placed, *, came: bool) -> None:
        """Record that a pod was added to the node, or left it."""
        self.node_totals = None
        if len(self._log) >= 2 * _REMEMBERED:
            del self._log[:_REMEMBERED]
        self._log.append((placed, came))

    def went(self, placed: Placed) -> Owed | None:
        """Record that a pod left the node; return its reserved amounts."""
        self.remember(placed, came=False)
        self._marks.pop(placed.pod.metadata.uid, None)
        return self.owed.pop(placed.pod.metadata.uid, None)

    def misses(self, placed: Placed) -> bool:
        """Return whether the figures do not include a pod on the node."""
        if self.seen is not None:
            return placed.pod.metadata.uid not in self.seen
        return placed.assumed or placed.pod.status.phase == "Pending"

    def accounted_for(self, pods: Mapping[str, Placed]) -> Iterator[Placed]:
        """Yield the pods that the figures include, also those that have left since."""
        yield from (placed for placed in pods.values() if not self.misses(placed))
        if self.seen is not None:
            went = {placed.pod.metadata.uid: placed for placed, came in self._log if not came}
            yield from (one for uid, one in went.items() if uid in self.seen and uid not in pods)

    def names_of(self, uids: Iterable[str]) -> list[str]:
        """Return `namespace/name` of pods that arrived while the node was followed."""
        known = {placed.pod.metadata.uid: placed.pod.key for placed, _ in self._log}
        return [known.get(uid, uid) for uid in uids]

    def taken_for(self) -> dict[str, int]:
        """Return the total needs of pods that the report does not account for yet, by resource."""
        total: dict[str, int] = {}
        for owed in self.owed.values():
            for name, amount in owed.needs:
                total[name] = total.get(name, 0) + amount
        return total

    def accounted(
        self, text: str, pods: Mapping[str, Placed], counts: Callable[[Placed], bool]
    ) -> frozenset[str] | None:
        """Return the uids of the pods of a fingerprint, None if no known set has it.

        `pods` are on the node now; `counts` is True for pods that the method covers. Pods that it
        does not cover are in the result as soon as they have started.
        """
        if not is_fingerprint(text):
            return None
        covered = {uid: self._mark(placed) for uid, placed in pods.items() if counts(placed)}
        for found in self._candidates(pods, covered, counts):
            if fingerprint(found.values()) == text:
                rest = (u for u, one in pods.items() if u not in covered and _has_started(one))
                return frozenset((*found, *rest))
        return None

    def _candidates(
        self,
        pods: Mapping[str, Placed],
        covered: dict[str, int],
        counts: Callable[[Placed], bool],
    ) -> Iterator[dict[str, int]]:
        """Yield sets of pods that an agent may have observed, the likely ones first."""
        yield covered
        tried = {frozenset(covered)}
        for keeps in (_has_started, _runs, _stays, _stays_and_runs):
            part = {uid: mark for uid, mark in covered.items() if keeps(pods[uid])}
            if frozenset(part) not in tried:
                tried.add(frozenset(part))
                yield part
        yield from self._past(covered, counts)
        if self.seen is None:
            yield from _without_youngest(pods, covered)

    def _past(
        self, covered: dict[str, int], counts: Callable[[Placed], bool]
    ) -> Iterator[dict[str, int]]:
        """Yield the recent sets, the newest first."""
        past = dict(covered)
        for placed, came in reversed(self._log[-_REMEMBERED:]):
            if not counts(placed):
                continue
            if not came:
                past[placed.pod.metadata.uid] = mark_of(*_name(placed))
            elif past.pop(placed.pod.metadata.uid, None) is None:
                continue
            yield past

    def _mark(self, placed: Placed) -> int:
        uid = placed.pod.metadata.uid
        mark = self._marks.get(uid)
        if mark is None:
            mark = self._marks[uid] = mark_of(*_name(placed))
        return mark


def _name(placed: Placed) -> tuple[str, str]:
    return placed.pod.metadata.namespace, placed.pod.metadata.name


def _without_youngest(
    pods: Mapping[str, Placed], covered: dict[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the pods without the 1, 2, … 8 newest: those that a report misses after a restart."""
    by_age = sorted(covered, key=lambda uid: (pods[uid].pod.status.start_time or "~", uid))
    for number in range(1, min(len(by_age), 8) + 1):
        yield {uid: covered[uid] for uid in by_age[:-number]}


def _has_started(placed: Placed) -> bool:
    return not placed.assumed and placed.pod.status.phase != "Pending"


def _runs(placed: Placed) -> bool:
    return placed.pod.status.phase == "Running"


def _stays(placed: Placed) -> bool:
    return not placed.pod.is_terminating


def _stays_and_runs(placed: Placed) -> bool:
    return _stays(placed) and _runs(placed)


# zone number → resource → thousandths
Freed = dict[int, dict[str, int]]
# Zone numbers, and the amounts used there.
Shares = tuple[tuple[int, Needs], ...]


def listed_by(topology: NodeResourceTopology) -> frozenset[str]:
    """Return the resources that the zones of a report list."""
    return frozenset(resource.name for zone in topology.zones for resource in zone.resources)


def says_where(topology: NodeResourceTopology) -> bool:
    """Return whether a report has the zones of containers."""
    return bool(attribute(topology.attributes, METADATA))


def zones_of_containers(
    reserved: Reservations, demand: PerShape[ZoneDemand]
) -> Mapping[Name, int] | None:
    """Return the zone number of each container of a node; None without data.

    The agent lists containers with exclusive resources, of the pods that its figures include.
    """
    if reserved.taken is None:
        return None
    if reserved.placement is None:
        own, every = set(), set()
        for placed in reserved.frozen:
            wanted = demand.of(placed)
            used = exclusive_by_container(wanted, reserved.listed)
            for name, part, needs in zip(_containers(placed), wanted.parts, used, strict=True):
                if part.stays:
                    every.add(name)
                if needs:
                    own.add(name)
        reserved.placement = _decoded(reserved.taken, own) or _decoded(reserved.taken, every) or {}
    return reserved.placement or None


def freed_by(
    pods: Iterable[Placed], reserved: Reservations, demand: PerShape[ZoneDemand]
) -> Freed | None:
    """Return the exclusive amounts of pods by zone; None if no agent reports their zones."""
    freed: Freed = {}
    for placed in pods:
        shares = shares_of(placed, reserved, demand)
        if shares is None:
            return None
        for zone, needs in shares:
            amounts = freed.setdefault(zone, {})
            for name, amount in needs:
                amounts[name] = amounts.get(name, 0) + amount
    return freed


def node_totals_of(
    pods: Iterable[Placed], reserved: Reservations, demand: PerShape[ZoneDemand], ids: Sequence[int]
) -> NodeTotals:
    """Return the exclusive amounts of all pods of a node; `ids` are the numbers of its zones."""
    shares = [(placed, shares_of(placed, reserved, demand)) for placed in pods]
    holding = [(placed, used) for placed, used in shares if used]
    amounts: dict[str, list[int]] = {}
    for _, used in holding:
        for zone, needs in used:
            if zone in ids:
                for name, amount in needs:
                    amounts.setdefault(name, [0] * len(ids))[ids.index(zone)] += amount
    return NodeTotals(
        is_reported=any(used is not None for _, used in shares),
        holds=bool(holding),
        highest=max((placed.pod.priority for placed, _ in holding), default=0),
        used={name: np.array(by_slot, dtype=np.int64) for name, by_slot in amounts.items()},
    )


def shares_of(
    placed: Placed, reserved: Reservations, demand: PerShape[ZoneDemand]
) -> Shares | None:
    """Return the exclusive amounts of a pod.

    None if no agent reports the zones of the node's pods.
    """
    uid = placed.pod.metadata.uid
    shares = reserved.shares.get(uid)
    if shares is None:
        zone_of = zones_of_containers(reserved, demand)
        if zone_of is None:
            return None
        shares = reserved.shares[uid] = tuple(
            _shares(placed, demand.of(placed), zone_of, reserved.listed)
        )
    return shares


def _shares(
    placed: Placed, wanted: ZoneDemand, zone_of: Mapping[Name, int], listed: frozenset[str]
) -> Iterator[tuple[int, Needs]]:
    """Yield the zones of a pod's containers with exclusive amounts, and the amounts.

    The pod-level amounts are in their zone; if there are several, no agent reports which.
    """
    used = exclusive_by_container(wanted, listed)
    zones: set[int] = set()
    for name, part, needs in zip(_containers(placed), wanted.parts, used, strict=True):
        zone = zone_of.get(name) if part.stays else None
        if zone is not None:
            zones.add(zone)
            if needs:
                yield zone, needs
    rest = shared_rest(wanted, used, listed)
    if rest and len(zones) == 1:
        yield zones.pop(), rest


def _containers(placed: Placed) -> Iterator[Name]:
    """Yield the names of a pod's containers in the order in which they start."""
    spec = placed.pod.spec
    for container in (*spec.init_containers, *spec.containers):
        yield (*_name(placed), container.name)


def _decoded(topology: NodeResourceTopology, names: Collection[Name]) -> dict[Name, int] | None:
    numbered = ((zone_id(zone), attribute(zone.attributes, VECTOR)) for zone in topology.zones)
    vectors = {number: text for number, text in numbered if number is not None and text}
    return zones_of(attribute(topology.attributes, METADATA), vectors, names)
