"""The workloads of docs/examples/unlike: their groups, their pods, and the rules for their
placement.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "unlike"
RACK = "topology.trellis.dev/rack"
Json = dict[str, Any]
# Placed pods by name: (rack, node).
Places = Mapping[str, tuple[str, str]]


def objects(name: str) -> list[Json]:
    """Return all objects of an example."""
    return list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))


def group(name: str) -> Json:
    """Return the PodGroup of an example."""
    return objects(name)[0]


def pods(name: str) -> list[Json]:
    """Return the pods of an example.

    Those of a Job equal its controller's, except for their names.
    """
    made = []
    for one in objects(name):
        meta = one["metadata"]
        if one["kind"] == "Pod":
            made.append(one)
        elif one["kind"] == "Job":
            template = one["spec"]["template"]
            for number in range(one["spec"].get("parallelism", 1)):
                mine = template.get("metadata", {}) | {"name": f"{meta['name']}-{number}"}
                made.append({"kind": "Pod", "apiVersion": "v1", **template, "metadata": mine})
    return made


def _racks(places: Places, part: str) -> Counter[str]:
    return Counter(rack for name, (rack, _) in places.items() if part in name)


def _nodes(places: Places, part: str) -> Counter[str]:
    return Counter(node for name, (_, node) in places.items() if part in name)


def ray(places: Places) -> bool:
    """Check that three workers are in each of two racks, and the head in one of these."""
    workers = _racks(places, "worker")
    return sorted(workers.values()) == [3, 3] and set(_racks(places, "head")) <= set(workers)


def mpi(places: Places) -> bool:
    """Check that launcher and ranks are in one rack."""
    return len(_racks(places, "mpi")) == 1


def leaderworkerset(places: Places) -> bool:
    """Check for one rack, each worker on its own node, the leader (without a number) on another."""
    return len(_racks(places, "lws")) == 1 and set(_nodes(places, "lws").values()) == {1}


def serving(places: Places) -> bool:
    """Check that each of two racks has one prefill pod and two decoders."""
    prefill, decode = _racks(places, "prefill"), _racks(places, "decode")
    return prefill.keys() == decode.keys() and (
        sorted(prefill.values()) == [1, 1] and sorted(decode.values()) == [2, 2]
    )


# The rules of each example, written without the solver or its checks.
INVARIANTS: Mapping[str, Callable[[Places], bool]] = {
    "ray": ray, "mpi": mpi, "leaderworkerset": leaderworkerset, "serving": serving,
}  # fmt: skip
