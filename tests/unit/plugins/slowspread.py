"""A naive PodTopologySpread for comparison: node by node and pod by pod, from the
documented rules.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from tests.unit.plugins.slowselectors import is_empty, matches, with_keys
from tests.unit.plugins.smallclusters import HOSTNAME, ZONE, Manifest, SmallCluster

REASON = "node(s) didn't match pod topology spread constraints"
SYSTEM = (
    {"topologyKey": HOSTNAME, "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": ZONE, "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"},
)


class SlowSpread:
    """Computes the expected results of PodTopologySpread for one pod in a cluster."""

    def __init__(
        self, cluster: SmallCluster, pod: Manifest, args: Mapping[str, Any] | None
    ) -> None:
        self.cluster = cluster
        self.pod = pod
        self.labels = pod["metadata"]["labels"]
        self.args = args or {}
        self.is_system = self.args.get("defaultingType", "System") == "System"

    def filter(self) -> dict[str, str] | None:
        """Return the reason by rejected node, None for Skip."""
        found = self.constraints("DoNotSchedule")
        if not found:
            return None
        included = [node for node in self.cluster.nodes.values() if self.has_keys(node, found)]
        return {
            name: reason
            for name, node in self.cluster.nodes.items()
            if (reason := self.verdict(node, found, included))
        }

    def verdict(self, node: Manifest, found: Sequence[Any], included: Sequence[Any]) -> str:
        """Return why a node is rejected, or nothing."""
        for constraint in found:
            value = node["metadata"]["labels"].get(constraint["topologyKey"])
            if value is None:
                return f"{REASON} (missing required label)"
            counts: dict[str, int] = {}
            for other in included:
                if self.is_included(other, constraint):
                    domain = other["metadata"]["labels"][constraint["topologyKey"]]
                    counts[domain] = counts.get(domain, 0) + self.count(other, constraint)
            wanted = constraint.get("minDomains", 1)
            least = min(counts.values()) if len(counts) >= max(wanted, 1) else 0
            own = matches(constraint["selector"], self.labels)
            if counts.get(value, 0) + own - least > constraint["maxSkew"]:
                return REASON
        return ""

    def score(self, feasible: Sequence[str]) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return raw and normalized scores, None for Skip."""
        found = self.constraints("ScheduleAnyway")
        if not found:
            return None
        needs_keys = bool(self.pod["spec"].get("topologySpreadConstraints")) or not self.is_system
        nodes = [self.cluster.nodes[name] for name in feasible]
        kept = [node for node in nodes if not needs_keys or self.has_keys(node, found)]
        raw = {}
        for node in nodes:
            total = 0.0  # not sum(): newer Pythons round differently
            for one in found:
                total += self.part(node, one, found, kept, needs_keys)
            raw[node["metadata"]["name"]] = int(total + 0.5) if node in kept else 0
        names = [node["metadata"]["name"] for node in kept]
        most = max((raw[name] for name in names), default=0)
        least = min((raw[name] for name in names), default=0)
        normalized = dict.fromkeys(feasible, 0)
        for name in names:
            normalized[name] = 100 if most == 0 else 100 * (most + least - raw[name]) // most
        return raw, normalized

    def part(
        self,
        node: Manifest,
        constraint: Mapping[str, Any],
        found: Sequence[Any],
        kept: Sequence[Manifest],
        needs_keys: bool,
    ) -> float:
        """Return the contribution of one constraint to a node's score."""
        key = constraint["topologyKey"]
        if key not in node["metadata"]["labels"]:
            return 0.0
        if key == HOSTNAME:
            number, size = self.count(node, constraint), len(kept)
        else:
            value = node["metadata"]["labels"][key]
            size = len({other["metadata"]["labels"].get(key, "") for other in kept})
            number = sum(
                self.count(other, constraint)
                for other in self.cluster.nodes.values()
                if (not needs_keys or self.has_keys(other, found))
                and self.is_included(other, constraint)
                and other["metadata"]["labels"].get(key, "") == value
            )
        return number * log(size + 2) + float(constraint["maxSkew"] - 1)

    def constraints(self, action: str) -> list[dict[str, Any]]:
        """Return the constraints of one action with their selectors."""
        own = self.pod["spec"].get("topologySpreadConstraints")
        if own:
            return [
                one
                | {
                    "selector": with_keys(
                        one.get("labelSelector"),
                        self.labels,
                        tuple(one.get("matchLabelKeys", ())),
                    )
                }
                for one in own
                if one["whenUnsatisfiable"] == action
            ]
        written = SYSTEM if self.is_system else self.args.get("defaultConstraints", ())
        selector = self.owners_selector()
        if is_empty(selector):
            return []
        return [
            one | {"selector": selector} for one in written if one["whenUnsatisfiable"] == action
        ]

    def owners_selector(self) -> Manifest:
        """Return the conjunction of the selectors of the pod's services and of its controller."""
        pairs: dict[str, str] = {}
        more: list[Manifest] = []
        if self.pod["metadata"]["namespace"] == "default":
            for service in self.cluster.of("Service"):
                if matches({"matchLabels": service["spec"]["selector"]}, self.labels):
                    pairs |= service["spec"]["selector"]
        for owner in self.pod["metadata"].get("ownerReferences", ()):
            for one in self.cluster.of(owner["kind"]):
                selector = one["spec"]["selector"]
                if one["metadata"]["name"] != owner["name"]:
                    continue
                if owner["kind"] == "ReplicationController":
                    pairs |= selector
                    continue
                for key, value in selector["matchLabels"].items():
                    more.append({"key": key, "operator": "In", "values": [value]})
        return {"matchLabels": pairs, "matchExpressions": more}

    def has_keys(self, node: Manifest, found: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a node has all topology keys."""
        return all(one["topologyKey"] in node["metadata"]["labels"] for one in found)

    def is_included(self, node: Manifest, constraint: Mapping[str, Any]) -> bool:
        """Return whether nodeAffinityPolicy and nodeTaintsPolicy include a node."""
        wanted = self.pod["spec"].get("nodeSelector", {})
        labels = node["metadata"]["labels"]
        if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and any(
            labels.get(key) != value for key, value in wanted.items()
        ):
            return False
        tolerates = bool(self.pod["spec"].get("tolerations"))
        return constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore" or all(
            taint["effect"] == "PreferNoSchedule" or tolerates for taint in node["spec"]["taints"]
        )

    def count(self, node: Manifest, constraint: Mapping[str, Any]) -> int:
        """Return the number of matching pods on a node."""
        if is_empty(constraint["selector"]):
            return 0
        return sum(
            raw["spec"]["nodeName"] == node["metadata"]["name"]
            and raw["metadata"]["namespace"] == self.pod["metadata"]["namespace"]
            and "deletionTimestamp" not in raw["metadata"]
            and matches(constraint["selector"], raw["metadata"]["labels"])
            for raw in self.cluster.pods.values()
        )
