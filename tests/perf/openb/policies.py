"""The published policies that the benchmark compares with, and this project's own."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.plugins.fragmentation.loss import Left, Weights, device_keys, losses
from scheduler.plugins.fragmentation.mix import Mix, MixShape, SeenShapes, mix_of
from scheduler.plugins.fragmentation.worth import Beside, NodeClass, Worth
from tests.perf.openb.data import WHOLE, Ints, TraceNode, TracePod
from tests.perf.openb.replay import Floats, State

Texts = NDArray[np.str_]
_MOST_CPU = 128_000
_MOST_GPU = 8 * WHOLE
_COVERED = 0.95


def typical(pods: Sequence[TracePod]) -> list[tuple[TracePod, float]]:
    """Return the typical pods of a trace with their shares, most frequent first."""
    counts = Counter((pod.cpu, pod.milli, pod.devices, pod.spec) for pod in pods)
    ordered = sorted(((count, *shape) for shape, count in counts.items()), reverse=True)
    chosen, covered = [], 0
    for count, cpu, milli, devices, spec in ordered:
        if covered >= _COVERED * len(pods):
            break
        chosen.append((TracePod(cpu, 0, devices, milli, spec), count))
        covered += count
    # Scaled in these steps, as the published figures are: one division rounds otherwise, which
    # turns a score of FGD in one of 60 runs.
    total = covered / len(pods)
    return [(pod, count / len(pods) / total) for pod, count in chosen]


class NodeFragmentation:
    """F of node states, by the sum's order of the published figures; kept by state."""

    def __init__(self, shapes: Sequence[tuple[TracePod, float]]) -> None:
        self._cpu = np.array([pod.cpu for pod, _ in shapes])[:, None]
        self._milli = np.array([pod.milli for pod, _ in shapes])[:, None]
        self._devices = np.array([pod.devices for pod, _ in shapes])[:, None]
        self._shares = np.array([share for _, share in shapes])[:, None]
        self._classes = [pod.models for pod, _ in shapes]
        self._admits: dict[str, np.ndarray] = {}
        self._known: dict[tuple[str, int, bytes], float] = {}

    def of(self, models: Texts, cpu: Ints, free: Ints) -> list[float]:
        """Return F of each (model, CPU left, milli-GPU left per device)."""
        ordered = np.sort(free, axis=1)
        keys = [
            (model, left, row.tobytes())
            for model, left, row in zip(models.tolist(), cpu.tolist(), ordered, strict=True)
        ]
        missing = {key: index for index, key in enumerate(keys) if key not in self._known}
        if missing:
            rows = np.array(list(missing.values()))
            values = self._values(models[rows].tolist(), cpu[rows], ordered[rows])
            self._known.update(zip(missing, values.tolist(), strict=True))
        return [self._known[key] for key in keys]

    def _admitting(self, model: str) -> np.ndarray:
        found = self._admits.get(model)
        if found is None:
            found = np.array([not models or model in models for models in self._classes])
            self._admits[model] = found
        return found

    def _values(self, models: Sequence[str], cpu: Ints, free: Ints) -> Floats:
        idle = free.sum(axis=1)[None, :]
        cells = free[None, :, :]
        wanted = self._milli[:, :, None]
        admits = np.array([self._admitting(model) for model in models]).T
        is_cpu = self._devices == 0
        enough = (cells >= wanted).sum(axis=2) >= self._devices
        small = np.where(cells < wanted, cells, 0).sum(axis=2)
        fits_cpu = cpu[None, :] >= self._cpu
        gpu_admits = ~is_cpu & admits
        causes = (
            (gpu_admits & ~enough & ~fits_cpu, idle),
            (gpu_admits & ~enough & fits_cpu, idle),
            (gpu_admits & enough & ~fits_cpu, idle),
            (is_cpu & fits_cpu, idle),
            (is_cpu & ~fits_cpu, idle),
            (~is_cpu & ~admits, idle),
        )
        fitting = (gpu_admits & enough & fits_cpu, small)
        sums: list[Floats] = []
        for index, (mask, amount) in enumerate(causes):
            terms = np.where(mask, self._shares * amount, 0.0)
            if index == 1:
                terms = np.where(fitting[0], self._shares * fitting[1], terms)
            sums.append(np.cumsum(terms, axis=0)[-1])
        total: Floats = sums[0]
        for part in sums[1:]:
            total = total + part
        return total


class TotalFragmentation:
    """F of all nodes."""

    def __init__(self, nodes: NodeFragmentation) -> None:
        self._nodes = nodes
        self._values: Floats | None = None
        self.total = 0.0

    def moved(self, state: State, row: int) -> None:
        """Recompute a row."""
        if self._values is None:
            self._values = np.asarray(self._nodes.of(state.models, state.cpu, state.free))
        rows = slice(row, row + 1)
        values = self._nodes.of(state.models[rows], state.cpu[rows], state.free[rows])
        self._values[row] = values[0]
        self.total = float(self._values.sum())


class Fixed:
    """A policy whose scores follow from the state and the pod alone."""

    def arrives(self, _pod: TracePod) -> bool:
        """Return False: an arrival changes no score."""
        return False


class BestFit(Fixed):
    """The least CPU and GPU left."""

    def scores(self, state: State, pod: TracePod, rows: Ints) -> tuple[Floats, Ints]:
        """Return the published integer score."""
        cpu = (state.cpu[rows] - pod.cpu) / _MOST_CPU * 0.5
        gpu = (state.free[rows].sum(axis=1) - pod.asked) / _MOST_GPU * 0.5
        return np.trunc((1 - cpu - gpu) * 100), np.full(len(rows), -1)


class DotProd(Fixed):
    """The least product of free and requested amounts."""

    def scores(self, state: State, pod: TracePod, rows: Ints) -> tuple[Floats, Ints]:
        """Return the published integer score."""
        cpu = state.cpu[rows] / _MOST_CPU * pod.cpu / _MOST_CPU
        gpu = state.free[rows].sum(axis=1) / _MOST_GPU * pod.asked / _MOST_GPU
        return np.trunc(100 * (1 - (cpu + gpu) / 2)), np.full(len(rows), -1)


class Fgd(Fixed):
    """The least growth of fragmentation (Weng et al.)."""

    def __init__(self, nodes: NodeFragmentation) -> None:
        self._nodes = nodes

    def scores(self, state: State, pod: TracePod, rows: Ints) -> tuple[Floats, Ints]:
        """Return the published integer score and the device of a shared pod."""
        origin, frees, devices = choices(state, pod, rows)
        models = state.models[rows]
        before: Floats = np.asarray(self._nodes.of(models, state.cpu[rows], state.free[rows]))
        after = np.asarray(self._nodes.of(models[origin], state.cpu[rows][origin] - pod.cpu, frees))
        scores = np.trunc(1 / (1 + np.exp(-(before[origin] - after) / 1000)) * 100)
        best = np.full(len(rows), -1.0)
        device = np.full(len(rows), -1)
        np.maximum.at(best, origin, scores)
        for index in range(len(origin) - 1, -1, -1):
            if scores[index] == best[origin[index]]:
                device[origin[index]] = devices[index]
        return best, device


def choices(state: State, pod: TracePod, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return (index of the row, devices' milli left, device) per possible placement of the pod."""
    free = state.free[rows]
    if pod.devices and pod.milli < WHOLE:
        origin, devices = np.nonzero(free >= pod.milli)
        frees = free[origin].copy()
        frees[np.arange(len(origin)), devices] -= pod.milli
        return origin, frees, devices
    frees = free.copy()
    if pod.devices:
        able = free >= pod.milli
        taken = able & (np.cumsum(able, axis=1) <= pod.devices)
        frees -= np.where(taken, pod.milli, 0)
    count = len(rows)
    return np.arange(count), frees, np.full(count, -1)


class FragmentationAware(Fixed):
    """This project's policy: the least loss of worth (scheduler.plugins.fragmentation)."""

    def __init__(self, worth: Worth, weights: Weights) -> None:
        self._worth = worth
        self._weights = weights
        self._numbers = {kind: number for number, kind in enumerate(worth.classes)}
        self._classes: Ints | None = None

    def scores(self, state: State, pod: TracePod, rows: Ints) -> tuple[Floats, Ints]:
        """Return minus the loss and the device of a shared pod."""
        if self._classes is None:
            self._classes = np.array([self._numbers[kind_of(node)] for node in state.nodes])
        free = state.free[rows]
        cpu = state.cpu[rows].astype(np.float64)
        whole = np.zeros(len(rows), dtype=np.int64)
        left = Left(self._classes[rows], (cpu,), free, whole, state.devices[rows])
        loss = losses(self._worth, self._weights, left, (pod.cpu,), pod.devices, pod.milli)
        device = np.full(len(rows), -1)
        if pod.devices == 1 and pod.milli < WHOLE:
            device = device_keys(self._worth, self._weights, free, pod.milli).argmin(axis=1)
        return -loss, device


class LearnedFragmentationAware(FragmentationAware):
    """FragmentationAware without prior knowledge: the mix is that of the pods that have arrived."""

    def __init__(self, nodes: Sequence[TraceNode], weights: Weights, max_drift: float) -> None:
        super().__init__(worth_of((), nodes), weights)
        self._trace_nodes = nodes
        self._seen = SeenShapes(max_drift)

    def arrives(self, pod: TracePod) -> bool:
        """Count the pod; return whether the tables were computed again."""
        if not pod.devices:
            return False
        self._seen.add(shape_of(pod))
        mix = self._seen.renewed()
        if mix is not None:
            self._worth = _worth(mix, self._trace_nodes, 0.005)
        return mix is not None


def worth_of(pods: Sequence[TracePod], nodes: Sequence[TraceNode], bonus: float = 0.005) -> Worth:
    """Return the tables for the whole trace as the mix."""
    return _worth(mix_of(Counter(shape_of(pod) for pod in pods)), nodes, bonus)


def _worth(mix: Mix, nodes: Sequence[TraceNode], bonus: float) -> Worth:
    supply = tuple(sorted(Counter(kind_of(node) for node in nodes).items()))
    return Worth(mix, supply, [Beside("cpu", 500.0, 128_000.0)], bonus)


def shape_of(pod: TracePod) -> MixShape:
    """Return the shape of a pod."""
    return MixShape((pod.cpu,), pod.devices, pod.milli, tuple(sorted(pod.models)))


def kind_of(node: TraceNode) -> NodeClass:
    """Return the class of a node."""
    return NodeClass(node.model, node.devices, (node.cpu,))
