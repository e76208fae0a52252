"""`Reservations`: what is known of the pods of one node beside its published topology.

Over-reserving rests on one question: for which pods do the published figures account already? An
agent answers it with a fingerprint of the pods it saw. What it did not see is owed: it is deducted
from every zone until a later report accounts for it, or the pod goes. Reports are old when they
arrive, so besides the pods as they are now the sets of the recent past are compared as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from scheduler.framework import IntColumn, Placed
from scheduler.objects.numa import NodeResourceTopology
from scheduler.objects.numaplacement import Name
from scheduler.objects.podfingerprint import fingerprint, is_fingerprint, mark_of
from scheduler.plugins.numa.demand import Needs

# How many comings and goings of pods are remembered.
_REMEMBERED = 48


class Owed(msgspec.Struct, frozen=True):
    """A pod that the figures do not account for; the two flags are for foreign pods."""

    needs: Needs
    is_foreign: bool = False
    is_exclusive: bool = False


NOTHING_OWED = Owed(())


class Everybody(msgspec.Struct, frozen=True):
    """What the pods of a node hold of their own, by resource and then by slot.

    `is_told` says whether anybody tells where they run, `holds` whether any of them holds anything, and
    `highest` is the highest priority of those.
    """

    is_told: bool
    holds: bool
    highest: int
    held: dict[str, IntColumn]


class Reservations(msgspec.Struct, eq=False):
    """One node's pods in the light of its topology.

    `taken` is the object that decisions rest on (its zones list `listed`), `waiting` a newer one whose pods we cannot name.
    `seen` are the uids that the figures account for; None means that nobody has said so, and then pods
    that had started when we learnt of them count as seen.
    """

    name: str
    taken: NodeResourceTopology | None = None
    listed: frozenset[str] = frozenset()
    waiting: NodeResourceTopology | None = None
    seen: frozenset[str] | None = None
    owed: dict[str, Owed] = {}
    since: float | None = None
    is_told: bool = False
    # The pods that the figures account for, if the agent says where their containers run.
    frozen: tuple[Placed, ...] = ()
    # container → zone, as far as somebody asked; empty if the agent does not say
    placement: dict[Name, int] | None = None
    # uid → zones, and what a pod holds of its own there, as far as asked for
    shares: dict[str, tuple[tuple[int, Needs], ...]] = {}
    # What all pods on the node hold together; None if that is to be worked out.
    everybody: Everybody | None = None
    _marks: dict[str, int] = {}
    # A pod, and whether it came or went; the newest last.
    _log: list[tuple[Placed, bool]] = []

    def remember(self, placed: Placed, *, came: bool) -> None:
        """Note that a pod came to the node, or left it."""
        self.everybody = None
        if len(self._log) >= 2 * _REMEMBERED:
            del self._log[:_REMEMBERED]
        self._log.append((placed, came))

    def went(self, placed: Placed) -> Owed | None:
        """Note that a pod left the node; return what it was owed."""
        self.remember(placed, came=False)
        self._marks.pop(placed.pod.metadata.uid, None)
        return self.owed.pop(placed.pod.metadata.uid, None)

    def misses(self, placed: Placed) -> bool:
        """Whether the figures do not account for a pod on the node."""
        if self.seen is not None:
            return placed.pod.metadata.uid not in self.seen
        return placed.assumed or placed.pod.status.phase == "Pending"

    def accounted_for(self, pods: Mapping[str, Placed]) -> Iterator[Placed]:
        """Yield the pods that the figures account for, those included that went since."""
        yield from (placed for placed in pods.values() if not self.misses(placed))
        if self.seen is not None:
            went = {placed.pod.metadata.uid: placed for placed, came in self._log if not came}
            yield from (one for uid, one in went.items() if uid in self.seen and uid not in pods)

    def names_of(self, uids: Iterable[str]) -> list[str]:
        """Return `namespace/name` of pods that came while we looked on."""
        known = {placed.pod.metadata.uid: placed.pod.key for placed, _ in self._log}
        return [known.get(uid, uid) for uid in uids]

    def taken_for(self) -> dict[str, int]:
        """Return what all owed pods together take, per resource."""
        total: dict[str, int] = {}
        for owed in self.owed.values():
            for name, amount in owed.needs:
                total[name] = total.get(name, 0) + amount
        return total

    def accounted(
        self, text: str, pods: Mapping[str, Placed], counts: Callable[[Placed], bool]
    ) -> frozenset[str] | None:
        """Return the uids of the pods behind a fingerprint, None if no set we know of has it.

        `pods` are on the node now; `counts` says which pods the method covers. Pods that it does not
        cover are in the answer as soon as they have started.
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
        """Yield sets of pods that an agent may have seen, the likely ones first."""
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
        """Yield the sets of the recent past, the youngest first."""
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
    """Yield the pods without the 1, 2, … 8 that started last: what a report misses after a restart."""
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
