"""Reads the openb files: nodes, pods, orders of arrival, published figures."""

import csv
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np
from numpy.typing import NDArray

TRACES = ("default", "cpu200", "gpushare40", "gpushare100", "gpuspec33", "multigpu50")
SEEDS = tuple(range(42, 52))
WHOLE = 1000  # milli-GPU of a device

Ints = NDArray[np.int64]


class TracePod(msgspec.Struct, frozen=True):
    """A pod as the trace has it: milli-cores, MiB, devices, milli of each, models it may run on."""

    cpu: int
    memory: int
    devices: int
    milli: int
    spec: str = ""

    @property
    def models(self) -> frozenset[str]:
        """Return the models it names; none means any."""
        return frozenset(part for part in self.spec.split("|") if part)

    @property
    def asked(self) -> int:
        """Return its milli-GPU in all."""
        return self.devices * self.milli

    @property
    def size(self) -> str:
        """Return the name of its size class."""
        if self.devices == 0:
            return "cpu only"
        if self.milli < WHOLE:
            return "shared"
        return f"{self.devices} GPU"


class TraceNode(msgspec.Struct, frozen=True):
    """A node: milli-cores, MiB, devices, their model."""

    name: str
    cpu: int
    memory: int
    devices: int
    model: str


class Order(msgspec.Struct, frozen=True):
    """One seed: rows of the pods in order of arrival, and the rank of each node."""

    pods: Ints
    ranks: Ints


def nodes(folder: Path) -> list[TraceNode]:
    """Return the nodes in the order of the file."""
    return [
        TraceNode(
            row["sn"],
            int(row["cpu_milli"]),
            int(row["memory_mib"]),
            int(row["gpu"]),
            row["model"],
        )
        for row in _rows(folder / "nodes.csv")
    ]


def pods(folder: Path, trace: str) -> list[TracePod]:
    """Return the pods of a trace in the order of the file."""
    return [_pod(row) for row in _rows(folder / f"pods_{trace}.csv.gz")]


def orders(folder: Path, trace: str) -> dict[int, Order]:
    """Return the arrivals by seed."""
    parts: dict[int, dict[str, Ints]] = {}
    with _open(folder / "orders" / f"{trace}.txt.gz") as lines:
        for line in lines:
            seed, what, *numbers = line.split()
            parts.setdefault(int(seed), {})[what] = np.array(numbers, dtype=np.int64)
    return {seed: Order(part["pods"], part["nodes"]) for seed, part in parts.items()}


def published(folder: Path) -> dict[tuple[str, str, int], dict[str, float]]:
    """Return the authors' figures by trace, policy and seed."""
    return {
        (row["trace"], row["policy"], int(row["seed"])): _figures(row)
        for row in _rows(folder / "published_runs.csv.gz")
    }


def measured(folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return the study's means by trace and policy."""
    return {(row["trace"], row["policy"]): _figures(row) for row in _rows(folder / "measured.csv")}


def bounds(folder: Path) -> dict[tuple[str, int], dict[str, float]]:
    """Return the study's bounds by trace and seed."""
    return {(row["trace"], int(row["seed"])): _figures(row) for row in _rows(folder / "bounds.csv")}


def _figures(row: Mapping[str, Any]) -> dict[str, float]:
    texts = ("trace", "policy", "seed")
    return {key: float(value) for key, value in row.items() if key not in texts and value}


def _pod(row: Mapping[str, Any]) -> TracePod:
    return TracePod(
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        int(row["num_gpu"]),
        int(row["gpu_milli"]) if int(row["num_gpu"]) else 0,
        row.get("gpu_spec") or "",
    )


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with _open(path) as lines:
        yield from csv.DictReader(lines)


def _open(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", newline="")
    return path.open(newline="")
