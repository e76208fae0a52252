"""The openb replay with moves: `python -m tests.perf.openb.moving --data DIR`.

A pod that would be rejected and requests 0.8 GPU or more is admitted if the planner of moves finds
a plan for it, with at most one move per requested GPU. A run has at most 10, 50 or 200 moves. The
planner's nodes are devices where pods of one GPU are concerned, and rows elsewhere; it does not
know that devices of a row share cpu and memory. Therefore the replay checks each plan device by
device, and plans again without a destination that it rejects, as `trellis moves` does by filters.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scheduler.moves.solver import problem as planning
from scheduler.moves.solver.planner import SearchLimits, plan
from scheduler.plugins.fragmentation.loss import Weights
from tests.perf.openb import data
from tests.perf.openb.data import WHOLE, Order, TraceNode, TracePod
from tests.perf.openb.policies import BestFit, FragmentationAware, worth_of
from tests.perf.openb.replay import Policy, Replay, Run, State, empty_run

LEAST = 800  # milli-GPU of a pod that moves are planned for
CANDIDATES = 64  # nodes or devices, of the least lower bound, that a plan may clear
ROUNDS = 6
PLENTY = 10**9


class Bound(NamedTuple):
    """A running pod: its requests, its row, its devices."""

    pod: TracePod
    row: int
    devices: tuple[int, ...]


class Target(NamedTuple):
    """A node of the problem: a row, and one of its devices or -1 for the row as a whole."""

    row: int
    device: int


class Relocation(NamedTuple):
    """Pods by their numbers with their destinations, and the place that is free afterwards."""

    moves: tuple[tuple[int, Target], ...]
    place: Target


class Moving:
    """The running pods, and plans that move some of them."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.bound: dict[int, Bound] = {}
        self._on: defaultdict[int, dict[int, Bound]] = defaultdict(dict)  # by row
        self._next = 0
        self._refused: set[TracePod] = set()  # without a plan since the last move

    def add(self, pod: TracePod, row: int, devices: Sequence[int]) -> None:
        """Place a pod."""
        self.state.place(pod, row, devices)
        self.bound[self._next] = self._on[row][self._next] = Bound(pod, row, tuple(devices))
        self._next += 1

    def admit(self, pod: TracePod, most: int) -> int:
        """Admit a pod by a plan of at most `most` moves; return how many, 0 if there is none."""
        most = min(most, max(1, pod.devices))
        # Pods added since then do not help: an earlier rejection holds until a move.
        if most < 1 or pod.asked < LEAST or pod in self._refused:
            return 0
        found = self._planned(pod, most)
        if found is None:
            self._refused.add(pod)
            return 0
        for number, target in found.moves:
            moved = self._on[self.bound[number].row].pop(number)
            del self.bound[number]
            self.state.leave(moved.pod, moved.row, moved.devices)
            self.add(moved.pod, target.row, self._devices(moved.pod, target))
        self.add(pod, found.place.row, self._devices(pod, found.place))
        self._refused.clear()
        return len(found.moves)

    def _devices(self, pod: TracePod, target: Target) -> list[int]:
        return [target.device] if target.device >= 0 else self.state.tightest(pod, target.row)

    def _planned(self, pod: TracePod, most: int) -> Relocation | None:
        """Return a plan that the replay accepts."""
        rejected: set[tuple[int, Target]] = set()
        for _ in range(ROUNDS):
            question = Question(self.state, self._on, pod, most, rejected)
            if not question.pods:
                return None
            answer = plan(question.problem(), SearchLimits(5.0))
            if not answer.moves or len(answer.moves) > most:
                return None
            moves = tuple((question.pods[m.pod], question.targets[m.target]) for m in answer.moves)
            found = Relocation(moves, question.targets[answer.placed[0].node])
            wrong = self._rejected(pod, found)
            if wrong is None:
                return found
            rejected.add(wrong)
        return None

    def _rejected(self, pod: TracePod, found: Relocation) -> tuple[int, Target] | None:
        """Return the first move that does not fit while all sources run, or whose pod's place is
        not free in the end; None if there is none. The state is unchanged.
        """
        state = self.state
        done: list[Bound] = []
        left: list[Bound] = []
        wrong = None
        for number, target in found.moves:
            moved = self.bound[number].pod
            rows = np.array([target.row])
            devices = self._devices(moved, target)
            free = state.free[target.row, devices]
            if not state.fits(moved, rows)[0] or (free < moved.milli).any():
                wrong = number, target
                break
            state.place(moved, target.row, devices)
            done.append(Bound(moved, target.row, tuple(devices)))
        if wrong is None:
            left = [self.bound[number] for number, _ in found.moves]
            for one in left:
                state.leave(*one)
            if not state.fits(pod, np.array([found.place.row]))[0]:
                wrong = found.moves[-1]
        for one in left:
            state.place(*one)
        for one in done:
            state.leave(*one)
        return wrong


class Question:
    """A problem of the planner for one pod: the places that cost least, and all destinations.

    Resources: `here`, what the pod needs of its place (milli-GPU of a device, or whole devices of a
    row); milli-GPU of a destination's device, or whole devices of a destination; cpu; memory. A
    node of the problem is a place or a destination. A pod may be in several places, one of which is
    cleared.
    """

    def __init__(
        self,
        state: State,
        on: dict[int, dict[int, Bound]],
        pod: TracePod,
        most: int,
        rejected: set[tuple[int, Target]],
    ) -> None:
        self._state, self._on, self._pod, self._most = state, on, pod, most
        self._rejected = rejected
        self._rows = np.arange(len(state.cpu))
        self._accepted: dict[TracePod, frozenset[int]] = {}
        models = np.isin(state.models, sorted(pod.models)) if pod.models else True
        bounds: list[tuple[int, Target, tuple[int, ...]]] = []
        for row in np.flatnonzero(models & (state.devices >= pod.devices)).tolist():
            bounds += self._candidates(row)
        self._chosen = sorted(bounds)[:CANDIDATES]
        self.targets = [place for _, place, _ in self._chosen]
        self.pods = [number for _, _, numbers in self._chosen for number in numbers]

    def _candidates(self, row: int) -> list[tuple[int, Target, tuple[int, ...]]]:
        """Return places of a row that at most `most` moves may clear: least number, place, pods."""
        mine = {
            number: one for number, one in self._on[row].items() if self._accepting(one.pod) - {row}
        }
        found = []
        for device in range(int(self._state.devices[row])) if self._pod.devices == 1 else (-1,):
            least = self._least(Target(row, device), list(mine.values()))
            if least <= self._most:
                found.append((least, Target(row, device), tuple(mine)))
        return found

    def _least(self, place: Target, pods: list[Bound]) -> int:
        """Return a lower bound on the number of pods to move away from a place; PLENTY if moving
        all of them is not enough.
        """
        state, pod, row = self._state, self._pod, place.row
        here, gains = pod.milli, [_gain(one, place) for one in pods]
        if place.device < 0:
            here = pod.devices
            shared = {one.devices[0] for one in pods if 0 < one.pod.milli < WHOLE}
            gains = [one.pod.devices for one in pods if one.pod.milli == WHOLE]
            gains += [1] * len(shared)
        return max(
            _fewest(here - self._here(place), gains),
            _fewest(pod.cpu - int(state.cpu[row]), [one.pod.cpu for one in pods]),
            _fewest(pod.memory - int(state.memory[row]), [one.pod.memory for one in pods]),
        )

    def _here(self, place: Target) -> int:
        free = self._state.free[place.row]
        return int(free[place.device]) if place.device >= 0 else int((free >= WHOLE).sum())

    def _accepting(self, pod: TracePod) -> frozenset[int]:
        """Return the rows that accept a pod now."""
        if pod not in self._accepted:
            fits = self._state.fits(pod, self._rows)
            self._accepted[pod] = frozenset(np.flatnonzero(fits).tolist())
        return self._accepted[pod]

    def problem(self) -> planning.Problem:
        """Return the problem."""
        running = [self._on[place.row][n] for _, place, numbers in self._chosen for n in numbers]
        sources = [at for at, (_, _, numbers) in enumerate(self._chosen) for _ in numbers]
        nodes = [self._node(place, is_place=True) for place in self.targets]
        destinations = self._destinations({one.pod for one in running})
        numbers = {place: len(nodes) + at for at, place in enumerate(destinations)}
        nodes += [self._node(place, is_place=False) for place in destinations]
        self.targets += destinations
        sets: dict[frozenset[int], int] = {}
        pods: list[planning.Pod] = []
        together: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for at, (number, one) in enumerate(zip(self.pods, running, strict=True)):
            accepting = frozenset(
                numbers[place]
                for row in self._accepting(one.pod) - {one.row}
                for place in self._places(one.pod, row)
                if (number, place) not in self._rejected
            )
            place = self.targets[sources[at]]
            here = _gain(one, place)
            is_shared = place.device < 0 and 0 < one.pod.milli < WHOLE
            members = together[(sources[at], *one.devices) if is_shared else (-1, at)]
            # Pods of one device free it together: the first of them counts it.
            request = (int(not members) if is_shared else here, *_wanted(one.pod))
            members.append(at)
            pods.append(
                planning.Pod(str(at), sources[at], request, sets.setdefault(accepting, len(sets)))
            )
        claimable = sets.setdefault(frozenset(range(len(self._chosen))), len(sets))
        here = self._pod.milli if self._pod.devices == 1 else self._pod.devices
        role = planning.Role((here, 0, 0, self._pod.cpu, self._pod.memory), 1, claimable)
        return planning.Problem(
            ("here", "milli", "whole", "cpu", "memory"),
            tuple(nodes),
            tuple(pods),
            tuple(planning.Unit(str(one[0]), tuple(one)) for one in together.values()),
            tuple(sets),
            planning.Fit((planning.Claim("pod", (role,)),)),
        )

    def _node(self, place: Target, *, is_place: bool) -> planning.Node:
        state, row = self._state, place.row
        here = milli = whole = PLENTY
        if is_place:
            here = self._here(place)
        elif place.device >= 0:
            milli = self._here(place)
        else:
            whole = self._here(place)
        free = here, milli, whole, int(state.cpu[row]), int(state.memory[row])
        return planning.Node(f"{row}/{place.device}/{is_place}", free)

    def _destinations(self, shapes: set[TracePod]) -> list[Target]:
        """Return the devices and rows that accept one of these pods."""
        found = {
            place
            for pod in shapes
            for row in self._accepting(pod)
            for place in self._places(pod, row)
        }
        return sorted(found)

    def _places(self, pod: TracePod, row: int) -> list[Target]:
        """Return the places of a row that fits a pod: its devices, or the row for other pods."""
        if pod.devices != 1:
            return [Target(row, -1)]
        return [Target(row, n) for n in np.flatnonzero(self._state.free[row] >= pod.milli).tolist()]


def _wanted(pod: TracePod) -> planning.Amounts:
    """Return a pod's requests of its destination."""
    milli, whole = (pod.milli, 0) if pod.devices == 1 else (0, pod.devices)
    return milli, whole, pod.cpu, pod.memory


def _gain(one: Bound, place: Target) -> int:
    """Return the amount that a pod frees in a place: milli-GPU of the device, or whole devices of
    the row.
    """
    if place.device >= 0:
        return one.pod.milli if place.device in one.devices else 0
    return one.pod.devices if one.pod.milli == WHOLE else 0


def _fewest(missing: int, gains: list[int]) -> int:
    """Return how many of the largest gains cover the missing amount; PLENTY if all do not."""
    count = 0
    for gain in sorted(gains, reverse=True):
        if missing <= 0:
            break
        missing -= gain
        count += 1
    return count if missing <= 0 else PLENTY


def run_arrivals(
    nodes: Sequence[TraceNode], pods: Sequence[TracePod], order: Order, policy: Policy, most: int
) -> tuple[Run, int]:
    """Run all arrivals of one seed with at most `most` moves; return the run and its moves."""
    state = State(nodes, order.ranks)
    replay, moving = Replay(state, policy), Moving(state)
    run = empty_run(state.capacity, len(order.pods))
    asked = used = moves = 0
    for index, number in enumerate(order.pods.tolist()):
        pod = pods[number]
        asked += pod.asked
        found = replay.best(pod)
        if found is not None:
            row, device = found
            moving.add(pod, row, [device] if device >= 0 else state.tightest(pod, row))
            used += pod.asked
        else:
            count = moving.admit(pod, most - moves)
            moves += count
            used += pod.asked if count else 0
        run.asked[index], run.used[index] = asked, used
    return run, moves


def main() -> None:
    """Print a line per run: GPUs allocated in %, at 100 and 130 % of arrivals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the trace")
    parser.add_argument("--traces", default="default")
    parser.add_argument("--seeds", default="42,43,44")
    parser.add_argument("--moves", default="0,10,50,200")
    options = parser.parse_args()
    nodes = data.nodes(options.data)
    sys.stdout.write("trace,policy,seed,moves_allowed,moves,alloc_100,alloc_130\n")
    for trace in options.traces.split(","):
        pods, orders = data.pods(options.data, trace), data.orders(options.data, trace)
        worth = worth_of(pods, nodes)
        for seed in map(int, options.seeds.split(",")):
            for most in map(int, options.moves.split(",")):
                for policy in (BestFit(), FragmentationAware(worth, Weights())):
                    run, moves = run_arrivals(nodes, pods, orders[seed], policy, most)
                    sys.stdout.write(
                        f"{trace},{type(policy).__name__},{seed},{most},{moves},"
                        f"{run.allocation(100)},{run.allocation(130)}\n"
                    )
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
