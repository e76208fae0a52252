"""A slow model of NetworkOverhead over plain manifests, written from the notes alone.

It shares only the reading of quantities with the plugin. `ours` adds the changes of the policy: a
link listed in one direction serves both (D7), pods on unknown nodes are ignored (D2), the AppGroup
of the pod's own namespace precedes others, for its pods too (D8), dependents may count (D28).
"""

from dataclasses import dataclass
from typing import Any

GROUP = "appgroup.diktyo.x-k8s.io"
WORKLOAD = "appgroup.diktyo.x-k8s.io.workload"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
UNKNOWN = 100


class PeerError(Exception):
    """The peer ends the attempt with an error, or itself."""


@dataclass
class Model:
    """One question: a pod, the nodes, the placed pods, the objects, the arguments."""

    pod: dict[str, Any]
    nodes: list[dict[str, Any]]
    placed: list[dict[str, Any]]
    objects: list[dict[str, Any]]
    args: dict[str, Any]
    ours: bool = True
    dependents: bool = False

    def group(self) -> dict[str, Any] | None:
        """Return the pod's AppGroup."""
        return self._group_of(self.pod)

    def _group_of(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        name = labels_of(pod).get(GROUP)
        if not name:
            return None
        spaces = list(self.args.get("namespaces") or ["default"])
        if self.ours:
            spaces.insert(0, pod["metadata"].get("namespace", "default"))
        return self._find("AppGroup", name, spaces)

    def topology(self) -> dict[str, Any] | None:
        """Return the NetworkTopology."""
        spaces = list(self.args.get("namespaces") or ["default"])
        return self._find(
            "NetworkTopology", self.args.get("networkTopologyName", "nt-default"), spaces
        )

    def ties(self) -> list[tuple[str, int, bool]]:
        """Return (workload, limit, whether the other one depends on it) of each dependency."""
        group = self.group()
        if group is None:
            return []
        own = labels_of(self.pod).get(WORKLOAD, "")
        found = []
        for entry in group["spec"].get("workloads") or []:
            for dependency in entry.get("dependencies") or []:
                limit = dependency.get("maxNetworkCost") or 0
                here, there = entry["workload"]["selector"], dependency["workload"]["selector"]
                if here == own:
                    found.append((there, limit, False))
                elif there == own and self.dependents:
                    found.append((here, limit, True))
        return found

    def bound_pods(self) -> list[tuple[str, str]]:
        """Return (workload, node) of the placed pods of the group."""
        name = labels_of(self.pod).get(GROUP)
        known = {node["metadata"]["name"] for node in self.nodes}
        found = []
        for pod in self.placed:
            node = pod["spec"].get("nodeName")
            if not node or labels_of(pod).get(GROUP) != name:
                continue
            if self.ours and self._group_of(pod) is not self.group():
                continue
            if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                continue
            workload = labels_of(pod).get(WORKLOAD, "")
            if node not in known:
                if not self.ours and any(workload == tie[0] for tie in self.ties()):
                    raise PeerError(node)
                continue
            found.append((workload, node))
        return found

    def judge(self, candidate: str) -> tuple[int, int, int]:
        """Return how many dependencies a node satisfies, how many it does not, and their cost."""
        satisfied = violated = cost = 0
        for workload, node in self.bound_pods():
            for tied, limit, is_dependent in self.ties():
                if tied != workload:
                    continue
                ends = (node, candidate) if is_dependent else (candidate, node)
                price, adds = self._path(*ends, target=node)
                cost += adds
                if price is not None:
                    satisfied += price <= limit
                    violated += price > limit
        return satisfied, violated, cost

    def _path(self, origin: str, destination: str, target: str) -> tuple[float | None, int]:
        """Return the value compared with the limit (None: not counted) and its part in the
        score.
        """
        if origin == destination:
            return -1, 0
        here, there, far = self._place(origin), self._place(destination), self._place(target)
        if far == ("", ""):
            return float("inf"), UNKNOWN
        if here == there:
            return -1, 1
        level = ZONE if here[0] == there[0] else REGION
        ends = (here[1], there[1]) if level == ZONE else (here[0], there[0])
        listed = self._listed(level)
        found = listed.get(ends)
        if found is None and self.ours:
            found = listed.get(ends[::-1])
        return (None, UNKNOWN) if found is None else (found, found)

    def _listed(self, level: str) -> dict[tuple[str, str], int]:
        topology = self.topology()
        weights = (topology or {}).get("spec", {}).get("weights") or []
        found: dict[tuple[str, str], int] = {}
        for table in weights:
            if table["name"] != self.args.get("weightsName", "UserDefined"):
                continue
            for costs in table["topologyList"]:
                for origin in costs["originList"] if costs["topologyKey"] == level else []:
                    for path in origin.get("costList") or []:
                        ends = (origin["origin"], path["destination"])
                        found.setdefault(ends, path["networkCost"])
        return found

    def _place(self, name: str) -> tuple[str, str]:
        node = next(node for node in self.nodes if node["metadata"]["name"] == name)
        return labels_of(node).get(REGION, ""), labels_of(node).get(ZONE, "")

    def _find(self, kind: str, name: str, spaces: list[str]) -> dict[str, Any] | None:
        for space in spaces:
            for raw in self.objects:
                meta = raw["metadata"]
                if raw["kind"] == kind and (meta["name"], meta.get("namespace", "default")) == (
                    name,
                    space,
                ):
                    return raw
        return None


def labels_of(raw: dict[str, Any]) -> dict[str, str]:
    """Return the labels of a manifest."""
    return raw["metadata"].get("labels") or {}


def normalized(raw: dict[str, int]) -> dict[str, int]:
    """Return the scores between 0 and 100."""
    low, high = min(raw.values()), max(raw.values())
    if low == high:
        return dict.fromkeys(raw, 100 if high else 0)
    return {name: 100 - 100 * (cost - low) // (high - low) for name, cost in raw.items()}
