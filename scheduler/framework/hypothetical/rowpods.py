"""`RowPods`: the pods on some rows, flat, with their requests as columns over the pods.

The input of hypothetical evaluation: preemption passes its victims, the engine the pods nominated
to nodes. The pods of the first row come first, then those of the second, and so on; `index` has,
for each pod, its position in `rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn, Rows
from scheduler.state.counts.touched import Touched
from scheduler.state.podindex import Placed
from scheduler.state.resources import CPU, MEMORY, PODS

_SCORED = {CPU: 0, MEMORY: 1}


class Companions(msgspec.Struct, frozen=True):
    """Pods that are removed together: those on one row, and the others with their rows of the
    table.
    """

    here: tuple[Placed, ...]
    elsewhere: tuple[tuple[Placed, int], ...] = ()


class RowPods:
    """Pods on `rows` of the table.

    Those of `rows[i]` are the numbers `starts[i]` to `starts[i + 1]`. `counts` is how many there
    are per row, `pod` returns one by its number, `known` holds amounts that are already computed.
    If these are all pods there below some priority, `below` is that priority. A number may stand
    for several pods that are removed together: `companions` has them by that number. The requests
    of such a number are those of its pods on this row.
    """

    below: int | None = None

    def __init__(
        self,
        rows: Rows,
        counts: IntColumn,
        find: Callable[[int], Placed],
        known: Mapping[str, IntColumn] | None = None,
        companions: Mapping[int, Companions] | None = None,
    ) -> None:
        self.rows = rows
        self.counts = counts
        self.pod = find
        self.companions: Mapping[int, Companions] = companions or {}
        self.index: Rows = np.repeat(np.arange(len(rows)), counts)
        self.starts: IntColumn = np.concatenate(([0], counts.cumsum()))
        self._known = {(name, False): column for name, column in (known or {}).items()}

    def __len__(self) -> int:
        return len(self.index)

    def pods_of(self, place: int) -> range:
        """Return the numbers on `rows[place]`."""
        return range(int(self.starts[place]), int(self.starts[place + 1]))

    def here(self, number: int) -> Sequence[Placed]:
        """Return the pods of this row that a number represents."""
        together = self.companions.get(number)
        return (self.pod(number),) if together is None else together.here

    def everybody(self) -> Iterator[tuple[int, Placed]]:
        """Yield all pods of these rows, each with its number."""
        if not self.companions:
            yield from enumerate(map(self.pod, range(len(self))))
            return
        for number in range(len(self)):
            for placed in self.here(number):
                yield number, placed

    def moves(self, number: int) -> list[tuple[Placed, int]]:
        """Return all pods that a number represents, with their rows of the table."""
        row = int(self.rows[self.index[number]])
        together = self.companions.get(number)
        if together is None:
            return [(self.pod(number), row)]
        return [*((placed, row) for placed in together.here), *together.elsewhere]

    def reordered(self, order: Rows) -> RowPods:
        """Return the same pods in another order within their rows."""
        known = {
            name: column[order] for (name, scored), column in self._known.items() if not scored
        }
        place = np.argsort(order)
        companions = {int(place[number]): together for number, together in self.companions.items()}
        twin = RowPods(self.rows, self.counts, lambda pod: self.pod(order[pod]), known, companions)
        twin.below = self.below
        return twin

    def amounts(self, resource: str, *, scored: bool = False) -> IntColumn:
        """Return each pod's request of a resource; 1 each for `pods`.

        With `scored`, requests of cpu or memory with assumed amounts where there is none.
        """
        key = resource, scored
        column = self._known.get(key)
        if column is None:

            def of(placed: Placed) -> int:
                if scored:
                    return placed.scored_requests[_SCORED[resource]]
                return 1 if resource == PODS else placed.requests.get(resource, 0)

            if resource == PODS:
                column = np.ones(len(self), dtype=np.int64)
            else:
                column = _column((of(self.pod(pod)) for pod in range(len(self))), len(self))
            for number, together in self.companions.items():
                column[number] = sum(map(of, together.here))
            self._known[key] = column
        return column

    def sums(self, amounts: IntColumn) -> IntColumn:
        """Return the sums of a column over the pods, row by row."""
        sums: IntColumn = np.diff(np.concatenate(([0], amounts)).cumsum()[self.starts])
        return sums


def row_pods(rows: Rows, moves: Sequence[tuple[Placed, int]] = ()) -> RowPods:
    """Return these pods with their rows; pods on rows outside `rows` are left out."""
    if not moves:
        return RowPods(rows, np.zeros(len(rows), dtype=np.int64), _no_pod)
    on: dict[int, list[Placed]] = {row: [] for row in rows.tolist()}
    for placed, row in moves:
        if row in on:
            on[row].append(placed)
    pods = [placed for on_row in on.values() for placed in on_row]
    return RowPods(rows, _column(map(len, on.values()), len(on)), pods.__getitem__)


class Nominated(msgspec.Struct, frozen=True):
    """The nominated pods whose capacity an attempt must not use: none of lower priority.

    `rows` are the rows with such pods, in order, `on` returns those on given rows. `touched` is the
    log of rows where that changed; None if there is none for this pod. `apart` returns the members
    of groups that a filter's rules connect with the pod, by the filter's name: such rules count in
    whole domains, not on the members' rows alone, since a group that waits for its victims may have
    no other placement.
    """

    rows: Rows
    on: Callable[[Rows], RowPods]
    touched: Touched | None = None
    apart: Callable[[], Mapping[str, Sequence[Placed]]] = dict


NONE_NOMINATED = Nominated(np.zeros(0, dtype=np.intp), row_pods)


def _no_pod(number: int) -> Placed:
    raise IndexError(number)


def _column(numbers: Iterable[int], length: int) -> IntColumn:
    return np.fromiter(numbers, dtype=np.int64, count=length)
