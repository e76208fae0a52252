"""`History`: the lifecycle of all pods as the API server reports it, with the invariants checked at
each step.

It follows the watch from before the first pod, so it sees every state that the API server ever
stored. The pods of these tests request cpu in milli ("100m") and nothing else.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.apiserver.patience import until
from tests.real.api import Api

Json = dict[str, Any]


class History:
    """The node of each pod, and the violations of invariants."""

    def __init__(self, cpu_milli: Mapping[str, int]) -> None:
        self._cpu_milli = cpu_milli
        self._used: Counter[str] = Counter()
        self.nodes: dict[str, str] = {}
        self.problems: list[str] = []
        self.gone: list[str] = []

    @property
    def bound(self) -> int:
        """How many pods are bound."""
        return len(self.nodes)

    async def until_bound(self, count: int) -> float:
        """Wait until `count` pods are bound; return the seconds it took."""
        return await until(lambda: self.bound >= count, f"{count} pods to be bound")

    async def follow(self, api: Api, resource_version: str) -> None:
        """Follow the pods until cancelled."""
        async for event in api.watch("/api/v1/pods", resource_version):
            self.take(event)

    def take(self, event: Json) -> None:
        """Process one watch event."""
        pod = event["object"]
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        before = self.nodes.get(name, "")
        if event["type"] == "DELETED":
            self.gone.append(name)
            self.nodes.pop(name, None)
            self._used[before] -= cpu_milli(pod)
        elif before and node != before:
            self.problems.append(f"{name} was on {before}, now on {node or 'no node'}")
        elif node and not before:
            self.nodes[name] = node
            self._used[node] += cpu_milli(pod)
            if self._used[node] > self._cpu_milli.get(node, 0):
                self.problems.append(
                    f"{node} overcommitted by {name}: {self._used[node]}m of "
                    f"{self._cpu_milli.get(node, 0)}m"
                )


def cpu_milli(pod: Json) -> int:
    """Return a pod's request, in thousandths of a CPU."""
    asked = [c["resources"]["requests"]["cpu"] for c in pod["spec"]["containers"]]
    return sum(int(each.removesuffix("m")) for each in asked)
