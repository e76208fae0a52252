"""`Crowd`: the pods on some rows, flat, with what they request as columns over the pods.

Preemption asks what would be if some of them were gone. All pods of the first row come first, then
those of the second, and so on; `index` says for each pod which entry of `rows` it stands on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.state.podindex import Placed
from scheduler.state.resources import CPU, MEMORY, PODS
from scheduler.state.rowlists import AMOUNTS, FIRST_AMOUNT, RowLists

_SCORED = {CPU: 0, MEMORY: 1}


class Party(msgspec.Struct, frozen=True):
    """Pods that leave together: those on one row, and the others with their rows of the table."""

    here: tuple[Placed, ...]
    elsewhere: tuple[tuple[Placed, int], ...] = ()


class Crowd:
    """Pods on `rows`; those of `rows[i]` are the numbers `starts[i]` to `starts[i + 1]`.

    `counts` is the number of pods per row, `find` returns a pod by its number, `known` holds amounts
    that somebody has worked out already. If these are all pods there of a priority below some number,
    that is `below`.

    A number may stand for several pods that leave together: `parties` has them by that number, those of
    this row and those elsewhere. What such a number requests is what its pods on this row do.
    """

    below: int | None = None

    def __init__(
        self,
        rows: Rows,
        counts: IntColumn,
        find: Callable[[int], Placed],
        known: Mapping[str, IntColumn] | None = None,
        parties: Mapping[int, Party] | None = None,
    ) -> None:
        self.rows = rows
        self.counts = counts
        self.pod = find
        self.parties: Mapping[int, Party] = parties or {}
        self.index: Rows = np.repeat(np.arange(len(rows)), counts)
        self.starts: IntColumn = np.concatenate(([0], counts.cumsum()))
        self._amounts = dict(known or {})
        self._scored: dict[str, IntColumn] = {}

    def __len__(self) -> int:
        return len(self.index)

    def pods_of(self, place: int) -> range:
        """Return the numbers of the pods on `rows[place]`."""
        return range(int(self.starts[place]), int(self.starts[place + 1]))

    def here(self, number: int) -> Sequence[Placed]:
        """Return the pods of this row that a number stands for."""
        party = self.parties.get(number)
        return (self.pod(number),) if party is None else party.here

    def everybody(self) -> Iterator[tuple[int, Placed]]:
        """Yield all pods of these rows, each with its number."""
        if not self.parties:
            yield from enumerate(map(self.pod, range(len(self))))
            return
        for number in range(len(self)):
            for placed in self.here(number):
                yield number, placed

    def moves(self, number: int) -> list[tuple[Placed, int]]:
        """Return all pods that a number stands for, with their rows of the table."""
        row = int(self.rows[self.index[number]])
        party = self.parties.get(number)
        if party is None:
            return [(self.pod(number), row)]
        return [*((placed, row) for placed in party.here), *party.elsewhere]

    def reordered(self, order: Rows) -> Crowd:
        """Return the same pods in another order within their rows."""
        amounts = {resource: column[order] for resource, column in self._amounts.items()}
        parties = {}
        if self.parties:
            place = np.argsort(order)
            parties = {int(place[number]): party for number, party in self.parties.items()}
        crowd = Crowd(self.rows, self.counts, lambda pod: self.pod(order[pod]), amounts, parties)
        crowd.below = self.below
        return crowd

    def amounts(self, resource: str) -> IntColumn:
        """Return what each pod requests of a resource; 1 each for `pods`."""
        column = self._amounts.get(resource)
        if column is None:
            if resource == PODS:
                column = np.ones(len(self), dtype=np.int64)
            else:
                pods = map(self.pod, range(len(self)))
                column = _column((pod.requests.get(resource, 0) for pod in pods), len(self))
            for number, party in self.parties.items():
                of = [1 if resource == PODS else p.requests.get(resource, 0) for p in party.here]
                column[number] = sum(of)
            self._amounts[resource] = column
        return column

    def scored(self, resource: str) -> IntColumn:
        """Return what each pod requests of cpu or memory, with assumed amounts where it names none."""
        column = self._scored.get(resource)
        if column is None:
            part = _SCORED[resource]
            pods = map(self.pod, range(len(self)))
            column = _column((pod.scored_requests[part] for pod in pods), len(self))
            for number, party in self.parties.items():
                column[number] = sum(placed.scored_requests[part] for placed in party.here)
            self._scored[resource] = column
        return column


class ListedCrowd(Crowd):
    """The pods of row lists that `keeps` chooses by numbers and fields; `fields` is [field, pod].

    `drops_empty` leaves out the rows without any.
    """

    def __init__(
        self,
        lists: RowLists,
        rows: Rows,
        keeps: Callable[[Rows, IntMatrix], BoolColumn],
        *,
        drops_empty: bool = False,
    ) -> None:
        numbers, counts, fields = lists.on(rows)
        kept = np.flatnonzero(keeps(numbers, fields))
        if len(kept) < len(numbers):
            upto = np.searchsorted(kept, counts.cumsum())
            counts = np.diff(upto, prepend=0)
            numbers, fields = numbers[kept], fields[:, kept]
        if drops_empty and not counts.all():
            held = np.flatnonzero(counts)
            rows, counts = rows[held], counts[held]
        pods, places = lists.pods, numbers.tolist()
        amounts = {name: fields[FIRST_AMOUNT + place] for place, name in enumerate(AMOUNTS)}
        super().__init__(rows, counts, lambda pod: pods[places[pod]], amounts)
        self.fields = fields


def crowd_of(rows: Rows, moves: Sequence[tuple[Placed, int]]) -> Crowd:
    """Return the crowd of these pods with their rows; pods on other rows are left out."""
    if not moves:
        return Crowd(rows, np.zeros(len(rows), dtype=np.int64), _nobody)
    on: dict[int, list[Placed]] = {row: [] for row in rows.tolist()}
    for placed, row in moves:
        if row in on:
            on[row].append(placed)
    pods = [placed for standing in on.values() for placed in standing]
    counts = _column((len(standing) for standing in on.values()), len(on))
    return Crowd(rows, counts, pods.__getitem__)


def _column(numbers: Iterable[int], length: int) -> IntColumn:
    return np.fromiter(numbers, dtype=np.int64, count=length)


def _nobody(number: int) -> Placed:
    raise IndexError(number)
