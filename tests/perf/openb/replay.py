"""A replay of the trace without the engine: columns over nodes, one pod after the other.

The rules are those of the published experiment: a pod is placed at once or rejected for good, ties
go to the node of the lower rank. Scores are cached per shape and recomputed for changed rows.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from tests.perf.openb.data import WHOLE, Ints, Order, TraceNode, TracePod

Floats = NDArray[np.float64]
_MOST_PODS = 1001
_SLOTS = 8


class State:
    """The free amounts of the nodes, rows in the order of their ranks."""

    def __init__(self, nodes: Sequence[TraceNode], ranks: Ints) -> None:
        self.order = np.argsort(ranks)
        ordered = [nodes[row] for row in self.order.tolist()]
        self.nodes = ordered
        self.cpu = np.array([node.cpu for node in ordered], dtype=np.int64)
        self.memory = np.array([node.memory for node in ordered], dtype=np.int64)
        self.devices = np.array([node.devices for node in ordered], dtype=np.int64)
        self.models = np.array([node.model for node in ordered], dtype=np.str_)
        self.free = np.where(np.arange(_SLOTS) < self.devices[:, None], WHOLE, 0)
        self.pods = np.zeros(len(ordered), dtype=np.int64)
        self.sizes: list[Counter[str]] = [Counter() for _ in ordered]
        self.changed: list[int] = []
        self.capacity = int(self.devices.sum()) * WHOLE

    def fits(self, pod: TracePod, rows: Ints) -> NDArray[np.bool_]:
        """Return which of these rows can hold the pod."""
        fits = (self.cpu[rows] >= pod.cpu) & (self.memory[rows] >= pod.memory)
        fits &= self.pods[rows] < _MOST_PODS
        if pod.devices:
            if pod.models:
                fits &= np.isin(self.models[rows], sorted(pod.models))
            fits &= (self.free[rows] >= pod.milli).sum(axis=1) >= pod.devices
        return fits

    def tightest(self, pod: TracePod, row: int) -> list[int]:
        """Return the devices that the experiment's rule takes on a row."""
        free = self.free[row]
        if pod.devices == 0:
            return []
        if pod.milli < WHOLE:
            return [int(np.where(free >= pod.milli, free, 2 * WHOLE).argmin())]
        return [int(place) for place in np.flatnonzero(free >= pod.milli)[: pod.devices]]

    def place(self, pod: TracePod, row: int, devices: Sequence[int]) -> None:
        """Use the pod's requests."""
        self.cpu[row] -= pod.cpu
        self.memory[row] -= pod.memory
        self.pods[row] += 1
        self.free[row, list(devices)] -= pod.milli
        self.sizes[row][pod.size] += 1
        self.changed.append(row)

    def leave(self, pod: TracePod, row: int, devices: Sequence[int]) -> None:
        """Free a placed pod's requests."""
        self.cpu[row] += pod.cpu
        self.memory[row] += pod.memory
        self.pods[row] -= 1
        self.free[row, list(devices)] += pod.milli
        self.sizes[row][pod.size] -= 1
        self.changed.append(row)


class Policy(Protocol):
    """Scores rows: the highest wins.

    `devices` has the device for a shared pod, -1 for the rule's.
    """

    def scores(self, state: State, pod: TracePod, rows: Ints) -> tuple[Floats, Ints]:
        """Return the score of each row, all of which fit, and the device it is for."""

    def arrives(self, pod: TracePod) -> bool:
        """Note an arrival; return whether scores of unchanged rows are different now."""


class Run(msgspec.Struct):
    """The course of one run."""

    capacity: int
    asked: Ints
    used: Ints
    fragmented: Floats
    refused: Counter[str]
    arrived: Counter[str]
    first_refusal: float | None
    pods: int

    def allocation(self, percent: int) -> float:
        """Return the allocation at a percentage of arrivals, as the experiment takes it."""
        return self._at(percent, np.round(self.used * 100 / self.capacity, 2))

    def fragmentation(self, percent: int) -> float:
        """Return the fragmented share of all devices at a percentage of arrivals."""
        return self._at(percent, np.round(self.fragmented * 100 / self.capacity, 2))

    def _at(self, percent: int, values: Floats) -> float:
        arrived = self.asked * 100 / self.capacity
        chosen = np.round(arrived) == percent
        if not chosen.any():
            chosen = (arrived >= percent - 1) & (arrived <= percent + 1)
        return float(np.round(values[chosen].mean(), 2))


class _Kept:
    def __init__(self, size: int) -> None:
        self.mark = -1
        self.fits = np.zeros(size, dtype=np.bool_)
        self.scores = np.full(size, -np.inf)
        self.devices = np.full(size, -1, dtype=np.int64)


class Replay:
    """One run of a policy; `rng` breaks ties at random, without one the lower rank wins."""

    def __init__(
        self, state: State, policy: Policy, rng: np.random.Generator | None = None
    ) -> None:
        self.state = state
        self._policy = policy
        self._rng = rng
        self._kept: dict[TracePod, _Kept] = {}

    def best(self, pod: TracePod) -> tuple[int, int] | None:
        """Return the row and the device (-1: by the rule) for a pod, None if it fits nowhere."""
        if self._policy.arrives(pod):
            self._kept.clear()
        kept = self._refreshed(pod)
        rows = np.flatnonzero(kept.fits)
        if not len(rows):
            return None
        if len(rows) == 1:
            return int(rows[0]), -1
        if self._rng is None:
            row = int(kept.scores.argmax())
        else:
            row = int(self._rng.choice(np.flatnonzero(kept.scores == kept.scores.max())))
        return row, int(kept.devices[row])

    def _refreshed(self, pod: TracePod) -> _Kept:
        state = self.state
        kept = self._kept.get(pod)
        if kept is None:
            kept = self._kept[pod] = _Kept(len(state.cpu))
            rows = np.arange(len(state.cpu))
        else:
            rows = np.array(sorted(set(state.changed[kept.mark :])), dtype=np.int64)
        kept.mark = len(state.changed)
        if len(rows):
            fits = state.fits(pod, rows)
            kept.fits[rows] = fits
            kept.scores[rows[~fits]] = -np.inf
            good = rows[fits]
            if len(good):
                kept.scores[good], kept.devices[good] = self._policy.scores(state, pod, good)
        return kept


def run_arrivals(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    order: Order,
    policy: Policy,
    fragmentation: "Fragmentation | None" = None,
    rng: np.random.Generator | None = None,
) -> Run:
    """Run all arrivals of one seed."""
    state = State(nodes, order.ranks)
    replay = Replay(state, policy, rng)
    asked = used = 0
    run = empty_run(state.capacity, len(order.pods))
    for index, number in enumerate(order.pods.tolist()):
        pod = pods[number]
        asked += pod.asked
        found = replay.best(pod)
        before_end = asked <= state.capacity
        run.arrived[pod.size] += before_end
        if found is None:
            run.refused[pod.size] += before_end
            if run.first_refusal is None:
                run.first_refusal = asked * 100 / state.capacity
        else:
            row, device = found
            taken = [device] if device >= 0 else state.tightest(pod, row)
            state.place(pod, row, taken)
            used += pod.asked
            run.pods += 1
            if fragmentation is not None:
                fragmentation.moved(state, row)
        run.asked[index], run.used[index] = asked, used
        if fragmentation is not None:
            run.fragmented[index] = fragmentation.total
    return run


class Fragmentation(Protocol):
    """Keeps the fragmented amount of all nodes."""

    total: float

    def moved(self, state: State, row: int) -> None:
        """Recompute a row."""


def empty_run(capacity: int, arrivals: int) -> Run:
    """Return a run that has not begun."""
    asked, used = np.zeros(arrivals, dtype=np.int64), np.zeros(arrivals, dtype=np.int64)
    return Run(capacity, asked, used, np.zeros(arrivals), Counter(), Counter(), None, 0)
