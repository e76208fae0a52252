"""Random small clusters as lists of moves, for comparing plugins with slow references."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from scheduler.framework.plugin import Plugin
from scheduler.objects.plain import read_node, read_pod
from scheduler.testing import node, pod
from scheduler.testing.scene import Scene

GPU = "example.com/gpu"
NAMES = ("n0", "n1", "n2", "n3")

# Small numbers make ties, zeros and exact fits likely; a few are past the exact range of float64.
# The largest amount that counts (2**56) is left out: a pod with such a request fits nowhere.
_small = st.integers(0, 12)
_cpu_milli = st.one_of(_small, st.integers(0, 64_000))
_bytes = st.one_of(_small, st.integers(0, 2**40), st.sampled_from([2**46, 2**53 - 1, 2**55]))


class Amounts(msgspec.Struct, frozen=True):
    """Whole units; None = not named at all."""

    cpu_milli: int | None
    memory: int | None
    gpu: int | None = None

    def plain(self) -> dict[str, Any]:
        """Return a resource list."""
        cpu = None if self.cpu_milli is None else f"{self.cpu_milli}m"
        found = {"cpu": cpu, "memory": self.memory, GPU: self.gpu}
        return {name: amount for name, amount in found.items() if amount is not None}

    def get(self, name: str) -> int | None:
        """Return the amount of a resource."""
        return {"cpu": self.cpu_milli, "memory": self.memory, GPU: self.gpu}[name]


def amounts(*, optional: bool) -> st.SearchStrategy[Amounts]:
    """Return amounts; `optional` ones may leave resources out."""

    def maybe(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
        return st.one_of(st.none(), numbers) if optional else numbers

    return st.builds(Amounts, maybe(_cpu_milli), maybe(_bytes), st.one_of(st.none(), _small))


class Move(msgspec.Struct, frozen=True):
    """A node is put or dropped, or a pod put on a node or dropped."""

    kind: str
    name: str
    amounts: Amounts = Amounts(None, None)
    pods: int = 110
    node: str = ""


moves = st.lists(
    st.one_of(
        st.builds(
            Move,
            st.just("node"),
            st.sampled_from(NAMES),
            amounts(optional=False),
            st.sampled_from([0, 1, 2, 110]),
        ),
        st.builds(Move, st.just("drop node"), st.sampled_from(NAMES)),
        st.builds(
            Move,
            st.just("pod"),
            st.sampled_from(["a", "b", "c", "d", "e"]),
            amounts(optional=True),
            st.just(0),
            st.sampled_from(NAMES),
        ),
        st.builds(Move, st.just("drop pod"), st.sampled_from(["a", "b", "c", "d", "e"])),
    ),
    min_size=1,
    max_size=15,
)


class SimulatedCluster:
    """The moves' outcome twice: in a scene with a plugin, and in plain dictionaries."""

    def __init__(self, plugin: type[Plugin[Any]], args: Mapping[str, Any] | None = None) -> None:
        self.scene = Scene(plugin, args)
        self.nodes: dict[str, tuple[Amounts, int]] = {}
        self.pods: dict[str, tuple[str, Amounts]] = {}

    def do(self, move: Move) -> None:
        """Carry a move out on both sides."""
        cluster = self.scene.cluster
        if move.kind == "node":
            raw = node(move.name, allocatable=move.amounts.plain() | {"pods": move.pods})
            cluster.put_node(read_node(raw))
            self.nodes[move.name] = (move.amounts, move.pods)
        elif move.kind == "drop node":
            cluster.drop_node(move.name)
            self.nodes.pop(move.name, None)
        elif move.kind == "pod":
            placed = read_pod(pod(move.name, node_name=move.node, requests=move.amounts.plain()))
            cluster.put_pod(placed)
            self.pods[move.name] = (move.node, move.amounts)
        else:
            cluster.drop_pod(f"Pod/default/{move.name}")
            self.pods.pop(move.name, None)

    def on(self, name: str) -> list[Amounts]:
        """Return the requests of the pods on a node."""
        return [requests for node_name, requests in self.pods.values() if node_name == name]
