"""Rules between pods, as tags: required (anti-)affinity and host ports of movable and waiting pods.

A namespace selector is treated as selecting all namespaces, which is conservative. Filters judge a
pod against running pods; these rules cover pods that arrive together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from scheduler.moves.solver.problem import NODE_LEVEL, Anchor, Conflict
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod, PodAffinityTerm
from scheduler.objects.selectors import selector_matches
from scheduler.state.shapes import host_ports

HOSTNAME = "kubernetes.io/hostname"
MOST_TERMS = 400  # distinct terms that a problem takes; a cluster with more gets no plan


class Levels:
    """The levels of a problem by topology key, in the order of their first use."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self.numbers: dict[str, int] = {}
        self.domains: list[tuple[int, ...]] = []
        self.names: list[tuple[str, ...]] = []

    def of(self, key: str) -> int:
        """Return the number of the level that a label makes."""
        if key not in self.numbers:
            values = [node.metadata.labels.get(key) for node in self._nodes]
            names = sorted({value for value in values if value is not None})
            ranks = {value: at for at, value in enumerate(names)}
            self.numbers[key] = len(self.domains)
            self.domains.append(tuple(-1 if v is None else ranks[v] for v in values))
            self.names.append(tuple(names))
        return self.numbers[key]


class PodRules:
    """Tags of pods, and the conflicts and anchors between them."""

    def __init__(self, pods: Iterable[Pod], levels: Levels) -> None:
        self._levels = levels
        pods = list(pods)
        self._anti = _terms(pods, "pod_anti_affinity")
        self._near = _terms(pods, "pod_affinity")
        self._ports: dict[tuple[str, int], int] = {}
        for pod in pods:
            for port in host_ports(pod):
                self._ports.setdefault((port.protocol, port.host_port), len(self._ports))

    @property
    def is_too_large(self) -> bool:
        """Return whether there are more distinct terms than a problem supports."""
        return len(self._anti) + len(self._near) > MOST_TERMS

    def tags(self, pod: Pod) -> frozenset[str]:
        """Return the tags of a pod."""
        found = {f"port{self._ports[one.protocol, one.host_port]}" for one in host_ports(pod)}
        for word, terms, field in (
            ("anti", self._anti, "pod_anti_affinity"),
            ("near", self._near, "pod_affinity"),
        ):
            own = _own_terms(pod, field)
            for at, term in enumerate(terms):
                if term in own:
                    found.add(f"{word}{at}")
                if _matches(term, pod):
                    found.add(f"{word}{at}?")
        return frozenset(found)

    def conflicts(self) -> tuple[Conflict, ...]:
        """Return the conflicts of ports and of anti-affinity."""
        ports = [Conflict(NODE_LEVEL, f"port{at}", f"port{at}") for at in self._ports.values()]
        terms = [
            Conflict(self._levels.of(term[1].topology_key), f"anti{at}", f"anti{at}?")
            for at, term in enumerate(self._anti)
        ]
        return (*ports, *terms)

    def anchors(self, staying: Iterable[tuple[int, Pod]]) -> tuple[Anchor, ...]:
        """Return the affinities; `staying` are pods that cannot move, with their nodes."""
        anchored: defaultdict[int, set[int]] = defaultdict(set)
        if self._near:
            for node, pod in staying:
                for at, term in enumerate(self._near):
                    if _matches(term, pod):
                        level = self._levels.of(term[1].topology_key)
                        anchored[at].add(self._levels.domains[level][node])
        return tuple(
            Anchor(
                self._levels.of(term[1].topology_key),
                f"near{at}",
                f"near{at}?",
                frozenset(anchored[at] - {-1}),
            )
            for at, term in enumerate(self._near)
        )


_Term = tuple[str, PodAffinityTerm]  # the namespace of the pod that has it


def _terms(pods: Iterable[Pod], field: str) -> list[_Term]:
    found: dict[bytes, _Term] = {}
    for pod in pods:
        for term in _own_terms(pod, field):
            found.setdefault(repr(term).encode(), term)
    return list(found.values())


def _own_terms(pod: Pod, field: str) -> list[_Term]:
    affinity = pod.spec.affinity
    side = None if affinity is None else getattr(affinity, field)
    return [] if side is None else [(pod.metadata.namespace, term) for term in side.required]


def _matches(term: _Term, pod: Pod) -> bool:
    namespace, record = term
    own = record.namespaces or (namespace,)
    if record.namespace_selector is None and pod.metadata.namespace not in own:
        return False
    return selector_matches(record.label_selector, pod.metadata.labels)
