"""InterPodAffinity, the slow way: node by node, pod by pod and term by term."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.unit.plugins.slowselectors import matches, with_keys
from tests.unit.plugins.smallclusters import Manifest, SmallCluster

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Pair = tuple[str, str]


class SlowAffinity:
    """Computes the expected results of InterPodAffinity for one pod in a cluster."""

    def __init__(
        self, cluster: SmallCluster, pod: Manifest, args: Mapping[str, Any] | None
    ) -> None:
        self.cluster = cluster
        self.pod = pod
        self.args = args or {}

    def filter(self) -> dict[str, str] | None:
        """Return each rejected node's reason, None for Skip."""
        near = required(self.pod, "podAffinity")
        far = required(self.pod, "podAntiAffinity")
        attracting: set[Pair] = set()
        repelling: set[Pair] = set()
        existing: set[Pair] = set()
        for other, node in self.cluster.placed():
            if near and all(self.own_matches(term, other) for term in near):
                attracting |= {pair for term in near for pair in domain(term, node)}
            for term in far:
                if self.own_matches(term, other):
                    repelling |= domain(term, node)
            for term in required(other, "podAntiAffinity"):
                if self.others_matches(term, other):
                    existing |= domain(term, node)
        if not (near or far or existing):
            return None
        is_first = not attracting and all(self.own_matches(term, self.pod) for term in near)
        return {
            name: reason
            for name, node in self.cluster.nodes.items()
            if (reason := _verdict(node, near, attracting, is_first, repelling, existing))
        }

    def score(self, feasible: Sequence[str]) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return raw and normalized scores, None for Skip."""
        own = [*preferred(self.pod, "podAffinity"), *preferred(self.pod, "podAntiAffinity")]
        if self.args.get("ignorePreferredTermsOfExistingPods") and not own:
            return None
        weights: dict[Pair, int] = {}
        for other, node in self.cluster.placed():
            for term, weight in (*self.own_weights(other), *self.others_weights(other)):
                for pair in domain(term, node):
                    weights[pair] = weights.get(pair, 0) + weight
        if not weights:
            return None
        raw = {
            name: sum(
                weight
                for (key, value), weight in weights.items()
                if self.cluster.nodes[name]["metadata"]["labels"].get(key) == value
            )
            for name in feasible
        }
        most, least = max(raw.values(), default=0), min(raw.values(), default=0)
        return raw, {
            name: int(100 * ((score - least) / (most - least))) if most > least else 0
            for name, score in raw.items()
        }

    def own_weights(self, other: Manifest) -> Iterator[tuple[Manifest, int]]:
        """Yield the pod's preferred terms that a placed pod matches."""
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for one in preferred(self.pod, kind):
                if self.own_matches(one["podAffinityTerm"], other):
                    yield one["podAffinityTerm"], sign * one["weight"]

    def others_weights(self, other: Manifest) -> Iterator[tuple[Manifest, int]]:
        """Yield a placed pod's terms that the pod matches."""
        hard = self.args.get("hardPodAffinityWeight", 1)
        if hard:
            for term in required(other, "podAffinity"):
                if self.others_matches(term, other):
                    yield term, hard
        for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            for one in preferred(other, kind):
                if self.others_matches(one["podAffinityTerm"], other):
                    yield one["podAffinityTerm"], sign * one["weight"]

    def own_matches(self, term: Manifest, other: Manifest) -> bool:
        """Return whether a pod matches a term of the pod; namespaces are looked up by name
        before.
        """
        selector = term.get("namespaceSelector")
        names = namespaces(term, self.pod)
        if selector is not None:
            names |= {
                one["metadata"]["name"]
                for one in self.cluster.of("Namespace")
                if matches(selector, one["metadata"]["labels"])
            }
        everywhere = selector == {}  # also namespaces without an object
        return (everywhere or other["metadata"]["namespace"] in names) and _labels_match(
            term, self.pod, other
        )

    def others_matches(self, term: Manifest, owner: Manifest) -> bool:
        """Return whether the pod matches a term of a placed pod."""
        own = self.pod["metadata"]["namespace"]
        found = [one for one in self.cluster.of("Namespace") if one["metadata"]["name"] == own]
        labels = found[0]["metadata"]["labels"] if found else {}
        meant = own in namespaces(term, owner) or matches(term.get("namespaceSelector"), labels)
        return meant and _labels_match(term, owner, self.pod)


def _verdict(
    node: Manifest,
    near: Sequence[Manifest],
    attracting: set[Pair],
    is_first: bool,
    repelling: set[Pair],
    existing: set[Pair],
) -> str:
    labels = node["metadata"]["labels"]
    for term in near:
        key = term["topologyKey"]
        if key not in labels or not (is_first or (key, labels[key]) in attracting):
            return AFFINITY
    if repelling & labels.items():
        return ANTI
    return EXISTING if existing & labels.items() else ""


def _labels_match(term: Manifest, owner: Manifest, other: Manifest) -> bool:
    selector = term.get("labelSelector")
    # A key that is in the selector as well was merged by the API server.
    there = {one["key"] for one in (selector or {}).get("matchExpressions", ())}
    there |= set((selector or {}).get("matchLabels", ()))
    same = tuple(key for key in term.get("matchLabelKeys", ()) if key not in there)
    others = tuple(key for key in term.get("mismatchLabelKeys", ()) if key not in there)
    merged = with_keys(selector, owner["metadata"]["labels"], same, others)
    return matches(merged, other["metadata"]["labels"])


def domain(term: Manifest, node: Manifest) -> set[Pair]:
    """Return the domain of a node in a term's topology, if it has one."""
    key = term["topologyKey"]
    labels = node["metadata"]["labels"]
    return {(key, labels[key])} if key in labels else set()


def namespaces(term: Manifest, owner: Manifest) -> set[str]:
    """Return the namespaces that a term names."""
    if not term.get("namespaces") and term.get("namespaceSelector") is None:
        return {owner["metadata"]["namespace"]}
    return set(term.get("namespaces", ()))


def required(pod: Manifest, kind: str) -> list[Manifest]:
    """Return the required terms of a pod."""
    found: list[Manifest] = pod["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, [])
    return found


def preferred(pod: Manifest, kind: str) -> list[Manifest]:
    """Return the preferred terms of a pod."""
    found: list[Manifest] = pod["spec"].get("affinity", {}).get(kind, {}).get(PREFERRED, [])
    return found
